"""`clew look`: instruments by name, on small trained runs."""

import json
from pathlib import Path

import pytest

import clew as package
from clew.drawing.views import Note
from clew.instruments import INSTRUMENTS
from tests.cli.conftest import Clew


def test_text_longer_than_a_file_name_is_accepted(clew: Clew, lstm: Path) -> None:
    assert clew("look", "tokens", lstm, f"text={'the ' * 100}").status == 0


def test_instruments_are_listed_described_and_matched_to_a_run(clew: Clew, lstm: Path) -> None:
    listed = clew("look")
    assert listed.status == 0 and all(name in listed.out for name in INSTRUMENTS)
    assert [json.loads(line)["name"] for line in clew("look", "--json").out.splitlines()] == list(INSTRUMENTS)
    described = clew("look", "next")
    assert described.status == 0 and "top" in described.out and "most probable tokens" in described.out
    assert json.loads(clew("look", "next", "--json").out)["options"]["properties"]["top"]["default"] == 10
    for line in clew("look", lstm, "--json").out.splitlines():
        fields = json.loads(line)
        assert fields["fits"] is (fields["why_not"] is None)


def test_swapped_arguments_and_unused_texts_are_rejected(clew: Clew, lstm: Path) -> None:
    swapped = clew("look", lstm, "surprisal").err
    assert "the instrument comes before the run" in swapped and "` lists those that work on it" in swapped
    assert "runs/nowhere is not a run directory" in clew("look", "runs/nowhere").err
    assert (
        clew("look", "cost", lstm, "--text", "the").err
        == "clew: the instrument cost reads no text; leave --text and --file out\n"
    )


def test_surprisal_counts_unknown_tokens(clew: Clew, lstm: Path) -> None:
    assert "1 token unknown to the model" in clew("look", "surprisal", lstm, "--text", "the \u1234 door").out


def test_look_from_python_accepts_folders_and_describes_each_run(lstm: Path, gpt: Path) -> None:
    alone = [package.look(folder, "surprisal", text="the red door").about for folder in (lstm, gpt)]
    together = package.look([lstm, gpt], "surprisal", text="the red door")
    assert [part.text.partition(": ")[2] for part in together.parts if isinstance(part, Note)] == alone


def test_views_are_printed_as_text_or_as_json(clew: Clew, lstm: Path, gpt: Path, tmp_path: Path) -> None:
    printed = clew("look", "surprisal", lstm, "--text", "the red door")
    assert printed.status == 0 and printed.err == "" and "the red door" in printed.out and "perplexity" in printed.out
    facts = json.loads(clew("look", "surprisal", lstm, "text=the red door", "--json").out)
    assert facts["instrument"] == "surprisal" and len(facts["bits"]) == len("the red door") - 1
    file = tmp_path / "poem.txt"
    file.write_text("the red door\n", encoding="utf-8")
    assert json.loads(clew("look", "surprisal", lstm, "--file", file, "--json").out)["bits"] == facts["bits"]
    assert (
        json.loads(clew("look", "surprisal", lstm, "--file", "-", "--json", stdin="the red door").out)["bits"]
        == facts["bits"]
    )
    both = json.loads(clew("look", "next", lstm, gpt, "text=the", "top=2", "--json").out)
    assert [len(both[run.name]["next"][0]["tokens"]) for run in (lstm, gpt)] == [2, 2]


def test_the_ending_of_the_name_chooses_the_format_of_a_view(clew: Clew, lstm: Path, tmp_path: Path) -> None:
    for ending, start in ((".html", "<!doctype html"), (".svg", "<svg"), (".json", "{")):
        result = clew("look", "surprisal", lstm, "text=the red door", "--out", tmp_path / f"seen{ending}")
        assert result.status == 0 and result.out == "" and result.err == f"wrote {tmp_path / 'seen'}{ending}\n"
        assert (tmp_path / f"seen{ending}").read_text(encoding="utf-8").lower().startswith(start)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["look", "surprize"], "unknown instrument 'surprize'; did you mean 'surprisal'?"),
        (["look", "next", "text=a"], "no run was given; name one: clew look next RUN text=a"),
        (["look", "next", "RUN", "tap=1"], "next: unknown field 'tap'; did you mean 'top'?"),
        (
            ["look", "next", "RUN", "text=a", "--text", "b"],
            "text=, --text and --file exclude each other; give the text once",
        ),
        (["look", "next", "RUN", "--text", "é"], "characters the model has never seen"),
        (["look", "surprisal", "RUN"], "there is no text to read"),
        (["look", "next", "nowhere"], "nowhere"),
        (["look", "next", "RUN", "--out", "no/where.html"], "no such folder for --out: no"),
        (
            ["look", "next", "RUN", "--out", "seen.gif"],
            "--out must end in .html, .svg, .json, .png, .pdf",
        ),
        (["look", "surprisal", "RUN", "--text", "a", "off=1.1"], "no attention"),
    ],
)
def test_mistakes_are_reported_in_one_line(clew: Clew, lstm: Path, arguments: list[str], sentence: str) -> None:
    result = clew(*(lstm if word == "RUN" else word for word in arguments))
    assert result.status == 2 and result.out == "" and sentence in result.err and len(result.err.splitlines()) == 1
