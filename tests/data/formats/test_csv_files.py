import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.data.descriptions import describe
from clew.data.files.given_files import given_file
from clew.data.formats import csv_files
from clew.data.formats.csv_files import find_delimiter, looks_like_data, read_csv
from clew.data.notes import Notes
from clew.data.readers import read_labelled
from tests.data.written import refusal, write, written

CELL = st.text(st.sampled_from("ab ,;\"'\n\tä\u2028"), max_size=8)


def rows_of(least_width):
    return st.integers(least_width, 4).flatmap(
        lambda width: st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=6)
    )


def as_csv(rows, **options):
    stream = io.StringIO(newline="")
    csv.writer(stream, **options).writerows(rows)
    return stream.getvalue()


@given(
    table=st.tuples(st.just(","), rows_of(1)) | st.tuples(st.just(";"), rows_of(2)),
    end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_files_written_by_python_are_read_back(table, end, quoting):
    delimiter, rows = table
    header = [f"column {number}" for number in range(len(rows[0]))]
    with written("a.csv", as_csv([header, *rows], delimiter=delimiter, lineterminator=end, quoting=quoting)) as path:
        records = list(read_csv(path))
    assert [list(record.values.values()) for record in records] == rows
    assert list(records[0].values) == header
    starts = [2 + sum(1 + sum(cell.count("\n") for cell in row) for row in rows[:i]) for i in range(len(rows))]
    assert [record.line for record in records] == starts


@given(st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=5))
def test_records_do_not_depend_on_line_ends(rows):
    content = as_csv([["text", "label"], *rows], lineterminator="\n")
    parsed = []
    for end in ("\n", "\r\n", "\r"):
        with written("a.csv", b"\xef\xbb\xbf" + content.replace("\n", end).encode()) as path:
            parsed.append([(record.values, record.line) for record in read_csv(path)])
    assert parsed[0] == parsed[1] == parsed[2]


@pytest.mark.parametrize(
    ("line", "delimiter"),
    [("a,b", ","), ("a;b", ";"), ("a\tb", "\t"), ('"a;b;c",d', ","), ("text", ","), ('a;"x,\n', ";"), ("a,b;c,d", ",")],
)
def test_the_delimiter_is_detected_from_the_first_line(line, delimiter):
    assert find_delimiter([line]) == delimiter


def test_columns_without_a_header_are_numbered(tmp_path):
    path = write(tmp_path / "a.csv", 'a,"b, c"\nd,e\n')
    assert [record.values for record in read_csv(path, header=False)] == [{"1": "a", "2": "b, c"}, {"1": "d", "2": "e"}]


@pytest.mark.parametrize(
    ("rows", "is_data"),
    [
        ([["body", "queue"], ["it broke.", "a"], ["it works!", "b"]], False),
        ([["it broke", "a"], ["it works", "b"], ["it is late", "a"]], True),
        ([["Where is it?", "question"], ["Here!", "answer"]], False),
        ([["Where is it?", "question"], ["Here!", "answer"], ["Who?", "question"]], True),
        ([["Hi.", "Hallo!"], ["Run!", "Lauf!"]], True),
        ([["it broke\nthen", "a"], ["it works", "b"]], True),
        ([["word " * 9, "a"], ["other " * 9, "b"]], True),
        ([["Timestamp", "Is all well?"], ["10:00", "yes"]], False),
        ([["7", "one"], ["3", "two"]], True),
        ([["0", "1"], ["so so", "1"], ["no no", "0"]], False),
        ([["", "what"], ["0", "x"], ["1", "y"]], False),
        ([["text", "label"], ["a", "b"], ["text", "label"]], False),
        ([["only", "one"]], False),
        ([], False),
    ],
)
def test_a_first_record_like_those_below_it_is_data(rows, is_data):
    assert looks_like_data(rows) is is_data


def test_without_a_header_no_record_is_lost(tmp_path):
    path = write(tmp_path / "a.csv", '"it broke, twice",a\nit works,b\nso late,a\n')
    assert [record.values["1"] for record in read_csv(path)] == ["it broke, twice", "it works", "so late"]
    assert [record.values["1"] for record in read_csv(path, wanted=["1", 2])] == [
        "it broke, twice",
        "it works",
        "so late",
    ]
    assert [record.values["a"] for record in read_csv(path, header=True)] == ["b", "a"]
    assert [record.values["a"] for record in read_csv(path, wanted=["a"])] == ["b", "a"]


def test_empty_lines_are_skipped_and_counted(tmp_path):
    notes = Notes()
    path = write(tmp_path / "a.csv", '\ntext,label\n\na,"b\n\nc"\n   \nd,e\n')
    assert [record.line for record in read_csv(path, notes=notes)] == [4, 8]
    assert notes.skipped == {"empty line": 3}


