import re
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.tour.chapters import CHAPTERS
from clew.tour.experiments import EXPERIMENTS
from clew.tour.touring import stops, take_tour
from tests.tour.findings import Counting


def test_stored_findings_are_reused_except_with_another_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting, lines = Counting(), list[str]()
    monkeypatch.setitem(EXPERIMENTS, "counting", counting.experiment)
    for seed in (0, 0, 1):
        findings = take_tour(
            tmp_path, tmp_path / "report.html", ["counting"], scale="quick", seed=seed, report=lines.append
        )
        assert findings["counting"].measured == f"seed {seed}"
    assert counting.calls == [("quick", 0), ("quick", 1)]
    assert sum("already complete" in line for line in lines) == 1
    assert "one is one" in (tmp_path / "report.html").read_text()


def test_an_interrupted_tour_continues_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Counting(), Counting(interrupted=True)
    monkeypatch.setitem(EXPERIMENTS, "first", first.experiment)
    monkeypatch.setitem(EXPERIMENTS, "second", second.experiment)
    with pytest.raises(KeyboardInterrupt):
        take_tour(tmp_path, tmp_path / "report.html", ["second", "first"], scale="quick", seed=0, report=print)
    second.interrupted = False
    findings = take_tour(tmp_path, tmp_path / "report.html", ["second", "first"], scale="quick", seed=0, report=print)
    assert list(findings) == ["first", "second"]  # in the tour's order, not the requested one
    assert len(first.calls) == 1 and len(second.calls) == 2


def test_an_unknown_stop_is_rejected_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown stop of the tour 'reech'; did you mean 'reach'"):
        take_tour(tmp_path, tmp_path / "report.html", ["reech"], scale="quick", seed=0, report=print)


def test_stops_have_distinct_names() -> None:
    assert not set(CHAPTERS) & set(EXPERIMENTS) and list(stops()) == [*CHAPTERS, *EXPERIMENTS]


def test_the_guide_lists_every_experiment_in_order() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "tour.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", guide, re.MULTILINE) == list(EXPERIMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_finding_at_the_quick_scale(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    finding = EXPERIMENTS[name].run("quick", 0, print)
    assert finding.rows and finding.view.parts and all(len(row) == 3 for row in finding.rows)
    assert finding.view.html()


@pytest.mark.slow
def test_the_two_models_are_trained_once_and_inspected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    lines: list[str] = []
    findings = take_tour(tmp_path, tmp_path / "report.html", list(CHAPTERS), scale="quick", seed=0, report=lines.append)
    assert list(findings) == list(CHAPTERS)
    assert sum(line.startswith("lstm: shakespeare-lstm with") for line in lines) == 1
