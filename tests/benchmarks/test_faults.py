"""The harness detects failures, and clew withstands up to two hundred trials of several kinds of fault."""

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("resource", reason="the harness needs resource limits and signals")

from benchmarks.faults import commands, configs, inputs, strangers, texts
from benchmarks.faults.__main__ import KINDS
from benchmarks.faults.trials import Fault, in_this_process, run_in_child, run_trials
from clew.core.errors import UserError

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_two_hundred_fuzzed_configs_are_built_or_rejected_with_a_message() -> None:
    result = configs.run(200, seed=11, runner=in_this_process)
    assert not result.failures, str(result)
    assert min(result.outcomes.values()) > 20


@pytest.mark.slow
def test_two_hundred_fuzzed_data_files_are_trained_on_or_rejected_by_name() -> None:
    result = texts.run(200, seed=11, runner=in_this_process)
    assert not result.failures, str(result)
    assert min(result.outcomes.values()) > 20


@pytest.mark.slow
def test_thirty_fuzzed_commands_end_with_a_step_or_a_message() -> None:
    result = commands.run(30, seed=11, call=commands.by_call)
    assert not result.failures, str(result)
    assert len(result.outcomes) == 2


@pytest.mark.parametrize(
    "with_commands", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["readers", "commands"]
)
def test_two_hundred_broken_pictures_and_sounds_are_read_or_rejected_with_a_message(
    with_commands: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """No library prints anything else."""
    result = inputs.run(200, seed=11, with_commands=with_commands)
    assert not result.failures, str(result)
    assert result.outcomes["rejected with a message"] > 100 and min(result.outcomes.values()) > 20
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_hundred_untrusted_folders_are_used_or_rejected_with_a_message() -> None:
    result = strangers.run(100, seed=11, runner=in_this_process)
    assert not result.failures, str(result)
    assert result.outcomes["rejected with a message"] > 20 and len(result.outcomes) > 5


def stranger(verb: str, *edits: str) -> strangers.Case:
    return strangers.Case("run", "format-1/classification", verb, tuple(strangers.Edit(name, 0.0, 0) for name in edits))


@pytest.mark.slow
def test_a_trial_that_reads_outside_of_its_folder_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_python(case: strangers.Case, folder: Path, out: Path) -> str:
        (tmp_path / "secret" / "file").read_text()
        return "read"

    def by_a_library(case: strangers.Case, folder: Path, out: Path) -> str:
        subprocess.run(["cat", str(tmp_path / "secret" / "file")], check=True, capture_output=True)
        return "read"

    def much(case: strangers.Case, folder: Path, out: Path) -> str:
        bytearray(os.urandom(1) * (strangers.MEMORY + 2**20))
        return "taken"

    with strangers.surroundings(tmp_path):
        assert strangers.attempt(stranger("load"), tmp_path) == "loaded"
        expected = {
            by_python: "read file outside",
            by_a_library: "a library read file outside",
            much: r"took [24] GB of memory",
        }
        for use, complaint in expected.items():
            monkeypatch.setattr(strangers, "use", use)
            with pytest.raises(AssertionError, match=complaint):
                strangers.attempt(stranger("load"), tmp_path)


def ninth(random: Random) -> int:
    return random.randrange(9)


def fault(attempt, draw=ninth, smaller=lambda case: range(case), seconds: float = 5.0) -> Fault:
    return Fault("numbers", draw, attempt, str, smaller, seconds)


def refuse(message: str):
    def attempt(case: int) -> str:
        raise UserError(message)

    return attempt


def test_every_trial_is_counted_by_how_it_ended() -> None:
    def attempt(case: int) -> str:
        if case % 2:
            raise UserError(f"{case} is odd; give an even number")
        return "halved"

    result = run_trials(fault(attempt), 50, 1, in_this_process)
    assert result.outcomes["halved"] + result.outcomes["rejected with a message"] == 50
    assert result.failures == []
    assert str(result).startswith("50 numbers: no failures, ") and "rejected with a message, " in str(result)


def test_a_failure_is_shown_with_its_smallest_case() -> None:
    def attempt(case: int) -> str:
        if case > 3:
            raise KeyError(f"{case} is large")
        return "kept"

    result = run_trials(fault(attempt), 40, 1, in_this_process)
    (failure,) = result.failures
    assert (failure.case, failure.problem) == ("4", "KeyError at no function of clew: _")
    assert failure.times == 40 - result.outcomes["kept"]
    assert f"40 numbers: {failure.times} failed in 1 way, " in str(result)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("the rule, " * 41, "a message of more than 400 characters"),
        ("not <clew.text.tokenizer.Tokenizer object at 0x7f>", "a message with Python internals"),
        ("1 validation error for Config: ValidationError", "a message with Python internals"),
    ],
)
def test_an_unreadable_message_is_a_failure(message: str, complaint: str) -> None:
    (failure,) = run_trials(fault(refuse(message)), 3, 1, in_this_process).failures
    assert failure.problem.startswith(complaint) and failure.times == 3


def test_a_trial_that_takes_too_long_is_a_failure() -> None:
    def attempt(case: int) -> str:
        time.sleep(9)
        return "slept"

    (failure,) = run_trials(fault(attempt, seconds=0.05), 2, 1, in_this_process).failures
    assert (failure.problem, failure.times) == ("took longer than 0.05 s", 2)


def test_a_trial_that_ends_its_process_is_a_failure_and_the_others_go_on() -> None:
    def attempt(case: int) -> str:
        if case == 0:
            os._exit(9)
        return "lived"

    result = run_trials(fault(attempt), 30, 1, run_in_child)
    (failure,) = result.failures
    assert (failure.problem, failure.case) == ("ended its process (status 9)", "0")
    assert failure.times + result.outcomes["lived"] == 30 and result.outcomes["lived"] > 10


def test_an_obeyed_tag_would_be_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(configs, "OBEYED", tmp_path)
    with pytest.raises(AssertionError, match="a tag of a YAML file was obeyed"):
        configs.attempt(configs.Case("assignments", "text-lstm", (), ("model.dim=4",)))


@pytest.mark.slow
def test_every_kind_of_fault_is_a_file_and_the_command_runs_it() -> None:
    assert all((ROOT / "benchmarks" / "faults" / f"{name}.py").is_file() for name in KINDS)
    command = [sys.executable, "-m", "benchmarks.faults", "configs", "--count", "5"]
    found = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("5 fuzzed configs: no failures, ")
