"""word2vec's binary files, as written by the authors' program and gensim, are read like text files of the same
vectors."""

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
    """A file in the binary format; the authors' program writes a newline after each vector, gensim does not."""
    rows = b"".join(
        word.encode() + b" " + row.astype("<f4").tobytes() + end for word, row in zip(words, values, strict=True)
    )
    return f"{len(words)} {values.shape[1]}\n".encode() + rows


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["gensim", "word2vec"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_binary_file_is_read_with_its_vectors(end: bytes, packed: bool, tmp_path: Path) -> None:
    content = binary(WORDS, VALUES, end)
    path = write(tmp_path / "a.bin", gzip.compress(content) if packed else content)
    assert (first_words(path, 3), vector_width(path)) == (WORDS[:3], 7)
    result = read_vectors(path, ["猫", "ZÜRICH", "the", "none"])
    assert np.array_equal(result.values[[0, 2]], VALUES[[2, 0]]) and result.found.tolist() == [True, False, True, False]
    assert (result.num_in_file, result.num_declared) == (5, 5)
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
def test_numbers_of_any_bytes_are_read(numbers: list[float]) -> None:
    values = np.array([numbers, [1.0] * len(numbers)], dtype="<f4")
    with written("a.bin", binary(["b", "a"], values)) as path:
        assert np.array_equal(read_vectors(path, ["a", "b"]).values, values[::-1])


def test_a_truncated_file_is_reported_with_its_number_of_vectors(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bin", binary(WORDS, VALUES)[:-9])
    vectors = read_vectors(path, WORDS)
    assert (vectors.num_in_file, vectors.num_declared) == (4, 5)
    assert "its end is missing" in vectors.describe()


def test_invalid_vectors_are_rejected(tmp_path: Path) -> None:
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


def test_a_text_file_is_not_read_as_binary(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "2 3\na 1 2e-3 3\nb 1.0 -2 4\n")
    assert first_words(path, 9) == ["a", "b"]
