"""A language model that classifies by likelihood, from the command line and from Python."""

import json
import re
from pathlib import Path

import pytest

import clew as library
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "pretraining.md"
CHOICES = ("--choices", "1=small,0=tall")


def test_a_language_model_chooses_the_likeliest_label(clew: Clew, gpt: Path) -> None:
    result = clew("classify", gpt, *CHOICES, stdin="the old\n\na girl\tand him\n")
    assert result.status == 0 and result.err == ""
    first, empty, last = result.out.splitlines()
    assert empty == "" and first.split("\t")[2] == "the old" and last.split("\t")[2] == "a girl and him"
    run = library.load(gpt)
    chosen = run.choose("the old", {"1": "small", "0": "tall"})
    assert first.split("\t")[:2] == [chosen.label, f"{chosen.probabilities[chosen.label]:.4f}"]
    assert clew("classify", gpt, "the old", *CHOICES).out == f"{first}\n"
    record = json.loads(clew("classify", gpt, *CHOICES, "--json", stdin="the old").out)
    assert record["log_probs"] == chosen.log_probs and record["left_out"] == 0 and record["label"] == chosen.label
    assert run.choose(["", "the old"], ["small", "tall"], calibrate=True)[0] is None
    with_template = clew("classify", gpt, *CHOICES, "--template", "{second}? {text} {choice}", stdin="the old\tman\n")
    pair = run.choose([("the old", "man")], {"1": "small", "0": "tall"}, template="{second}? {text} {choice}")[0]
    assert with_template.out.split("\t")[0] == pair.label and pair.second == "man"


def test_truncated_texts_are_reported(clew: Clew, gpt: Path) -> None:
    result = clew("classify", gpt, *CHOICES, stdin="and the small " * 40)
    assert (
        result.err
        == "1 of the texts are longer than the 32 tokens that the model can read; only their ends were read\n"
    )


def test_labelled_files_are_scored_without_training(clew: Clew, gpt: Path) -> None:
    Path("some.csv").write_text("review,kind\nthe old,1\nthe young,0\nthe king and the,1\n")
    columns = ("data.text=review", "data.label=kind")
    result = clew(
        "evaluate", gpt, "some.csv", *CHOICES, *columns, "--json", "--out", "out.jsonl", "--normalise", "tokens"
    )
    scores = json.loads(result.out)
    right = library.load(gpt).choose(
        ["the old", "the young", "the king and the"], {"1": "small", "0": "tall"}, normalise="tokens"
    )
    share = 100 * sum(each.label == gold for each, gold in zip(right, "101", strict=True)) / 3
    assert scores["examples"] == 3 and abs(scores["accuracy"] - share) < 1e-9
    assert [json.loads(line)["prediction"] for line in Path("out.jsonl").read_text().splitlines()] == [
        each.label for each in right
    ]
    text = clew("evaluate", gpt, "some.csv", *CHOICES, *columns, "--errors", "1")
    assert text.out.startswith("some.csv: loss ") and "accuracy" in text.out


def test_invalid_choices_are_rejected(clew: Clew, gpt: Path) -> None:
    assert_refused(
        clew("classify", gpt, stdin="x"),
        "--choices is needed, because a language model was not trained to classify; give some, e.g. --choices good,bad",
    )
    assert_refused(
        clew("classify", gpt, "--choices", "king", stdin="x"),
        "--choices needs at least two, separated by commas; found ['king']",
    )
    assert_refused(clew("classify", gpt, "--choices", "a,a", stdin="x"), "the choice 'a' is given twice")
    assert_refused(
        clew("classify", gpt, "--calibrate", stdin="x"),
        "--calibrate is for --choices, and none are given; give some, e.g. --choices good,bad",
    )
    assert_refused(
        clew("evaluate", gpt, "--calibrate"), "--calibrate needs --choices; add --choices A,B,... or leave it out"
    )
    assert_refused(
        clew("classify", gpt, *CHOICES, "--second", "b", "--file", "x.csv"), "--second is for runs that read two texts"
    )
    assert_refused(
        clew("classify", gpt, "x", *CHOICES, "--file", "x.txt"),
        "texts are given both as arguments and with --file",
    )
    assert_refused(
        clew("evaluate", gpt, *CHOICES),
        "--choices needs a FILE of texts with labels, e.g. `clew evaluate RUN reviews.csv",
    )
    Path("some.csv").write_text("text,label\nthe old,2\n")
    assert_refused(
        clew("evaluate", gpt, "some.csv", *CHOICES), "some.csv:2: the label '2' is not among the choices (1, 0)"
    )
    assert_refused(
        clew("classify", gpt, *CHOICES, "--template", "{text} {second} {choice}", stdin="one\n"),
        f"standard input, line 1: {gpt} reads text and second together, in one line with a tab between them; found 1",
    )


def test_the_code_of_the_guide_runs(
    gpt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/text-gpt").symlink_to(gpt)
    block = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    names: dict = {}
    exec(block[1], names)
    assert names["found"].label in ("small", "tall") and capsys.readouterr().out.startswith(names["found"].label)
