import re
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.tour.chapters import CHAPTERS
from clew.tour.experiments import EXPERIMENTS
from clew.tour.touring import stops, take_tour
from tests.tour.findings import Counting


def test_what_was_found_is_not_made_again_but_for_another_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counting, said = Counting(), list[str]()
    monkeypatch.setitem(EXPERIMENTS, "counting", counting.experiment)
    for seed in (0, 0, 1):
        found = take_tour(
            tmp_path, tmp_path / "report.html", ["counting"], scale="quick", seed=seed, report=said.append
        )
        assert found["counting"].found == f"seed {seed}"
    assert counting.calls == [("quick", 0), ("quick", 1)]
    assert sum("already complete" in line for line in said) == 1
    assert "one is one" in (tmp_path / "report.html").read_text()


def test_an_interrupted_tour_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Counting(), Counting(interrupted=True)
    monkeypatch.setitem(EXPERIMENTS, "first", first.experiment)
    monkeypatch.setitem(EXPERIMENTS, "second", second.experiment)
    with pytest.raises(KeyboardInterrupt):
        take_tour(tmp_path, tmp_path / "report.html", ["second", "first"], scale="quick", seed=0, report=print)
    second.interrupted = False
    found = take_tour(tmp_path, tmp_path / "report.html", ["second", "first"], scale="quick", seed=0, report=print)
    assert list(found) == ["first", "second"]  # the tour's order, whatever was asked first
    assert len(first.calls) == 1 and len(second.calls) == 2


def test_a_stop_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown stop of the tour 'reech'; did you mean 'reach'"):
        take_tour(tmp_path, tmp_path / "report.html", ["reech"], scale="quick", seed=0, report=print)


def test_no_name_stands_for_two_stops() -> None:
    assert not set(CHAPTERS) & set(EXPERIMENTS) and list(stops()) == [*CHAPTERS, *EXPERIMENTS]


def test_the_guide_tells_of_every_experiment_in_order() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "tour.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", guide, re.MULTILINE) == list(EXPERIMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_finds_something_quickly(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    found = EXPERIMENTS[name].run("quick", 0, print)
    assert found.rows and found.view.parts and all(len(row) == 3 for row in found.rows)
    assert found.view.html()


@pytest.mark.slow
def test_the_two_models_are_trained_once_and_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    said: list[str] = []
    found = take_tour(tmp_path, tmp_path / "report.html", list(CHAPTERS), scale="quick", seed=0, report=said.append)
    assert list(found) == list(CHAPTERS)
    assert sum(line.startswith("lstm: shakespeare-lstm with") for line in said) == 1
