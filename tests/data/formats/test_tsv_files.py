import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.data.formats.tsv_files import looks_like_header, read_tsv
from clew.data.notes import Notes
from tests.data.written import refusal, write, written

CELL = st.text(st.characters(exclude_characters="\t\r\n\0", exclude_categories=["Cs"]), max_size=8)


@given(rows=st.lists(st.lists(CELL, min_size=3, max_size=3), min_size=1, max_size=6))
def test_written_records_are_read_back(rows):
    content = "first\tsecond\tthird\n" + "".join("\t".join(row) + "\n" for row in rows)
    with written("a.tsv", content) as path:
        records = list(read_tsv(path, header=True))
        assert [list(record.values.values()) for record in records] == rows
        assert [(record.path, record.line) for record in records] == [
            (str(path), number) for number in range(2, len(rows) + 2)
        ]
        assert list(records[0].values) == ["first", "second", "third"]


def test_quotes_are_characters(tmp_path):
    path = write(tmp_path / "a.tsv", 'a\t"He said so\nb\tso" they say\n')
    assert [record.values["2"] for record in read_tsv(path)] == ['"He said so', 'so" they say']


@pytest.mark.parametrize(
    ("rows", "is_header"),
    [
        ([["sentence", "label"], ["a b", "1"]], True),
        ([["Text", "Class"], ["a b", "c"]], True),
        ([["Quality", "#1 String"], ["1", "a"], ["0", "b"]], True),
        ([["Hi.", "Hallo!"], ["Run!", "Lauf!"]], False),
        ([["positive", "a film"], ["negative", "another"]], False),
        ([["gj04", "1"], ["gj04", "0"]], False),
        ([["text", "text"], ["a", "b"]], False),
        ([["label", ""], ["a", "b"]], False),
        ([["only", "one"]], False),
    ],
)
def test_a_header_is_detected_by_its_names_or_by_numbers_below_it(rows, is_header):
    assert looks_like_header(rows) is is_header


def test_a_column_requested_by_name_makes_the_first_line_a_header(tmp_path):
    path = write(tmp_path / "a.tsv", "english\tgerman\nHi.\tHallo!\n")
    assert [record.values for record in read_tsv(path, wanted=["english"])] == [{"english": "Hi.", "german": "Hallo!"}]
    assert [record.values["1"] for record in read_tsv(path, wanted=[1])] == ["english", "Hi."]
    assert [record.values["1"] for record in read_tsv(path, wanted=["english"], header=False)] == ["english", "Hi."]


def test_empty_lines_are_skipped_and_counted(tmp_path):
    notes = Notes()
    path = write(tmp_path / "a.tsv", "\na\tb\n  \nc\td\n\n")
    assert [record.line for record in read_tsv(path, notes=notes)] == [2, 4]
    assert notes.report() == [f"skipped 3 x empty line (first: {path}:1)"]


def test_a_wrong_number_of_fields_is_a_fault(tmp_path):
    path = write(tmp_path / "a.tsv", "a\tb\nc\td\te\nf\n\t\t\ng\th\n")
    assert refusal(lambda: read_tsv(path)) == (
        f"{path}:2: expected 2 tab-separated columns, found 3; fix it, or skip such records with data.faults=skip"
    )
    notes = Notes(faults="skip")
    assert [record.line for record in read_tsv(path, notes=notes)] == [1, 5]
    assert notes.skipped == {"wrong number of fields": 3}


def test_a_repeated_column_name_is_rejected(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel\ttext\na\tb\tc\n")
    assert refusal(lambda: read_tsv(path, header=True)) == (
        f"{path}:1: there are two columns 'text'; rename one, or set data.header=false if this line is not a header"
    )


def test_an_unnamed_column_is_named_by_its_number(tmp_path):
    path = write(tmp_path / "a.tsv", "\ttext\n0\ta\n")
    assert [record.values for record in read_tsv(path, wanted=["text"])] == [{"1": "0", "text": "a"}]


def test_a_file_without_records_is_refused(tmp_path):
    path = write(tmp_path / "a.tsv", "text\tlabel\n")
    assert (
        refusal(lambda: read_tsv(path))
        == f"{path}: there is a header and no record below it; give a file with records in it"
    )
    path = write(tmp_path / "b.tsv", "\n \n")
    assert refusal(lambda: read_tsv(path)) == f"{path}: there is no record in it; give a file with records in it"
    path = write(tmp_path / "c.tsv", "text\tlabel\na\n")
    assert refusal(lambda: read_tsv(path, notes=Notes(faults="skip"))) == (
        f"{path}: no record can be read; the first fault is {path}:2: expected 2 tab-separated columns, found 1"
    )
