import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from clew.cli.main import verb_parser
from clew.cli.recipes import has
from clew.cli.verbs import ABOUT, FORMER, FORMS, VERBS, find_verb
from clew.recipes import RECIPES
from clew.recipes.grid import expand
from clew.recipes.resolving import config_of
from clew.runs.settings.values import parse_assignment
from clew.studies.space import read_space
from tests.cli.conftest import Clew

ROOT = Path(__file__).parents[3]


def examples(verb: str) -> list[list[str]]:
    """The example commands in a verb's help, as lists of arguments."""
    text = verb_parser(verb).description or ""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ")]
    return [shlex.split(line[line.index("clew ") :].split(" > ")[0])[1:] for line in lines]


@pytest.mark.parametrize("verb", VERBS)
def test_examples_in_help_parse_and_name_known_recipes(verb: str) -> None:
    assert examples(verb)
    for words in examples(verb):
        command, rest, _ = find_verb(words) or ("", [], False)
        assert command == verb
        options, more = verb_parser(verb).parse_known_intermixed_args(rest)
        assert not more or options.open
        for operand in (getattr(options, "name", None), getattr(options, "what", None)):
            is_word = verb == "recipes" and any(has(name, recipe, operand or "") for name, recipe in RECIPES.items())
            assert operand is None or operand in RECIPES or operand.startswith("runs/") or is_word, operand
        if verb == "train" and options.search is not None:
            if options.settings:
                read_space(options.recipe, options.settings)
        elif hasattr(options, "recipe"):
            for combination in expand(options.recipe, options.settings):
                assert combination.recipe in RECIPES
                config_of(combination.recipe, combination.assignments)
        if getattr(options, "folder", "").startswith("runs/"):
            assert options.folder.removeprefix("runs/") in RECIPES
        for folder in getattr(options, "runs", []):
            assert folder == "runs" or folder.startswith("runs/"), folder


@pytest.mark.parametrize("verb", VERBS)
def test_help_describes_every_option(clew: Clew, verb: str) -> None:
    result = clew(*verb.split(), "--help")
    assert result.status == 0 and result.err == ""
    for action in verb_parser(verb)._actions:
        assert action.help, action.dest


def test_the_help_lists_every_verb(clew: Clew) -> None:
    for arguments in ([], ["--help"], ["-h"]):
        result = clew(*arguments)
        assert result.status == 0
        for verb in VERBS:
            assert verb.rpartition(" ")[2] in result.out
        for verb, about in ABOUT.items():
            assert " " in verb or about in " ".join(result.out.split())
    assert clew("--version").out.startswith("clew ")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_list_of_verbs_fits_the_terminal(clew: Clew, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = clew().out.partition("begin:")[2].partition("options:")[0].splitlines()
    assert max(map(len, lines)) <= min(columns, 80)


@pytest.mark.parametrize("former", FORMER)
def test_a_renamed_verb_still_works(clew: Clew, former: str) -> None:
    assert clew(former, "--help").out == clew(*FORMER[former].split(), "--help").out
    assert f"\n  {former} " not in clew().out


def test_the_verbs_are_few_and_listed_once() -> None:
    shown = [verb for verb in ABOUT if " " not in verb]
    assert len(shown) <= 18 and set(shown) & set(FORMS) <= {"predict"}


def test_no_help_loads_torch() -> None:
    """Print every help text in one process, then check which modules were imported."""
    program = """
import io, sys, contextlib
from clew.cli.main import main
from clew.cli.verbs import VERBS
lists = [["recipes"], ["recipes", "translation"], ["recipes", "--json"]]
for arguments in [["--help"], [], ["--version"], ["trian"], *([*verb.split(), "--help"] for verb in VERBS), *lists]:
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), contextlib.suppress(SystemExit):
        main(arguments)
heavy = {"torch", "numpy", "pydantic", "tokenizers", "rich"} & set(sys.modules)
sys.exit(f"loaded: {heavy}" if heavy else 0)
"""
    completed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr


def test_settings_in_the_help_of_train_are_valid() -> None:
    for _, *rest in examples("train"):
        for setting in verb_parser("train").parse_intermixed_args(rest).settings:
            parse_assignment(setting)


def test_stored_forms_match_those_of_the_tasks() -> None:
    """Run `python -m clew.cli.options.forms` to update them."""
    from clew.cli.options.forms import all_forms, read_forms

    assert read_forms() == all_forms()


def test_help_of_predict_covers_texts_pictures_and_sounds() -> None:
    about = verb_parser("predict").description or ""
    assert about.startswith("Apply a run to every line")
    assert "every FILE is a picture or a sound, or a table of them" in " ".join(about.split())