def test_a_wrong_number_of_fields_is_a_fault(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\na,b\nyes, no, b\nc,d\n")
    assert (
        refusal(lambda: read_csv(path))
        == f"{path}:3: expected 2 columns between commas, found 3; fix it, or skip such records with"
        " data.faults=skip"
    )
    assert [record.line for record in read_csv(path, notes=Notes(faults="skip"))] == [2, 4]


def test_a_record_spanning_several_lines_is_reported_with_its_last_line(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\n"a,b\nc,d\n"e,f"\n')
    assert refusal(lambda: read_csv(path)).startswith(
        f"{path}:2: a field of this record, which ends in line 4, continues after its closing quote"
    )
    path = write(tmp_path / "b.csv", 'text;label\n"a;b\nc;d\ne";f;g\n')
    assert refusal(lambda: read_csv(path)).startswith(
        f"{path}:2: expected 2 columns between semicolons, found 3 in the record that ends in line 4, where a quote may"
        " be missing; "
    )


def test_an_unclosed_quote_is_reported_with_the_first_line_of_its_record(tmp_path, monkeypatch):
    remedy = (
        'close it, or double it ("") if it is part of a text, or set data.format=tsv if quotes mean nothing in this'
        " file"
    )
    path = write(tmp_path / "a.csv", 'text,label\na,b\n"c,d\ne,f\n')
    for faults in ("refuse", "skip"):
        assert (
            refusal(lambda faults=faults: read_csv(path, notes=Notes(faults=faults)))
            == f"{path}:3: a quote opens in the record that begins here and does not close before the file ends;"
            f" {remedy}"
        )
    before = csv.field_size_limit()
    try:
        csv.field_size_limit(100)
        monkeypatch.setattr(csv_files, "LONGEST", 1000)
        path = write(tmp_path / "b.csv", 'text,label\n"c,d\n' + "e,f\n" * 1000)
        assert (
            refusal(lambda: read_csv(path))
            == f"{path}:2: a quote opens in the record that begins here and does not close within 1,000 characters;"
            f" {remedy}"
        )
    finally:
        csv.field_size_limit(before)


def test_a_field_that_continues_after_its_closing_quote_is_a_fault(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\n"so" they say,b\nc,d\n')
    assert (
        refusal(lambda: read_csv(path))
        == f"{path}:2: a field of this record continues after its closing quote; double quotes that are part of a"
        " text; fix it, or skip such records with data.faults=skip"
    )
    assert [record.values for record in read_csv(path, notes=Notes(faults="skip"))] == [{"text": "c", "label": "d"}]


def test_a_quote_inside_a_field_is_a_character(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\na 5" disk,b\n')
    assert [record.values["text"] for record in read_csv(path)] == ['a 5" disk']


def test_a_field_of_any_length_is_read(tmp_path):
    text = "word, " * 100_000
    path = write(tmp_path / "a.csv", f'text,label\n"{text}",a\n')
    assert [record.values["text"] for record in read_csv(path)] == [text]


def test_a_file_with_only_a_header_is_rejected(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\n")
    assert (
        refusal(lambda: read_csv(path))
        == f"{path}: there is a header and no record below it; give a file with records in it"
    )


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("text|label\none, two, and three|a\nfour; five|b\n", "|"),
        ("one, two, three|a\nand four|b\nfive|a\n", "|"),
        ("a|b|c,label\nd,x\ne|f,y\n", ","),
        ("text;label\n1,5 and 2,5;a\n3,5;b\n", ";"),
    ],
)
def test_the_delimiter_gives_all_records_the_same_number_of_fields(
    content: str, delimiter: str, tmp_path: Path
) -> None:
    assert find_delimiter(content.splitlines(keepends=True)) == delimiter
    records = list(read_csv(write(tmp_path / "a.csv", content)))
    assert {len(record.values) for record in records} == {2}


@pytest.mark.parametrize(("delimiter", "between"), [("|", "|"), ("tab", "\t"), ("~", "~"), (",", ",")])
def test_a_given_delimiter_is_used(delimiter: str, between: str, tmp_path: Path) -> None:
    path = given_file(
        write(tmp_path / "a.tsv", f"text{between}label\na;b;c{between}x\nd;e;f{between}y\n"), delimiter=delimiter
    )
    examples = list(read_labelled(path))
    assert [(example.text, example.label) for example in examples] == [("a;b;c", "x"), ("d;e;f", "y")]


def test_an_invalid_delimiter_is_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text::label\na::b\n")
    rule = "a delimiter is one character, such as , ; | or tab, and not a quote"
    assert refusal(lambda: read_csv(given_file(path, delimiter="::"))) == f"data.delimiter=::: {rule}"
    assert refusal(lambda: read_csv(given_file(path, delimiter='"'))) == f"data.delimiter='\"': {rule}"


def test_a_file_of_bar_separated_fields_is_a_table_whatever_its_name(tmp_path: Path) -> None:
    content = "text|label\n" + "".join(f"film {number}|{number % 2}\n" for number in range(20))
    for name in ("a.csv", "a.txt", "a"):
        description = describe(write(tmp_path / name, content))
        assert (description.format, [column.name for column in description.columns]) == ("csv", ["text", "label"])
