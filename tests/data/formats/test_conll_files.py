import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.data.examples import Sentence
from clew.data.formats.conll_files import read_conll
from clew.data.notes import Notes
from tests.data.written import refusal, write, written

WORD = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=6).filter(
    lambda word: not word.startswith("-DOC")
)


@given(
    sentences=st.lists(st.lists(st.tuples(WORD, WORD, WORD), min_size=1, max_size=4), min_size=1, max_size=4),
    separator=st.sampled_from([" ", "\t"]),
)
def test_written_sentences_are_read_back(sentences, separator):
    # a first word that begins with # can make its line look like a comment
    sentences = [[("x", *row[1:]) if row[0].startswith("#") else row for row in rows] for rows in sentences]
    content = "\n\n".join("\n".join(separator.join(row) for row in rows) for rows in sentences)
    with written("a.conll", content) as path:
        sentences_read = list(read_conll(path, words=1, tags=-1))
    assert [(sentence.words, sentence.tags) for sentence in sentences_read] == [
        (tuple(row[0] for row in rows), tuple(row[2] for row in rows)) for rows in sentences
    ]


def test_document_marks_comments_and_empty_lines_are_skipped(tmp_path):
    content = (
        "-DOCSTART- -X- O\n\n\n# sent_id = 1\n# newdoc\nEU NNP I-ORG\nrejects VBZ O\n\n-DOCSTART-\n\n# a comment of"
        " five words\n# # O\n1 CD O\n \n. . O"
    )
    path = write(tmp_path / "a.txt", content)
    assert list(read_conll(path)) == [
        Sentence(("EU", "rejects"), ("I-ORG", "O"), id=f"{path}:6"),
        Sentence(("#", "1"), ("O", "O"), id=f"{path}:12"),
        Sentence((".",), ("O",), id=f"{path}:15"),
    ]


def test_columns_are_numbered_from_either_end(tmp_path):
    path = write(tmp_path / "a.conll", "1\ta\tDT\t2\tdet\n2\tb c\tNN\t0\troot\n")
    assert list(read_conll(path, words=2, tags=3, heads=4, relations=-1)) == [
        Sentence(("a", "b c"), ("DT", "NN"), (2, 0), ("det", "root"), f"{path}:1")
    ]
    assert [sentence.tags for sentence in read_conll(path, words=2, tags=None)] == [None]
    for number in (0, 6, -6):
        assert (
            refusal(lambda number=number: read_conll(path, tags=number))
            == f"{path}: no column {number} for data.tags; there are 5, counted from 1, or from -1 at the last"
        )


@pytest.mark.parametrize(
    ("lines", "place", "sentence"),
    [
        ("c C\nd\n", 5, "expected 2 space-separated columns, found 1"),
        ("c C X\nd D\n", 4, "expected 2 space-separated columns, found 3"),
    ],
)
def test_a_faulty_sentence_is_rejected_or_skipped_as_a_whole(tmp_path, lines, place, sentence):
    path = write(tmp_path / "a.conll", f"a A\nb B\n\n{lines}\ne E\n")
    assert (
        refusal(lambda: read_conll(path))
        == f"{path}:{place}: {sentence}; fix it, or skip such records with data.faults=skip"
    )
    notes = Notes(faults="skip")
    assert [sentence.words for sentence in read_conll(path, notes=notes)] == [("a", "b"), ("e",)]
    assert notes.num_faults == 1


def test_an_empty_word_and_a_bad_head_are_faults(tmp_path):
    path = write(tmp_path / "a.conll", "a\tA\t0\n\tB\t1\n")
    assert refusal(lambda: read_conll(path, tags=2)).startswith(f"{path}:2: the column for data.words is empty; ")
    path = write(tmp_path / "a.conll", "a\tA\t2\nb\tB\t1\n")
    assert refusal(lambda: read_conll(path, tags=2, heads=3)).startswith(
        f"{path}:1: no word has the head 0, so the sentence has no root"
    )


def test_a_no_break_space_is_part_of_a_word(tmp_path):
    path = write(tmp_path / "a.conll", "5\xa0000 CD\nmen NNS\n")
    assert [sentence.words for sentence in read_conll(path)] == [("5\xa0000", "men")]


def test_a_file_without_sentences_is_refused(tmp_path):
    path = write(tmp_path / "a.conll", "-DOCSTART- O\n\n")
    assert refusal(lambda: read_conll(path)) == f"{path}: there is no record in it; give a file with records in it"
