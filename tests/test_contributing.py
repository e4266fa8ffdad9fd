"""Every example of CONTRIBUTING.md works unchanged: its files are written, and its commands run in order."""

import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clew.cli.main import main
from clew.data.formats import FORMATS
from clew.instruments import INSTRUMENTS
from clew.layers.cells import CELLS
from clew.tasks import TASKS
from tests.instruments.small_runs import small_run
from tests.runs.small import TEXT
from tests.serving.conftest import save

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"
SMALL = {
    "shakespeare-lstm": [
        "data.corpus=null",
        "data.train=story.txt",
        "training.steps=2",
        "training.batch_size=2",
        "model.dim=8",
        "decoding.max_new=5",
    ],
    "classify": ["training.steps=60", "training.evaluate_every=30", "model={family: bag, dim: 16}"],
    "tag": ["training.steps=4", "training.evaluate_every=4", "model.dim=16", "training.batch_size=4"],
}
SUBJECTS = ("the dog", "a cat", "she", "he", "the old dog", "my friend")
VERBS = ("runs", "sleeps", "sings", "eats")


class Example(NamedTuple):
    """The files and the commands of a section."""

    files: dict[str, str]
    commands: list[list[str]]


def read_examples() -> dict[str, Example]:
    sections = re.split(
        r"^### ", GUIDE.read_text(encoding="utf-8").partition("## Into the package")[0], flags=re.MULTILINE
    )[1:]
    examples = {}
    for section in sections:
        files = dict(re.findall(r"`([\w.]+)`:\n\n```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE))
        lines = [
            line
            for block in re.findall(r"^```bash\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
            for line in block.splitlines()
        ]
        examples[section.partition("\n")[0]] = Example(files, [shlex.split(line) for line in lines])
    return examples


EXAMPLES = read_examples()


@pytest.fixture(autouse=True)
def prepared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the data that the examples use; tables are restored after each test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    rows = [f"{subject} {verb},1\n{verb} {subject} the,0\n" for subject in SUBJECTS for verb in VERBS]
    Path("story.txt").write_text(f"ROMEO:\n{TEXT}", encoding="utf-8")
    Path("sentences.csv").write_text("text,label\n" + "".join(rows), encoding="utf-8")
    words = "".join(f"<s>\n{subject}\tN\n{verb}\tV\n</s>\n" for subject in ("Ada", "Bo", "she", "he") for verb in VERBS)
    Path("words.vert").write_text(f"<doc>\n{words}</doc>\n", encoding="utf-8")
    tables: list[dict[str, Any]] = [CELLS, TASKS, INSTRUMENTS, FORMATS]
    contents = [dict(table) for table in tables]
    yield tmp_path
    for table, before in zip(tables, contents, strict=True):
        table.clear()
        table.update(before)
    for name in [name for name in sys.modules if name.startswith("clew_user_code_")]:
        del sys.modules[name]


def run_example(title: str) -> None:
    """Write the files of an example, and run its commands with short trainings."""
    example = EXAMPLES[title]
    for name, code in example.files.items():
        Path(name).write_text(code, encoding="utf-8")
    for command, *words in example.commands:
        if command == "python":
            runpy.run_path(words[0])
            continue
        assert command == "clew"
        small = SMALL[words[1]] if words[0] == "train" else []
        assert main([*words, *small]) == 0, words


def test_the_examples_cover_every_extension_point() -> None:
    assert list(EXAMPLES) == ["A cell", "A task", "A source", "An instrument", "A corpus format"]
    assert all(example.files and example.commands for example in EXAMPLES.values())


def test_the_cell_is_checked_trained_and_used(capsys: pytest.CaptureFixture[str]) -> None:
    run_example("A cell")
    shown = capsys.readouterr().out
    assert re.search(r"cell 'leaky': (\d+) of \1 laws hold", shown)


def test_the_task_is_checked_trained_and_used(capsys: pytest.CaptureFixture[str]) -> None:
    run_example("A task")
    shown = capsys.readouterr().out
    assert "task 'acceptability': 7 of 7 laws hold" in shown
    assert re.search(r"^0\.\d+\tthe dog runs$", shown, re.MULTILINE)
    assert "exports/acceptability/logits.pt2" in shown


def test_the_file_of_the_task_has_about_fifty_lines() -> None:
    assert len(EXAMPLES["A task"].files["acceptability.py"].splitlines()) <= 52


@pytest.mark.slow
def test_the_source_is_trained_and_ignores_padding(capsys: pytest.CaptureFixture[str]) -> None:
    run_example("A source")
    accuracy = re.search(r"(\d+)% of unseen sequences are right", capsys.readouterr().out)
    assert accuracy is not None and int(accuracy[1]) >= 85


def test_the_instrument_works_on_built_in_and_user_defined_runs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("runs").mkdir()
    save(small_run("lstm"), Path("runs/shakespeare-lstm"))
    task = EXAMPLES["A task"]
    Path("acceptability.py").write_text(task.files["acceptability.py"], encoding="utf-8")
    train = next(words for _, *words in task.commands if words[0] == "train")
    assert main([*train, "training.steps=1", "model.dim=8"]) == 0
    capsys.readouterr()
    run_example("An instrument")
    *drawn, facts = capsys.readouterr().out.splitlines()
    assert drawn[0] == "Norms"
    view_facts = json.loads(facts)
    assert view_facts["tokens"] == ["the", "dog", "runs"] and all(norm > 0 for norm in view_facts["norms"])


def test_the_corpus_format_is_described_trained_on_and_tagged(capsys: pytest.CaptureFixture[str]) -> None:
    run_example("A corpus format")
    shown = capsys.readouterr().out
    assert "words.vert: vertical text, 16 records" in shown
    assert "clew train tag data.train=words.vert data.words=words data.tags=tags --code vertical.py" in shown
    assert re.search(r"^Ada\t\w", shown, re.MULTILINE)


def test_a_malformed_record_of_the_format_is_rejected_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    Path("vertical.py").write_text(EXAMPLES["A corpus format"].files["vertical.py"], encoding="utf-8")
    Path("words.vert").write_text("<s>\nAda\tN\nruns\n</s>\n", encoding="utf-8")
    assert main(["train", "tag", "data.train=words.vert", "--code", "vertical.py"]) == 2
    assert "words.vert:1: expected a word, a tab and a tag on every line of a sentence" in capsys.readouterr().err


def test_a_run_stores_only_one_file_of_code(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.py", "b.py"):
        Path(name).write_text("", encoding="utf-8")
    assert main(["train", "tag", "--code", "a.py", "--code", "b.py"]) == 2
    assert "a run stores one file of code, but --code names 2; combine them into one file" in capsys.readouterr().err
