"""word2vec's binary files, as the authors' program and gensim write them, read as the text files of the same vectors
are."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.baselines.word_vectors import load_word_vectors
from clew.data.vectors import first_words, read_vectors, vector_width
from tests.data.written import refusal, write, written

WORDS = ["the", "Zürich", "猫", "2", "a_b"]
VALUES = np.random.default_rng(1).normal(size=(5, 7)).astype("<f4")


def binary(words: list[str], values: np.ndarray, end: bytes = b"") -> bytes:
    """gensim writes nothing behind a vector, the authors' program a newline."""
    rows = b"".join(
        word.encode() + b" " + row.astype("<f4").tobytes() + end for word, row in zip(words, values, strict=True)
    )
    return f"{len(words)} {values.shape[1]}\n".encode() + rows


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["gensim", "word2vec"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_binary_file_has_the_vectors_that_were_written(end: bytes, packed: bool, tmp_path: Path) -> None:
    content = binary(WORDS, VALUES, end)
    path = write(tmp_path / "a.bin", gzip.compress(content) if packed else content)
    assert (first_words(path, 3), vector_width(path)) == (WORDS[:3], 7)
    found = read_vectors(path, ["猫", "ZÜRICH", "the", "none"])
    assert np.array_equal(found.values[[0, 2]], VALUES[[2, 0]]) and found.found.tolist() == [True, False, True, False]
    assert (found.num_in_file, found.num_told) == (5, 5)
    vectors = load_word_vectors(path)
    assert list(vectors.words.words) == WORDS
    assert np.array_equal(vectors.vectors.numpy(), VALUES)


@given(
    st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-1024, max_value=1024),
        min_size=2,
        max_size=9,
    )
)
def test_whatever_bytes_the_numbers_have_they_are_read(numbers: list[float]) -> None:
    values = np.array([numbers, [1.0] * len(numbers)], dtype="<f4")
    with written("a.bin", binary(["b", "a"], values)) as path:
        assert np.array_equal(read_vectors(path, ["a", "b"]).values, values[::-1])


def test_a_file_that_is_cut_off_tells_how_many_it_had(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bin", binary(WORDS, VALUES)[:-9])
    found = read_vectors(path, WORDS)
    assert (found.num_in_file, found.num_told) == (4, 5)
    assert "its end is missing" in found.describe()


def test_what_is_no_vector_is_refused(tmp_path: Path) -> None:
    broken = VALUES.copy()
    broken[1, 3] = np.inf
    path = write(tmp_path / "a.bin", binary(WORDS, broken))
    assert refusal(lambda: read_vectors(path, WORDS)) == (
        f"{path}: word 2: the vector has a number that is not finite; leave the line out"
    )
    path = write(tmp_path / "b.bin", binary(WORDS, VALUES))
    assert refusal(lambda: read_vectors(path, WORDS, dim=9)).startswith(
        f"{path}:1: vectors have 7 numbers, but 9 are required"
    )
    path = write(tmp_path / "c.bin", b"1 99999999\na " + bytes(range(100)))
    assert refusal(lambda: read_vectors(path, WORDS)).startswith(
        f"{path}:1: vectors of 99,999,999 numbers cannot be word vectors; check that"
    )
    path = write(tmp_path / "d.bin", b"2 2\na " + bytes(8) + b"x" * 5000)
    assert refusal(lambda: read_vectors(path, WORDS)).startswith(
        f"{path}: word 2 has more than 4,096 bytes; check that"
    )


def test_a_text_file_stays_one(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "2 3\na 1 2e-3 3\nb 1.0 -2 4\n")
    assert first_words(path, 9) == ["a", "b"]
