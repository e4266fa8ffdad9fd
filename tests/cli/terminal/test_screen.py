"""No verb sends control characters from files or names to a terminal; answers are written unchanged to a pipe."""

import io
import json
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clew.cli.main import main
from clew.cli.terminal.bar import Bar
from clew.cli.terminal.screen import escape_controls
from clew.cli.verbs import ANSWERS, VERBS
from clew.core.files import write_json
from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_classify import SMALL
from tests.interop.checkpoints import make
from tests.runs.small import LSTM, write_text

FROZEN = Path(__file__).parents[2] / "runs" / "frozen" / "format-1"
EVIL = "\x1b[31m\u202ex\x9b2J\x7f"
"""An escape code for red, an override of text direction, and a one-byte control sequence."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def hostile_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs trained on data with control characters, and runs in folders with such names."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        write_text(folder, f"the {EVIL} ball of {EVIL}thread\n" * 30, f"story{EVIL}.txt")
        settings = [f"data.train={folder}/story{EVIL}.txt", *LSTM, "training.steps=2"]
        run_recipe("text-lstm", settings, out=folder / "runs" / f"text{EVIL}")
        rows = "".join(f"{n} {EVIL} ball,{label}{EVIL}\n" for n in range(12) for label in "ab")
        write_text(folder, f"text,label\n{rows}", "rows.csv")
        run_recipe(
            "classify",
            [f"data.train={folder / 'rows.csv'}", *SMALL, "training.steps=2"],
            out=folder / "runs" / "classify",
        )
        words = "".join(f"Ada{n}{EVIL} NNP{EVIL} B-PER{EVIL}\nleft VBD O\n\n" for n in range(12))
        write_text(folder, words, "words.conll")
        small = [
            "embedding.dim=8",
            "embedding.characters_dim=8",
            "model.dim=16",
            "training.steps=2",
            "training.evaluate_every=2",
        ]
        settings = [f"data.train={folder / 'words.conll'}", *small, "training.schedule=constant", "device=cpu"]
        run_recipe("tag", settings, out=folder / "runs" / "tag")
        write_text(
            folder, "".join(f"{word}{EVIL} {n} {n * n % 5} 1\n" for n, word in enumerate("abcdefghijkl")), "vectors.txt"
        )
        write_text(folder, f"a {EVIL} [MASK]\n", "masked.txt")
        make("BertForMaskedLM", folder / "theirs")
        about = json.loads((folder / "theirs" / "config.json").read_text())
        write_json(folder / "theirs" / "config.json", {**about, f"odd{EVIL}": 1})
        for name in (
            "translation",
            "parsing",
            "question_answering",
            "masked_language_model",
            "language_model",
            "classification_adapter",
        ):
            shutil.copytree(FROZEN / name, folder / name)
            shutil.copytree(FROZEN / name / "run", folder / f"{name}{EVIL}")
        write_text(folder, f"class A{EVIL}:\n", "own.py")
    return folder


TEXT, TRANSLATOR, PARSER, GPT = f"runs/text{EVIL}", f"translation{EVIL}", f"parsing{EVIL}", f"language_model{EVIL}"
QUICK = ["--max-new", "30"]
COMMANDS: dict[str, list[list[str]]] = {
    "train": [
        ["text-lstm", f"data.train=story{EVIL}.txt", *LSTM, "training.steps=2", "--out", f"new{EVIL}"],
        [f"text-{EVIL}"],
    ],
    "data": [["rows.csv"], ["words.conll"], [f"story{EVIL}.txt"], [f"none{EVIL}.csv"]],
    "generate": [[TEXT, *QUICK], [TEXT, "the", "--json", *QUICK], [TEXT, f"%{EVIL}"]],
    "fill": [
        [f"masked_language_model{EVIL}", f"the {EVIL} [MASK]"],
        [f"masked_language_model{EVIL}", "--file", "masked.txt", "--json"],
    ],
    "translate": [[TRANSLATOR, f"ein {EVIL} Ball"], [TRANSLATOR, f"ein {EVIL} Ball", "--json"]],
    "parse": [[PARSER, f"the {EVIL} ball"]],
    "classify": [["runs/classify", f"the {EVIL} ball"], ["runs/classify", "--file", "rows.csv", "--json"]],
    "tag": [["runs/tag", f"Ada{EVIL} left"], ["runs/tag", f"Ada{EVIL} left", "--json"]],
    "answer": [[f"question_answering{EVIL}", f"who {EVIL}?", "--passage", f"the {EVIL} ball"]],
    "transcribe": [[TEXT, f"none{EVIL}.wav"]],
    "caption": [[TEXT, f"none{EVIL}.png"]],
    "embed": [[TEXT, f"the {EVIL}", "--json"], [TEXT, "the", "--tokens", "--json"]],
    "predict": [["runs/classify", "rows.csv"], [f"none{EVIL}"]],
    "evaluate": [
        ["runs/classify", "--errors", "5"],
        ["runs/classify", "--json"],
        ["runs/tag", "--errors", "5", "--confusion"],
        [TEXT, f"story{EVIL}.txt"],
        [TEXT, f"story{EVIL}.txt", "--json"],
    ],
    "look probe": [["runs/tag", f"data.train={EVIL}"], [TEXT, "--limit", "20"]],
    "look": [
        [TEXT],
        ["runs/tag"],
        ["surprisal", TEXT, f"text=the {EVIL}ball"],
        ["errors", "runs/classify"],
        [f"none{EVIL}", TEXT],
    ],
    "inspect": [[f"none{EVIL}"]],
    "serve": [[f"none{EVIL}"]],
    "tour": [[f"none{EVIL}"]],
    "runs": [["runs"], ["runs", "--json"], [f"none{EVIL}"]],
    "bench": [[f"none{EVIL}"], ["--quick", "--check", f"none{EVIL}.json", "lstm-train"]],
    "runs compare": [["runs/classify", "runs/tag"], [TEXT, TEXT], [f"none{EVIL}"]],
    "vectors": [[f"story{EVIL}.txt", "--method", "pmi", "--dim", "2", "--min-count", "1", "--out", f"v{EVIL}.txt"]],
    "vectors neighbours": [["vectors.txt", f"a{EVIL}"], ["vectors.txt", f"none{EVIL}"]],
    "vectors lexicon": [["vectors.txt", "vectors.txt", f"a{EVIL}"], ["vectors.txt", "vectors.txt", f"none{EVIL}"]],
    "runs average": [[TEXT, TEXT, "--out", f"mean{EVIL}"]],
    "export": [[f"none{EVIL}", "--to", "onnx", "--out", "there"], [TEXT, "--to", EVIL, "--out", "there"]],
    "import": [["theirs", "--out", f"bert{EVIL}"], [f"none{EVIL}"]],
    "runs prune": [[TEXT, "--heads", EVIL, "--out", f"pruned{EVIL}"]],
    "runs merge": [[f"classification_adapter{EVIL}", "--out", f"whole{EVIL}"]],
    "recipes": [[f"text-{EVIL}"], ["text-lstm", f"data.train={EVIL}"]],
    "describe": [["runs/classify"], [TEXT], [f"none{EVIL}"]],
    "completion": [[f"fish{EVIL}"]],
    "doctor": [[], ["--code", f"none{EVIL}.py"]],
    "check": [["own.py"], [f"none{EVIL}.py"]],
}


def test_every_verb_has_commands() -> None:
    assert set(COMMANDS) == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_no_control_character_reaches_a_terminal(
    verb: str, hostile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control characters in a data file, a run's name, a label or an argument are shown as escapes."""
    monkeypatch.chdir(hostile_folder)
    for name, value in {
        "CLEW_CACHE": str(hostile_folder / "cache"),
        "TERM": "dumb",
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }.items():
        monkeypatch.setenv(name, value)
    output = ""
    for arguments in COMMANDS[verb]:
        streams = Terminal(), Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            patch.setattr(sys, "stdin", io.StringIO(""))
            with suppress(SystemExit):
                main([*verb.split(), *arguments])
        for stream in streams:
            assert CONTROL.findall(stream.getvalue()) == [], (arguments, stream.getvalue())
            output += stream.getvalue()
    assert "\\u001b" in output or "\\x1b" in output, "nothing hostile was shown, so nothing was tried"


