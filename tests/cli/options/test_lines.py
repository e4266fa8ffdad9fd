"""What the verbs that ask a run read of a table: the columns, formats and settings that the run was trained with."""

import json
from pathlib import Path

import pandas as pd
import pytest

from clew.cli.options.lines import without_settings
from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_classify import ROWS, SMALL
from tests.cli.test_errors import assert_refused


@pytest.fixture(scope="module")
def tickets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that was trained on a table in cp1252 with semicolons."""
    folder = tmp_path_factory.mktemp("tickets")
    lines = "".join(f"{number};{text} für;{label}\n" for number, (text, label) in enumerate(ROWS))
    (folder / "tickets.csv").write_text("id;body;queue\n" + lines, encoding="cp1252")
    data = ["text=body", "label=queue", "encoding=cp1252", "delimiter=;", "faults=skip", "format=csv"]
    settings = [f"data.train={folder / 'tickets.csv'}", *(f"data.{setting}" for setting in data)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        run_recipe("classify", [*settings, *SMALL], out=folder / "run")
    return folder / "run"


BODIES = pd.DataFrame({"queue": ["x", "y"], "body": ["my parcel is late", "I paid"]})
ANSWERS = ("delivery", "billing")


def test_every_format_of_a_table_that_training_reads_is_read(clew: Clew, tickets: Path) -> None:
    BODIES.to_parquet("new.parquet")
    BODIES.to_feather("new.feather")
    BODIES.to_excel("new.xlsx", index=False)
    BODIES.to_json("new.json", orient="records")
    BODIES.to_csv("new.csv.gz", index=False, sep=";")
    lines = clew("classify", tickets, "my parcel is late", "I paid").out
    assert [line.split("\t")[0] for line in lines.splitlines()] == list(ANSWERS)
    for name in ("new.parquet", "new.feather", "new.xlsx", "new.json", "new.csv.gz"):
        assert clew("classify", tickets, "--file", name).out == lines == clew("predict", tickets, name).out
        vectors = clew("embed", tickets, "--file", name).out
        assert [json.loads(line)["text"] for line in vectors.splitlines()] == list(BODIES["body"])
    whole = Path("new.parquet").read_bytes()
    Path("bad.parquet").write_bytes(whole[:100] + whole[140:])
    assert "it is damaged, so copy it again" in clew("classify", tickets, "--file", "bad.parquet").err


def test_a_file_like_the_training_file_is_read_with_its_settings(clew: Clew, tickets: Path) -> None:
    Path("new.csv").write_bytes("id;body\n1;my parcel für, late\n2\n3;I paid für\n".encode("cp1252"))
    answered = clew("classify", tickets, "--file", "new.csv", "--json")
    assert [json.loads(line)["text"] for line in answered.out.splitlines()] == ["my parcel für, late", "I paid für"]
    assert "skipped 1 x" in answered.err and "(first: new.csv:3)" in answered.err
    BODIES.to_json("new.jsonl", orient="records", lines=True)
    assert clew("classify", tickets, "--file", "new.jsonl").err == ""


@pytest.mark.parametrize(
    ("name", "content", "remedy"),
    [
        ("bad.jsonl", b'{"body": 1\n', "bad.jsonl:1: "),
        ("twice.tsv", b"body\tbody\na\tb\n", "rename one, or add a header above"),
        ("quote.csv", b'id;body\n1;"I paid\n', "or rename the file to .tsv if tabs separate its fields"),
        ("bytes.txt", b"I paid \x81\x8d\x8f\x90\x9d\n", "convert it, e.g. iconv -f"),
        (
            "utf8.csv",
            b"id;body\n1;I paid \x81\n",
            "the encoding of the run's training data; convert it to that encoding",
        ),
        ("tree.json", b'{"data": [{"title": "a", "paragraphs": []}]}', "; convert it to .csv, .tsv or .jsonl"),
    ],
)
def test_remedies_are_options_or_about_the_file(
    clew: Clew, tickets: Path, name: str, content: bytes, remedy: str
) -> None:
    Path(name).write_bytes(content)
    refused = clew("classify", tickets, "--file", name)
    assert refused.status == 2 and remedy in refused.err and "data." not in refused.err, refused.err


def test_a_role_is_named_by_its_option() -> None:
    assert without_settings("no column 'image'; name it with data.image=NAME") == (
        "no column 'image'; name it with --picture NAME"
    )
    assert without_settings("no column 'a' for data.words there are: b") == "no column 'a' for --text there are: b"


def test_a_translator_reads_the_sources_of_a_table(clew: Clew, translators: dict[str, Path]) -> None:
    run = translators["lstm"]
    translated = clew("translate", run, "red big fox", "blue old cat").out
    Path("pairs.tsv").write_text("red big fox\tx\nblue old cat\ty\n", encoding="utf-8")
    Path("one.tsv").write_text("red big fox\nblue old cat\n", encoding="utf-8")
    Path("pairs.csv").write_text("target,source\nx,red big fox\ny,blue old cat\n", encoding="utf-8")
    Path("other.csv").write_text("to,from\nx,red big fox\ny,blue old cat\n", encoding="utf-8")
    for name in ("pairs.tsv", "one.tsv", "pairs.csv"):
        assert clew("translate", run, "--file", name).out == translated == clew("predict", run, name).out
    assert clew("translate", run, "--file", "other.csv", "--text", "from").out == translated
    assert_refused(
        clew("translate", run, "--file", "other.csv"),
        "other.csv: no column 'source'; name it with --text NAME; there are: to, from",
    )
    Path("targets.txt").write_text("fox big red\ncat old blue\n", encoding="utf-8")
    scored = clew("translate", run, "--file", "pairs.csv", "--score", "targets.txt").out
    Path("lines.txt").write_text("red big fox\nblue old cat\n", encoding="utf-8")
    assert scored == clew("translate", run, "--file", "lines.txt", "--score", "targets.txt").out != ""


def test_a_language_model_reads_lines_unless_a_column_is_named(clew: Clew, lstm: Path) -> None:
    Path("prompts.csv").write_text("title\nthe\n", encoding="utf-8")
    short = ("--max-new", 4, "--json")
    lines = clew("generate", lstm, "--file", "prompts.csv", *short)
    assert [json.loads(line)["prompt"] for line in lines.out.splitlines()] == ["title", "the"]
    assert lines.err == "prompts.csv: read as lines of text; --text COLUMN reads a column of the table\n"
    named = clew("generate", lstm, "--file", "prompts.csv", "--text", "title", *short)
    assert [json.loads(line)["prompt"] for line in named.out.splitlines()] == ["the"] and named.err == ""
    pd.DataFrame({"text": ["the"]}).to_parquet("prompts.parquet")
    assert clew("generate", lstm, "--file", "prompts.parquet", *short).out == named.out


def test_look_reads_the_first_record_of_a_table(clew: Clew, tickets: Path, lstm: Path) -> None:
    Path("new.csv").write_text("id;body\n1;\n2;I paid\n3;a parcel\n", encoding="utf-8")
    looked = clew("look", "tokens", tickets, "--file", "new.csv", "--json")
    assert looked.err == "new.csv: this is the text of record 2; --text TEXT gives another\n"
    assert looked.out == clew("look", "tokens", tickets, "--text", "I paid", "--json").out
    Path("empty.csv").write_text("id;body\n1;\n", encoding="utf-8")
    Path("other.csv").write_text("id;letter\n1;a\n", encoding="utf-8")
    assert_refused(
        clew("look", "tokens", tickets, "--file", "other.csv"),
        "other.csv: there is no column of this run's texts; give a text with --text TEXT",
    )
    assert_refused(
        clew("look", "tokens", tickets, "--file", "empty.csv"),
        "empty.csv: the first records have empty texts; give a text with --text TEXT",
    )
    Path("text.csv").write_text("the door\nthe walls\n", encoding="utf-8")
    assert clew("look", "tokens", lstm, "--file", "text.csv").err == ""
