import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data.vectors import read_vectors
from tests.data.written import refusal, write, written

GLOVE = "the 0.5 -1 2e-1\nparis 1 2 3\n. . . 4 5 6\nNew 7 8 9\n"
WORDS = ["<pad>", "the", "Paris", "New", "absent", ". . ."]
EXPECTED = [[0, 0, 0], [0.5, -1, 0.2], [1, 2, 3], [7, 8, 9], [0, 0, 0], [4, 5, 6]]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", GLOVE),
        ("word2vec.txt", "4 3\n" + GLOVE),
        ("fasttext.vec", "4 3\n" + GLOVE.replace("\n", " \n")),
        ("tabs.txt", GLOVE.replace("the ", "the\t").replace("paris 1 2 3", "paris\t1\t2\t3")),
        ("windows.txt", "\ufeff" + GLOVE.replace("\n", "\r\n")),
        ("unended.txt", GLOVE.rstrip("\n")),
        ("blank.txt", GLOVE + "\n\n"),
        ("zipped.txt.gz", gzip.compress(GLOVE.encode(), mtime=0)),
        ("zipped.vec.gz", gzip.compress(b"4 3\n" + GLOVE.encode(), mtime=0)),
    ],
)
def test_every_kind_of_file_gives_the_same_vectors(tmp_path, name, content):
    vectors = read_vectors(write(tmp_path / name, content), WORDS)
    np.testing.assert_allclose(vectors.values, EXPECTED, rtol=1e-6)
    assert vectors.values.dtype == np.float32
    assert vectors.found.tolist() == [False, True, True, True, False, True]
    assert (vectors.dim, vectors.num_lowercased, vectors.num_in_file) == (3, 1, 4)
    assert vectors.describe() == "4 of 6 words (1 in lower case) among 4 vectors of 3"


def test_a_truncated_file_is_reported(tmp_path):
    vectors = read_vectors(write(tmp_path / "v.txt", "30 3\n" + GLOVE), WORDS)
    assert (
        vectors.describe()
        == "4 of 6 words (1 in lower case) among 4 vectors of 3; the file's first line says 30, so its end is"
        " missing"
    )


def test_a_word_may_contain_spaces(tmp_path):
    vectors = read_vectors(write(tmp_path / "v.txt", "at name@domain.com 1 2\nb 3 4\n"), ["b", "at name@domain.com"])
    assert vectors.values.tolist() == [[3, 4], [1, 2]]


def test_a_word_may_be_a_number(tmp_path):
    vectors = read_vectors(write(tmp_path / "v.txt", "1 0.5 0.25\n2020 3 4\n"), ["2020", "1"])
    assert vectors.values.tolist() == [[3, 4], [0.5, 0.25]]


def test_lower_case_is_used_only_without_an_exact_match(tmp_path):
    for content in ("us 1 1\nUS 2 2\n", "US 2 2\nus 1 1\n"):
        path = write(tmp_path / "v.txt", content)
        vectors = read_vectors(path, ["US", "Us", "us"])
        assert vectors.values.tolist() == [[2, 2], [1, 1], [1, 1]]
        assert vectors.num_lowercased == 1
        assert read_vectors(path, ["US", "Us", "us"], lowercase=False).found.tolist() == [True, False, True]


def test_the_first_vector_of_a_repeated_word_is_used(tmp_path):
    vectors = read_vectors(write(tmp_path / "v.txt", "a 1 1\na 2 2\n"), ["a", "A", "a"])
    assert vectors.values.tolist() == [[1, 1]] * 3


