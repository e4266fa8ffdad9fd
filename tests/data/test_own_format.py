"""A format is one value and one line in FORMATS; readers, descriptions and guessed uses then support it."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from clew.data.descriptions import describe
from clew.data.examples import Labelled, Pair
from clew.data.format import Format, text_table_rows
from clew.data.formats import FORMATS, detect_format
from clew.data.notes import Notes
from clew.data.readers import read_labelled, read_pairs
from clew.data.records import Column, Record
from clew.data.uses import guess_use


def read_pipes(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    names, *lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=2):
        yield Record(dict(zip(names.split("|"), line.split("|"), strict=True)), str(path), number)


PIPES = Format(
    about="values between bars",
    rows=text_table_rows(read_pipes),
    extensions=(".bars",),
    fits=lambda lines: bool(lines) and lines[0].count("|") > 0,
    records=read_pipes,
)


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    before = dict(FORMATS)
    FORMATS.clear()
    FORMATS.update({"bars": PIPES, **before})
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.bars"
    path.write_text(
        "text|label\n" + "".join(f"a good film {n}|+\na bad film {n}|-\n" for n in range(20)), encoding="utf-8"
    )
    yield path
    FORMATS.clear()
    FORMATS.update(before)


def test_a_user_format_is_detected_read_described_and_used(bars: Path) -> None:
    assert detect_format(bars) == "bars"
    renamed = bars.with_suffix(".txt")
    renamed.write_bytes(bars.read_bytes())
    assert detect_format(renamed) == "bars"
    assert next(read_labelled(bars)) == Labelled("a good film 0", ("+",), id=f"{bars}:2")
    assert next(read_pairs(bars, source="text", target="label")) == Pair("a good film 0", "+", f"{bars}:2")
    description = describe(bars)
    assert str(description).startswith(f"{bars}: values between bars, 40 records") or repr(description).startswith(
        f"{bars}: values between bars, 40"
    )
    use = guess_use(description)
    assert use is not None and (use.recipe, use.settings) == ("classify", {"data.text": "text", "data.label": "label"})


def test_every_format_has_a_name_and_a_description() -> None:
    assert len({format.about for format in FORMATS.values()}) == len(FORMATS)
    assert [name for name, format in FORMATS.items() if format.fits is None and not format.kinds] == [
        "lines",
        "parallel",
    ]
