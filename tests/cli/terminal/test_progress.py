"""Progress of a long evaluation: a line every few seconds in a pipe, a bar on a terminal."""

import io
import signal
import sys
from pathlib import Path

import pytest

from clew.cli.terminal import progress
from clew.cli.terminal.bar import Bar
from clew.cli.terminal.progress import Lines
from clew.recipes.running import run_recipe
from clew.training.report import Silence
from clew.training.signals import Interrupted
from tests.runs.small import bert_settings, lstm_settings, pair_settings


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_only_a_long_evaluation_reports_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    lines = Lines()
    for done in range(1, 101):  # one second in total
        clock.now += 0.01
        lines.evaluating(done, 100)
    assert capsys.readouterr().err == ""
    for done in range(1, 11):
        clock.now += 2.0
        lines.evaluating(done, 10)
    messages = capsys.readouterr().err.splitlines()
    assert messages[0].startswith("evaluating: 4 of 10 batches, 0:") and messages[0].endswith(" left")
    assert [line.split()[1] for line in messages] == ["4", "7"]


def test_the_bar_is_shown_until_the_evaluation_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Bar() as bar:
        bar.evaluating(1, 40)
        bar.progress.refresh()
        assert "evaluating" in bar.tasks
        bar.evaluating(40, 40)
        assert bar.tasks == {}
    assert "evaluating 1/40" in screen.getvalue()


class Counting(Silence):
    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def evaluating(self, done: int, total: int) -> None:
        self.seen.append((done, total))


@pytest.mark.parametrize(
    ("recipe", "settings"), [("text-lstm", lstm_settings), ("text-bert", bert_settings), ("translate", pair_settings)]
)
def test_every_kind_of_training_reports_evaluation_by_batch(
    recipe: str, settings: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    report = Counting()
    arguments = [*settings(tmp_path), "training.steps=2", "training.evaluate_every=2", "training.evaluate_batch=1"]  # type: ignore[operator]
    run_recipe(recipe, arguments, out=Path("run"), report=report)
    firsts = [place for place, (done, _) in enumerate(report.seen) if done == 1]
    parts = [report.seen[first:last] for first, last in zip(firsts, [*firsts[1:], len(report.seen)], strict=True)]
    assert len(parts) >= 2 and all(part == [(done, len(part)) for done in range(1, len(part) + 1)] for part in parts)


def test_ctrl_c_ends_an_evaluation_at_the_next_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Impatient(Counting):
        def evaluating(self, done: int, total: int) -> None:
            super().evaluating(done, total)
            if len(self.seen) == 2:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    report = Impatient()
    with pytest.raises(Interrupted, match="saved in run"):
        run_recipe("text-lstm", [*lstm_settings(tmp_path), "training.evaluate_batch=1"], out=Path("run"), report=report)
    assert len(report.seen) == 2 < report.seen[0][1]
