import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.cli.options.lines import is_table_file
from clew.core.errors import UserError
from clew.data.corpora.samples import sample_path
from clew.data.descriptions import describe
from clew.data.format import Format, text_table_rows
from clew.data.formats import FORMATS, detect_format, find_format
from clew.data.formats.json_files import list_rows
from clew.data.lines import read_lines
from clew.data.notes import Notes
from clew.data.readers import read_labelled, read_sentences
from clew.data.records import Record
from tests.data.formats.test_conllu_files import row
from tests.data.written import refusal, write

TABLE = "Hi.\tHallo!\nRun!\tLauf!\nGo on.\tMach weiter.\n"


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.csv", "anything", "csv"),
        ("a.CSV", "anything", "csv"),
        ("a.jsonl", "anything", "jsonl"),
        ("a.conllu", "anything", "conllu"),
        ("a.mrg", "anything", "trees"),
        ("a.tsv", "anything", "tsv"),
        ("a.tsv", TABLE, "tsv"),
        ("a.tsv", "a\tDT\nb\tNN\n\nc\tNN\n", "conll"),
        ("a.tsv", "a film\tgood\nb\tbad\n\nc\tbad\n", "tsv"),
        ("deu.txt", TABLE, "tsv"),
        ("deu.txt", TABLE + "broken\n", "tsv"),
        ("a.txt", '{"text": "a"}\n', "jsonl"),
        ("a.txt", "( (S \n  (NP a)", "trees"),
        ("a.txt", "(3 (2 It) (4 works))", "trees"),
        ("a.txt", "(See page 1.)\nIt works.\n", "lines"),
        ("a.txt", "# text = a\n" + row(1, "a") + row("2-3", "bc") + row(2, "b"), "conllu"),
        ("eng.train", "-DOCSTART- -X- O\n\nEU NNP I-ORG\nsays VBZ O\n\nPeter NNP I-PER\n", "conll"),
        ("a.txt", "to be or\nnot to be\n\nthat is the\n", "lines"),
        ("a.txt", "text,label\na,b\nc,d\n", "csv"),
        ("a.txt", 'text;label\n"a\nb";c\nd;e\n', "csv"),
        ("a.txt", "Hello, world\nGood, morning\n", "lines"),
        ("a.txt", "It was long ago.\nA text, it seems, of lines.\n", "lines"),
        ("a", "One line.\n", "lines"),
    ],
)
def test_a_format_is_detected_by_extension_then_by_content(tmp_path, name, content, format):
    assert detect_format(write(tmp_path / name, content)) == format
    assert detect_format(write(tmp_path / f"{name}.gz", gzip.compress(content.encode()))) == format


@pytest.mark.parametrize(
    ("sample", "file", "format"),
    [
        ("tinyshakespeare", "", "lines"),
        ("tatoeba", "train.de", "lines"),
        ("polarity", "train.tsv", "tsv"),
        ("ewt", "train.tsv", "conll"),
        ("gum", "dev.tsv", "tsv"),
        ("craft", "dev.mrg", "trees"),
        ("panlex", "eng-deu.tsv", "tsv"),
    ],
)
def test_the_formats_of_the_samples_are_detected(sample, file, format):
    assert detect_format(sample_path(sample) / file) == format


def test_a_format_can_be_forced(tmp_path):
    path = write(tmp_path / "a.csv", "a\tb")
    assert find_format(path, "tsv") == "tsv"
    assert find_format(path) == "csv"
    assert (
        refusal(lambda: find_format(path, "tvs"))
        == "unknown data.format 'tvs'; did you mean 'tsv'? known: coco, conll, conllu, csv, flickr, json, jsonl, lines,"
        " parallel, squad, table, trees, tsv, xlsx"
    )


@pytest.fixture
def user_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """User-defined formats: fields between bars, and words tagged after a slash."""

    def read(path: Path, *, notes: Notes, **_: object) -> Iterator[Record]:
        for number, line in enumerate(read_lines(path), start=1):
            if "|" in line:
                yield Record(dict(zip(("text", "label"), line.split("|"), strict=True)), str(path), number)
            elif line:
                notes.fault("no bar", f"{path}:{number}", "expected text|label")

    def read_tags(path: Path, *, notes: Notes, **_: object) -> Iterator[Record]:
        for number, line in enumerate(read_lines(path), start=1):
            words, tags = zip(*(each.split("/") for each in line.split()), strict=True)
            yield Record({"words": list(words), "tags": list(tags)}, str(path), number)

    has_bar = lambda lines: any("|" in line for line in lines)  # noqa: E731
    bars = Format("fields between bars", text_table_rows(read), (".pipe",), has_bar, records=read)
    monkeypatch.setitem(FORMATS, "pipe", bars)
    monkeypatch.setitem(
        FORMATS,
        "slash",
        Format("words with tags", list_rows(read_tags), (".slash", ".csv"), records=read_tags, has_lists=True),
    )


@pytest.mark.usefixtures("user_formats")
def test_a_user_format_is_detected_by_extension_or_content_before_built_in_ones(tmp_path: Path) -> None:
    assert detect_format(write(tmp_path / "a.pipe", "")) == "pipe"
    assert detect_format(write(tmp_path / "a.txt", "a|b\nc|d\n")) == "pipe"
    assert detect_format(write(tmp_path / "a.csv", "a,b\n")) == "slash"
    with pytest.raises(UserError, match="unknown data.format 'pip'; did you mean 'pipe'"):
        find_format(tmp_path / "a.txt", "pip")


@pytest.mark.usefixtures("user_formats")
def test_a_user_format_gives_examples_and_descriptions(tmp_path: Path) -> None:
    bars = write(tmp_path / "a.pipe", "a fox|yes\n\nno bar\na dog|no\n")
    notes = Notes(faults="skip")
    assert [(each.text, each.labels) for each in read_labelled(bars, notes=notes)] == [
        ("a fox", ("yes",)),
        ("a dog", ("no",)),
    ]
    assert notes.skipped == {"no bar": 1}
    assert "fields between bars, 2 records" in str(describe(bars))
    slashes = write(tmp_path / "a.slash", "a/D fox/N\nhe/P runs/V\n")
    assert [(each.words, each.tags) for each in read_sentences(slashes)] == [
        (("a", "fox"), ("D", "N")),
        (("he", "runs"), ("P", "V")),
    ]
    assert "words with tags, 2 records" in str(describe(slashes))


@pytest.mark.usefixtures("user_formats")
def test_a_user_format_without_suitable_records_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no record in it"):
        list(read_labelled(write(tmp_path / "a.pipe", "\n")))
    with pytest.raises(UserError, match="this is fields between bars .pipe., which holds no words with tags"):
        list(read_sentences(write(tmp_path / "b.pipe", "a|b\n")))


@pytest.mark.usefixtures("user_formats")
def test_a_file_in_a_user_format_is_a_table() -> None:
    assert all(map(is_table_file, ("a.pipe", "a.pipe.gz", "a.csv", "a.json")))
    assert not any(map(is_table_file, ("a.txt", "a.conll", "-", None)))