@pytest.mark.parametrize("verb", ["data", "runs", "evaluate", "look"])
def test_reports_in_a_pipe_are_printable(
    clew: Clew, verb: str, hostile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile_folder)
    result = clew(verb, *COMMANDS[verb][0])
    assert result.status == 0, result.err
    assert CONTROL.findall(result.out + result.err) == [] and "\\u001b" in result.out + result.err


def test_answers_are_exact_in_a_pipe_and_escaped_on_a_terminal(
    clew: Clew, hostile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile_folder)
    piped = clew("tag", "runs/tag", "--tokenised", f"Ada{EVIL} left")
    assert piped.out.startswith(f"Ada{EVIL}\t") and "tag" in ANSWERS
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        main(["tag", "runs/tag", "--tokenised", f"Ada{EVIL} left"])
    assert terminal.getvalue() == escape_controls(piped.out)


def test_json_on_a_terminal_parses_to_the_same_values(
    clew: Clew, hostile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile_folder)
    words = ["classify", "runs/classify", f"the {EVIL} ball", "--json"]
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        main(words)
    assert json.loads(terminal.getvalue()) == json.loads(clew(*words).out)


def test_only_control_characters_are_escaped() -> None:
    text = "naïve 中文 \u0645\u06cc\u200c\u062e 👩\u200d👩\u200d👦 a\u00a0b\tc\n"
    assert escape_controls(text) == text
    assert escape_controls("a\rb\x85c\u2066d\udc9be") == r"a\rb\u0085c\u2066d\udc9be"


def test_messages_above_a_progress_bar_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal: Any = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with Bar() as bar:
        bar.say(f"reading {EVIL}")
        print(f"warned of {EVIL}", file=sys.stderr)
    assert (
        "reading \\u001b[31m\\u202ex" in terminal.getvalue() and "warned of \\u001b[31m\\u202ex" in terminal.getvalue()
    )
    assert "\x1b[31m" not in terminal.getvalue() and "\u202e" not in terminal.getvalue()
    assert sys.stderr is terminal
