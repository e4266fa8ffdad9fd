"""The Python code of the README runs, and its commands parse."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.cli.main import verb_parser
from clew.cli.recipes import has
from clew.cli.verbs import find_verb
from clew.layers.cells import CELLS
from clew.recipes import RECIPES
from clew.recipes.grid import expand
from clew.recipes.resolving import config_of
from clew.studies.space import read_space

README = Path(__file__).parents[1] / "README.md"
ENDS = {"&&", "||", "|", ";", ">", ">>", "<", "&"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands() -> Iterator[list[str]]:
    """Every call of `clew` in the shell blocks of the README, without shell syntax around it."""
    for block in [*blocks("bash"), *blocks("sh"), *blocks("console")]:
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            call: list[str] = []
            for word in [*lexer, ";"]:
                if word not in ENDS:
                    call.append(word)
                    continue
                if call and Path(call[0]).name == "clew":
                    yield call[1:]
                call = []


def test_the_readme_shows_a_training_command() -> None:
    assert any(call[0] == "train" for call in commands())


@pytest.mark.parametrize("call", list(commands()), ids=" ".join)
def test_a_command_of_the_readme_parses(call: list[str]) -> None:
    parsed = find_verb(call)
    assert parsed is not None
    verb, rest, _ = parsed
    options, more = verb_parser(verb).parse_known_intermixed_args(rest)
    assert not more or options.open
    recipe = getattr(options, "recipe", None) or getattr(options, "name", None)
    if verb == "recipes" and recipe is not None and recipe not in RECIPES:  # a search word instead of a recipe
        assert any(has(name, each, recipe) for name, each in RECIPES.items())
        return
    if verb == "train" and options.search is not None:
        read_space(options.recipe, options.settings)
        return
    if recipe is not None and options.code is None and not recipe.endswith((".yaml", ".yml")):
        for combination in expand(recipe, options.settings):
            config_of(combination.recipe, combination.assignments)


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks in order; a block that begins with `# name.py` is also written to that file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    cells = dict(CELLS)
    names: dict[str, object] = {"__name__": "readme"}
    try:
        for number, block in enumerate(blocks("python"), start=1):
            if match := re.match(r"# ([\w-]+\.py)\b", block):
                (tmp_path / match[1]).write_text(block, encoding="utf-8")
            exec(compile(block, f"README.md, Python block {number}", "exec"), names)
    finally:
        CELLS.clear()
        CELLS.update(cells)
