from pathlib import Path

import pytest

from clew.tour.experiments import EXPERIMENTS
from tests.cli.conftest import Clew
from tests.tour.findings import Counting


def test_stops_are_listed(clew: Clew) -> None:
    result = clew("tour", "--list")
    assert result.status == 0 and "reach" in result.out and "models" in result.out
    # The first line is the header of the table.
    assert len(clew("tour", "--list", "--json").out.splitlines()) == len(result.out.splitlines()) - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "reech"], "unknown stop of the tour 'reech'; did you mean 'reach'?"),
        (["--all", "--only", "reach"], "--all runs every stop, and --only some of them; leave one of them out"),
        (["--out", "tour.pdf"], "--out must end in .html, such as report.html, not tour.pdf"),
        (["--out", "nowhere/tour.html"], "no such folder for --out: nowhere"),
        (["--seed", "-1"], "--seed (-1) must be from 0 to"),
        (["--scale", "huge"], "invalid choice: 'huge'"),
    ],
)
def test_mistakes_are_reported_in_one_line(clew: Clew, arguments: list[str], message: str) -> None:
    result = clew("tour", *arguments)
    assert result.status == 2 and message in result.err and result.err.count("\n") == 1
    assert not Path("runs").exists()


def test_a_tour_writes_a_report_and_resumes_after_ctrl_c(clew: Clew, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Counting(), Counting(interrupted=True)
    monkeypatch.setitem(EXPERIMENTS, "first", first.experiment)
    monkeypatch.setitem(EXPERIMENTS, "second", second.experiment)
    result = clew("tour", "--only", "first", "second", "--seed", "5")
    assert result.status == 130
    assert result.err.splitlines()[-1] == "clew: interrupted; results so far are saved; repeat the command to resume"
    second.interrupted = False
    result = clew("tour", "--only", "first", "second", "--seed", "5")
    assert result.status == 0 and Path(result.out.strip()) == Path("runs/tour/report.html")
    assert first.calls == [("full", 5)] and "Counted" in Path("runs/tour/report.html").read_text()
    assert '"measured": "seed 5"' in clew("tour", "--only", "first", "--seed", "5", "--json").out
    assert "--only second" in Path("runs/tour/report.html").read_text()  # earlier results stay on the page
    assert clew("tour", "--only", "first", "--scale", "quick").out.strip() == "runs/tour/quick.html"
