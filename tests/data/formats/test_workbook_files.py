"""Excel workbooks written by openpyxl."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.data.descriptions import describe
from clew.data.formats import workbook_files
from clew.data.formats.workbook_files import read_workbook
from clew.data.readers import read_labelled
from clew.data.uses import guess_use
from tests.data.written import refusal

openpyxl = pytest.importorskip("openpyxl")


def write_workbook(path: Path, rows: list[list[Any]]) -> Path:
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    workbook.create_sheet("other").append(["not read"])
    workbook.save(path)
    return path


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv", "a.zip", "a"])
def test_the_rows_of_the_first_sheet_are_records_whatever_the_file_name(name: str, tmp_path: Path) -> None:
    original = write_workbook(
        tmp_path / "made.xlsx",
        [["text", "label", "n"], ["a\nfilm", "gut", 3], [], ["ä", "schlecht", 2.5], ["c", "gut", None]],
    )
    path = original.rename(tmp_path / name)
    assert [(record.line, dict(record.values)) for record in read_workbook(path)] == [
        (2, {"text": "a\nfilm", "label": "gut", "n": "3"}),
        (4, {"text": "ä", "label": "schlecht", "n": "2.5"}),
        (5, {"text": "c", "label": "gut", "n": ""}),
    ]
    assert [(example.text, example.label) for example in read_labelled(path)] == [
        ("a\nfilm", "gut"),
        ("ä", "schlecht"),
        ("c", "gut"),
    ]


def test_dates_and_booleans_are_read_as_text(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", [["text", "label"], [date(2020, 1, 2), True], [4.0, False]])
    assert [tuple(record.values.values()) for record in read_workbook(path)] == [
        ("2020-01-02T00:00:00", "True"),
        ("4", "False"),
    ]


def test_a_workbook_without_a_header_has_numbered_columns(tmp_path: Path) -> None:
    path = write_workbook(
        tmp_path / "a.xlsx", [[f"This is film {number}.", "good" if number % 2 else "bad"] for number in range(9)]
    )
    assert [example.label for example in read_labelled(path, text=1, label=2)] == [
        "good" if n % 2 else "bad" for n in range(9)
    ]


def test_a_workbook_is_described_with_a_command(tmp_path: Path) -> None:
    rows = [[f"a text of words {number}", ["yes", "no"][number % 2]] for number in range(20)]
    description = describe(write_workbook(tmp_path / "a.xlsx", [["text", "label"], *rows]))
    use = guess_use(description)
    assert description.format == "xlsx" and use is not None
    assert (use.recipe, use.settings) == ("classify", {"data.text": "text", "data.label": "label"})


def test_a_damaged_workbook_is_refused(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", [["text", "label"], ["a", "b"]])
    content = bytearray(path.read_bytes())
    place = content.index(b"xl/worksheets/sheet1.xml") + 40
    content[place : place + 60] = bytes(60)
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"a.xlsx: this workbook cannot be read \(.*\); it is damaged, so save it again"
    ):
        list(read_workbook(path))


def test_a_row_wider_than_the_header_is_a_fault(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "a.xlsx", [["text", "label"], ["a", "b", "c"]])
    assert (
        refusal(lambda: read_workbook(path))
        == f"{path}:2: expected 2 cells, found 3; fix it, or skip such records with data.faults=skip"
    )


def test_without_openpyxl_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name=name)

    path = write_workbook(tmp_path / "a.xlsx", [["text", "label"], ["a", "b"]])
    monkeypatch.setattr(workbook_files, "import_module", missing)
    assert (
        refusal(lambda: read_workbook(path))
        == "workbooks are read with openpyxl, which is not installed; run `pip install 'clew[tables]'`, or save the"
        " sheet as CSV"
    )
