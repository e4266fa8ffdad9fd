"""The progress bar appears before the first step, fits on one line of any width, and is absent in a pipe."""

import re
import sys
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest

from clew.cli.terminal.bar import Bar
from clew.cli.terminal.progress import Lines, report

RECORD = SimpleNamespace(step=120, loss=1.2345, learning_rate=3e-3, gradient_norm=0.5, skipped=False)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def set_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal of this width."""
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def drawn_lines(terminal: Terminal) -> list[str]:
    """Every line that was drawn, without escape codes."""
    return [
        line
        for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue()))
        if line.strip()
    ]


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_bar_fits_on_one_line(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = set_terminal(columns, monkeypatch)
    with Bar() as bar:
        bar.stage("reading the data")
        bar.progress.refresh()
        bar.encoding(500_000, 1_000_000)
        bar.progress.refresh()
        bar.step(RECORD, 300, 45_000.0)
    lines = drawn_lines(terminal)
    assert max(map(len, lines)) <= columns
    assert all(
        any(line.startswith(start) for line in lines) for start in ("reading the data", "encoding 50%", "step 120/300")
    )
    assert all(line.count("\u2501") + line.count("\u2578") >= 8 for line in lines)
    last = lines[-1]
    assert ("loss 1.234" in last) == (columns >= 80) and ("tok/s" in last) == (columns >= 120)


def test_a_pipe_receives_plain_lines_and_no_stages(capsys: pytest.CaptureFixture[str]) -> None:
    with report() as lines:
        lines.stage("reading the data")
        lines.say("device cpu")
    assert isinstance(lines, Lines)
    assert capsys.readouterr().err == "device cpu\n"


def test_a_stage_replaces_the_previous_one(monkeypatch: pytest.MonkeyPatch) -> None:
    set_terminal(80, monkeypatch)
    with Bar() as bar:
        bar.stage("loading torch")
        bar.stage("reading the data")
        tasks: list[Any] = bar.progress.tasks
        assert [task.description for task in tasks if task.visible] == ["reading the data"]
