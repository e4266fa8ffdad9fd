"""What CONTRIBUTING and the lineage tell a reader to type is true."""

import math
import re
import shlex
from pathlib import Path

import pytest
import torch

from clew.cli.main import main, verb_parser
from clew.cli.verbs import find_verb
from clew.instruments import INSTRUMENTS
from clew.instruments.looking import read_assignments, read_options
from clew.layers.cells import CELLS
from clew.layers.positions import sinusoids
from clew.recipes import RECIPES
from clew.recipes.resolving import config_of
from clew.runs.build import build_body
from clew.sources.tokens import Tokens
from clew.tour.experiments import EXPERIMENTS
from tests.runs.pretrained import save_pretrained

ROOT = Path(__file__).parents[1]
COURSE = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
LINEAGE = (ROOT / "docs" / "lineage.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_cell_of_contributing_passes_the_laws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    file = tmp_path / "mine.py"
    file.write_text(block[1], encoding="utf-8")
    before = dict(CELLS)
    try:
        assert main(["check", str(file)]) == 0
    finally:
        CELLS.clear()
        CELLS.update(before)
    assert re.search(r"cell 'leaky': (\d+) of \1 laws hold", capsys.readouterr().out)


@pytest.mark.parametrize("command", re.findall(r"`(clew train [^`]+)`", LINEAGE))
def test_a_command_of_the_lineage_builds_its_model(command: str) -> None:
    recipe, *settings = shlex.split(command)[2:]
    assert sum(p.numel() for p in build_body(config_of(recipe, settings), Tokens(7)).parameters()) > 0


def test_every_file_that_the_lineage_names_is_there() -> None:
    files = re.findall(r"`((?:\w+/)+\w+\.py)`", LINEAGE)
    assert len(files) > 15
    assert [file for file in files if not (ROOT / "clew" / file).is_file()] == []


@pytest.mark.parametrize("file, name", re.findall(r"`((?:\w+/)+\w+\.py)` ([A-Z]\w+)", LINEAGE))
def test_a_class_that_the_lineage_names_is_in_its_file(file: str, name: str) -> None:
    assert re.search(
        rf"^(class {name}\b|{name}\b.* = )", (ROOT / "clew" / file).read_text(encoding="utf-8"), re.MULTILINE
    )


def test_the_tree_of_the_readme_has_every_package() -> None:
    tree = README.partition("```\nclew/\n")[2].partition("```")[0]
    listed = set(re.findall(r"^  (\w+)/", tree, re.MULTILINE))
    assert listed == {path.parent.name for path in (ROOT / "clew").glob("*/__init__.py")}


def cells(text: str, column: int) -> list[str]:
    """A column of the tables of a text, without headers."""
    rows = [re.split(r" \|(?: |$)", line.removeprefix("| ")) for line in text.splitlines() if line.startswith("| ")]
    return [row[column] for row in rows if row[column] not in ("recipe", "recipe or command")]


def recipes_in(cell: str) -> list[str]:
    """Everything in backticks that is not a command, an option, a setting or Python, and so is the name of a recipe; an
    ending such as `-large` after a name is a name too."""
    names: list[str] = []
    for text in re.findall(r"`([^`]+)`", cell):
        if re.match(r"-\w", text) and names:
            ways = [names[-1] + text, names[-1].rpartition("-")[0] + text]
            names.append(next((way for way in ways if way in RECIPES), ways[0]))
        elif not re.match(r"clew[ .]|python |--|[\w.]+=", text):
            names.append(text.split(" ")[0])
    return names


NAMED = {
    "lineage": recipes_in(" ".join(cells(LINEAGE, 2))) + re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", LINEAGE),
    "readme": recipes_in(" ".join(cells(README.partition("## Results")[2].partition("\n## ")[0], 0))),
}


@pytest.mark.parametrize("file, least", [("lineage", 100), ("readme", 20)])
def test_every_recipe_that_a_table_names_is_one(file: str, least: int) -> None:
    assert len(NAMED[file]) > least
    assert [name for name in NAMED[file] if name not in RECIPES] == []


def test_a_name_that_is_no_recipe_is_found() -> None:
    cell = "`copy`, `ptb-lstm-small`, `-large`, `sst-tree-lstm`, `-binary`; `clew train x`, `model.dim=2`, `gpt5`"
    names = ["copy", "ptb-lstm-small", "ptb-lstm-large", "sst-tree-lstm", "sst-tree-lstm-binary", "gpt5"]
    assert recipes_in(cell) == names and set(names) - set(RECIPES) == {"gpt5"}


def commands_in(line: str) -> list[str]:
    """The commands of a line; an option that stands alone is one of the command before it."""
    commands: list[str] = []
    for text in re.findall(r"`(clew \w[^`]*|--[^`]+)`", line):
        if text.startswith("--"):
            commands.append(f"{commands[-1]} {text}{'' if ' ' in text else ' 1'}")
        else:
            commands.append(text.removeprefix("clew "))
    return commands


@pytest.mark.parametrize("command", sorted({each for line in LINEAGE.splitlines() for each in commands_in(line)}))
def test_a_command_of_the_lineage_is_one(command: str) -> None:
    call = find_verb(shlex.split(command))
    assert call is not None
    options = verb_parser(call.verb).parse_intermixed_args(call.words)
    if call.verb == "tour":
        assert set(options.only) <= set(EXPERIMENTS)
    if call.verb == "look":
        assert call.words[0] in {*INSTRUMENTS, "NAME"}


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`clew (\w+ [^`]+)`", COURSE))))
def test_a_command_of_the_course_is_one(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    verb, rest, _ = find_verb(shlex.split(command)) or ("", [], False)
    if "transfer.from=bert" in rest:
        save_pretrained(Path("bert"), "bert")
    options = verb_parser(verb).parse_intermixed_args(rest)
    assert {name for word in rest for name in re.findall(r"^runs/([\w-]+)", word)} <= {*RECIPES, "half"}
    if verb == "train":
        config_of(options.recipe, options.settings)
    if verb == "look":
        words = [
            word for number, word in enumerate(rest[1:]) if "=" in word and rest[number] not in ("--text", "--file")
        ]
        read_options(rest[0], read_assignments(rest[0], words))
    if verb == "tour":
        assert set(options.only or ()) <= set(EXPERIMENTS)


def test_the_course_has_every_experiment_and_an_exercise_for_every_topic() -> None:
    assert set(re.findall(r"`clew tour --only (\w+)`", COURSE)) == set(EXPERIMENTS)
    topics = [
        line for line in COURSE.splitlines() if line.startswith("| ") and "`clew " in line and line.count(" | ") == 3
    ]
    assert len(topics) > 35
    assert all(len(line.split(" | ")[3]) > 25 for line in topics)