def test_no_words_requested_or_found_give_empty_results(tmp_path):
    path = write(tmp_path / "v.txt", GLOVE)
    assert read_vectors(path, []).values.shape == (0, 3)
    assert read_vectors(path, ["x"]).describe() == "0 of 1 words among 4 vectors of 3"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a 1 2\nb 1\n", ":2: expected a word and 2 numbers, as on the first line, found 1 number"),
        ("a 1 2\nb 1 2 3\n", ":2: expected a word and 2 numbers, as on the first line, found 3 numbers"),
        ("2 3\na 1 2\n", ":2: expected a word and 3 numbers, as on the first line, found 2 numbers"),
        ("a 1 2\nb 1 x\n", ":2: 'x' is not a number; each line must be a word and its numbers, separated by spaces"),
        ("a 1 2\nb 1  2\n", ":2: expected a word and 2 numbers, as on the first line, found 1 number"),
        ("a 1 2\nb 1 nan\n", ":2: the vector has a number that is not finite; leave the line out"),
        ("b 1 1e300\n", ":1: the vector has a number that is not finite; leave the line out"),
        ("word\n", ":1: there is no number on the line; each line must be a word and its numbers, separated by spaces"),
        ("2 3\n", ": there are no vectors in it; each line must be a word and its numbers, separated by spaces"),
        (
            "4 99999999999999\na 1\n",
            ":2: expected a word and 99,999,999,999,999 numbers, as on the first line, found 1 number",
        ),
    ],
)
def test_a_fault_is_reported_with_file_and_line(tmp_path, content, sentence):
    path = write(tmp_path / "v.txt", content)
    assert refusal(lambda: read_vectors(path, ["a", "b"])) == f"{path}{sentence}"


def test_a_mismatched_width_is_rejected(tmp_path):
    path = write(tmp_path / "v.txt", GLOVE)
    assert read_vectors(path, ["the"], dim=3).dim == 3
    assert (
        refusal(lambda: read_vectors(path, ["the"], dim=50))
        == f"{path}:1: vectors have 3 numbers, but 50 are required; give another file, or set the width to 3"
    )


def test_a_missing_or_damaged_file_is_reported(tmp_path):
    write(tmp_path / "glove.txt", GLOVE)
    assert (
        refusal(lambda: read_vectors(tmp_path / "glov.txt", []))
        == f"no such file: {tmp_path / 'glov.txt'}; near it there is {tmp_path / 'glove.txt'}"
    )
    broken = write(tmp_path / "broken.txt.gz", gzip.compress(GLOVE.encode(), mtime=0)[:-12])
    assert "cannot be unpacked" in refusal(lambda: read_vectors(broken, []))
    binary = write(Path(tmp_path / "binary.bin"), b"1 2\nword \xff\xfe\x00\n")
    assert "there are no vectors in it" in refusal(lambda: read_vectors(binary, []))


PIECES = b"a b 1 0.5 -2e3 nan 1_0 x".split() + [
    b" ",
    b"  ",
    b"\t",
    b"\n",
    b"\r\n",
    b"\xff",
    b"\0",
    b"2 2\n",
    b"a 1 2\n",
    b"b 3 4\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=15).map(b"".join))
def test_any_file_gives_vectors_or_a_sentence_with_its_name(content):
    with written("v.txt", content) as path:
        try:
            vectors = read_vectors(path, ["a", "B", "x"])
        except UserError as error:
            assert str(error).startswith(str(path))
        else:
            assert np.isfinite(vectors.values).all()
            assert not vectors.values[~vectors.found].any()


@pytest.mark.slow
def test_a_line_too_large_for_memory_is_rejected(tmp_path):
    """389 kB that unpack to a line of 200 million numbers."""
    with gzip.GzipFile(tmp_path / "bomb.txt.gz", "wb", mtime=0) as file:
        for _ in range(400):
            file.write(b" 0" * 2**19)
    with pytest.raises(UserError, match=r"bomb.txt.gz:1: this line has more than 4,194,304 characters"):
        read_vectors(tmp_path / "bomb.txt.gz", ["a"])


@pytest.mark.slow
def test_a_too_large_width_is_rejected_before_allocation(tmp_path):
    (tmp_path / "wide.txt").write_text("1 2000000\nword" + " 0" * 2_000_000 + "\n", encoding="utf-8")
    with pytest.raises(
        UserError, match=r"10,000,000 vectors of 2,000,000 numbers, as .*wide.txt has them would need 80,000.0 GB"
    ):
        read_vectors(tmp_path / "wide.txt", ["word"] * 10_000_000, lowercase=False)
