"""Values separated by commas: every combination is trained, and one table shows the results."""

import shlex
import signal
from pathlib import Path

import pytest

from clew.runs.folder.lock import locked
from clew.runs.folder.summary import summarise
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused
from tests.cli.test_processes import one_thread
from tests.runs.small import lstm_settings
from tests.warm import Command, has_lines


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


@pytest.mark.slow
def test_a_grid_is_trained_and_shown_as_one_table(clew: Clew, tmp_path: Path) -> None:
    result = clew("train", "text-lstm", *lstm_settings(tmp_path, steps=4), "model.cell=lstm,gru", "seed=1,2")
    assert result.status == 0
    header, *table = rows(result.out)
    assert header == ["cell", "seed", "steps", "valid", "loss", "perplexity", "time", "state", "folder"]
    assert [(row[0], row[1], row[2], row[-2], row[-1]) for row in table] == [
        (cell, seed, "4/4", "finished", str(Path("runs", f"text-lstm-cell={cell}-seed={seed}")))
        for cell in ("lstm", "gru")
        for seed in "12"
    ]
    for row in table:
        assert float(row[3]) == pytest.approx(summarise(Path(row[-1])).best["valid.loss"], abs=1e-4)
    assert "run 4 of 4, runs/text-lstm-cell=gru-seed=2" in result.err
    command = shlex.split(result.err.splitlines()[-1].removeprefix("next:"))
    assert command == ["clew", "runs", "compare", "runs/text-lstm-cell=*"]
    assert clew(*command[1:]).status == 0


def test_the_same_command_again_trains_nothing(clew: Clew, tmp_path: Path) -> None:
    command = ("train", "text-lstm", *lstm_settings(tmp_path, steps=2), "seed=1,2", "--out", "study")
    first = clew(*command)
    again = clew(*command)
    assert (first.status, again.status) == (0, 0) and again.out == first.out
    assert [line for line in again.err.splitlines() if line.startswith("run ")] == [
        f"run {n} of 2, study/text-lstm-seed={n}: already finished" for n in (1, 2)
    ]
    assert {path.name for path in Path("study").iterdir()} == {"text-lstm-seed=1", "text-lstm-seed=2"}
    assert clew("evaluate", "study/text-lstm-seed=1").status == 0


def test_one_combination_is_trained_as_a_single_run(clew: Clew, tmp_path: Path) -> None:
    result = clew("train", "text-lstm", *lstm_settings(tmp_path, steps=2), "seed=3,3")
    assert result.status == 0 and "a sample (temperature" in result.err
    assert Path("runs/text-lstm/config.json").is_file()


def test_a_failed_run_stops_no_other_and_sets_the_exit_status(clew: Clew, tmp_path: Path) -> None:
    settings = [*lstm_settings(tmp_path, steps=20), "training.optimiser=sgd", "training.clip_norm=null"]
    result = clew("train", "text-lstm", *settings, "training.learning_rate=1e38,1e-3")
    assert result.status == 1
    assert [row[-2] for row in rows(result.out)[1:]] == ["failed", "finished"]
    assert "runs/text-lstm-learning_rate=1e+38: 10 steps in a row had no finite gradient" in result.err
    assert "Traceback" not in result.err
    listed = clew("runs")
    assert "runs/text-lstm-learning_rate=1e+38 failed: 10 steps in a row had no finite gradient" in listed.err


def test_an_error_in_one_run_is_reported_and_debug_shows_the_traceback(
    clew: Clew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.layers.cells import CELLS, Cell

    class Broken(Cell):
        def inputs(self, x):
            raise KeyError("thread")

    monkeypatch.setitem(CELLS, "broken", Broken)
    command = ("train", "text-lstm", *lstm_settings(tmp_path, steps=2), "model.cell=broken,lstm")
    result = clew(*command)
    assert result.status == 1
    assert "runs/text-lstm-cell=broken: KeyError: 'thread'" in result.err
    assert [row[-2] for row in rows(result.out)[1:]] == ["failed", "finished"]
    with pytest.raises(KeyError):
        clew(*command, "--debug")


def test_a_run_of_another_process_is_skipped(clew: Clew, tmp_path: Path) -> None:
    settings = lstm_settings(tmp_path, steps=2)
    clew("train", "text-lstm", *settings, "seed=1,2")
    with locked(Path("runs/text-lstm-seed=1")):
        result = clew("train", "text-lstm", *settings, "training.steps=3", "seed=1,2")
    assert result.status == 1
    assert "run 1 of 2, runs/text-lstm-seed=1: another process is writing it; skipped" in result.err
    assert [row[-2] for row in rows(result.out)[1:]] == ["running", "finished"]


def test_mistakes_in_a_grid_are_reported_in_one_line(clew: Clew, tmp_path: Path) -> None:
    assert_refused(
        clew("train", "text-lstm", "model.cell=gru,lsmt"), "model.cell: unknown cell 'lsmt'; did you mean 'lstm'?"
    )
    assert_refused(
        clew("train", "text-lstm", "seed=1,"), "'seed=1,' has an empty value beside a comma; delete the comma"
    )
    assert_refused(clew("train", "text-lstm", "seed=1,2", "seed=3"), "seed is given 2 times, once with several values")
    assert_refused(clew("train", "text-lstm,text-gtp"), "unknown recipe 'text-gtp'; did you mean 'text-gpt'?")
    assert not Path("runs").exists()


@pytest.mark.slow
def test_ctrl_c_shows_finished_runs_and_the_same_command_resumes(clew: Clew, tmp_path: Path) -> None:
    arguments = [
        "train",
        "text-lstm",
        *lstm_settings(tmp_path, steps=200),
        "model.dim=64",
        "training.evaluate_every=100",
        "seed=1,2,3",
    ]
    second = tmp_path / "runs" / "text-lstm-seed=2" / "metrics.jsonl"
    code, out, err = Command(arguments, tmp_path).stop(signal.SIGINT, when=lambda: has_lines(second, 20))
    assert code == 130 and "Traceback" not in err
    states = [line.split()[-2] for line in out.splitlines()[1:3]] + [" ".join(out.splitlines()[3].split()[-3:-1])]
    assert states == ["finished", "interrupted", "not started"]
    message = err.splitlines()[-1]
    assert message.startswith("clew: stopped; 1 of 3 runs are finished; resume with `clew train text-lstm ")
    assert shlex.split(message.split("`")[1]) == ["clew", *arguments]
    with one_thread():
        result = clew(*arguments)
    assert result.status == 0 and [row[-2] for row in rows(result.out)[1:]] == ["finished"] * 3
    assert "resuming from step" in result.err