def test_the_slips_of_the_course_are_wrong_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    block = re.search(r"```python\n(.*?)```", COURSE, re.DOTALL)
    assert block is not None
    names: dict = {}
    exec(block[1], names)
    shown = capsys.readouterr().out
    assert (
        abs(names["x"] @ names["right"] - names["y"]).max()
        < 1e-12
        < 0.5
        < abs(names["x"] @ names["slip"] - names["y"]).max()
    )
    assert "clipped to 1.00, with the slip 0.02" in shown
    assert "j < i [nan nan nan]" in shown and "rows add up to: [1. 1. 1.]" in shown
    assert names["late"].sum(1)[0] < 1
    assert names["softmax"] == pytest.approx([0.665, 0.245, 0.090], abs=5e-4)
    assert names["softmax"][:2] / names["softmax"][1:] == pytest.approx(math.e)
    turns = sinusoids(torch.arange(2), 8)[1]  # of one position on
    assert "angles per position: [1.    0.1   0.01  0.001]" in shown
    assert torch.atan2(turns[0::2], turns[1::2]).tolist() == pytest.approx([1, 0.1, 0.01, 0.001])
    assert torch.equal(names["after"]["open"].cell, names["before"].cell)
    assert not names["after"]["closed"].cell.any() and not names["after"]["closed"].hidden.any()
    assert names["widths"] == {"residual": 4, "dense": 8}


@pytest.mark.parametrize(
    "slip",
    [
        "sinusoids counted from k = 1",
        "whose softmax they are not",
        "forget gate is off",
        "forget gate multiplies `h`",
        '"concatenate"',
    ],
)
def test_the_course_says_what_is_right_about_a_slip_and_where_to_see_it(slip: str) -> None:
    (row,) = (line for line in COURSE.splitlines() if line.startswith("| ") and slip in line)
    wrong, right, seen = row.strip("| ").split(" | ")
    assert slip in wrong and len(right) > 40 and ("below" in seen or "`clew " in seen)
