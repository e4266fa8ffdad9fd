"""What CONTRIBUTING and the lineage tell a reader to type is true."""

import re
import shlex
from pathlib import Path

import pytest

from clew.cli.main import main
from clew.layers.cells import CELLS
from clew.recipes import RECIPES
from clew.recipes.running import config_of
from clew.runs.build import build_body

ROOT = Path(__file__).parents[1]
LINEAGE = (ROOT / "docs" / "lineage.md").read_text(encoding="utf-8")


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
    assert sum(p.numel() for p in build_body(config_of(recipe, settings), 7).parameters()) > 0


def test_every_file_that_the_lineage_names_is_there() -> None:
    files = re.findall(r"`((?:\w+/)+\w+\.py)`", LINEAGE)
    assert len(files) > 15
    assert [file for file in files if not (ROOT / "clew" / file).is_file()] == []


def test_every_recipe_that_the_lineage_names_is_one() -> None:
    named = set(re.findall(r"`((?:shakespeare|ptb|text|tatoeba|multi30k|craft|wsj)-[\w-]+)`", LINEAGE))
    assert named <= set(RECIPES)
