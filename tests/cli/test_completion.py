"""Completion of commands in a shell with Tab."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clew.cli.completion import SHELLS, candidates
from clew.recipes import RECIPES
from tests.cli.conftest import Clew


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("tag", "translate", "elsewhere"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        if name != "elsewhere":
            (tmp_path / "runs" / name / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def test_the_first_word_is_completed_to_a_verb() -> None:
    assert {"train", "translate", "runs"} <= set(candidates([""]))
    assert candidates(["trai"]) == ["train"]
    assert "compare" not in candidates(["comp"])


def test_the_second_word_of_a_verb_is_offered_after_the_first(runs: Path) -> None:
    assert "compare" in candidates(["runs", ""])
    assert candidates(["vectors", "lex"]) == ["lexicon"]


def test_recipes_are_offered_after_train() -> None:
    assert candidates(["train", "shakespeare-l"]) == [name for name in RECIPES if name.startswith("shakespeare-l")]


def test_run_folders_are_offered_where_a_run_is_expected(runs: Path) -> None:
    assert candidates(["evaluate", ""]) == ["runs/tag", "runs/translate"]
    assert candidates(["tag", "runs/ta"]) == ["runs/tag"]
    assert candidates(["runs", "compare", "--json", "runs/tr"]) == ["runs/translate"]


def test_instruments_are_offered_after_look_and_runs_after_an_instrument(runs: Path) -> None:
    assert candidates(["look", "sur"]) == ["surprisal"]
    assert candidates(["look", "runs/ta"]) == candidates(["look", "surprisal", "runs/ta"]) == ["runs/tag"]


def test_options_and_their_choices_are_offered() -> None:
    assert candidates(["train", "--res"]) == ["--resume"]
    assert candidates(["generate", "runs/x", "--device", "c"]) == ["cpu", "cuda"]


def test_arguments_of_a_renamed_verb_are_completed(runs: Path) -> None:
    assert candidates(["compare", "runs/ta"]) == ["runs/tag"]
    assert candidates(["nonsense", "a"]) == []


def test_the_error_without_a_shell_names_the_three(clew: Clew) -> None:
    refused = clew("completion")
    assert refused.status == 2 and refused.err == "clew: no shell was given; name it: clew completion bash|zsh|fish\n"


COMPLETE = {
    "bash": (
        'eval "$(clew completion bash)"; COMP_WORDS=(clew train shakespeare-ll); COMP_CWORD=2; _clew; echo'
        ' "${COMPREPLY[@]}"'
    ),
    "fish": 'clew completion fish | source; complete -C "clew train shakespeare-ll"',
    "zsh": (
        "eval \"$(clew completion zsh | sed '/^compdef/d')\"; compadd() { print -l $candidates }; "
        "words=(clew train shakespeare-ll); CURRENT=3; _clew"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_itself_completes_a_recipe(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    command = tmp_path / "clew"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m clew "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    completed = subprocess.run(
        [shell, "-c", COMPLETE[shell]], env=environment, capture_output=True, text=True, timeout=60
    )
    assert completed.stdout.split() == ["shakespeare-llama"], completed.stderr
