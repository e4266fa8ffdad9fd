import math
import sys
from pathlib import Path

import pytest

from clew.training.events import Events


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The scalars that TensorBoard shows for a folder."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    contents = accumulator.EventAccumulator(str(folder))
    contents.Reload()
    return {tag: [(event.step, event.value) for event in contents.Scalars(tag)] for tag in contents.Tags()["scalars"]}


@pytest.fixture
def events(tmp_path: Path) -> Events:
    pytest.importorskip("tensorboard")
    return Events(tmp_path)


def test_records_are_shown_as_scalars_at_their_steps(events: Events, tmp_path: Path) -> None:
    events.add({"step": 10, "train.loss": 2.5, "epoch": 0, "tokens_per_second": 1000})
    events.add({"step": 20, "train.loss": 1.5, "epoch": 1, "tokens_per_second": 2000, "skipped": True})
    events.add({"step": 20, "valid.loss": 1.75})
    assert scalars(tmp_path) == {
        "train/loss": [(10, 2.5), (20, 1.5)],
        "epoch": [(10, 0.0), (20, 1.0)],
        "tokens_per_second": [(10, 1000.0), (20, 2000.0)],
        "valid/loss": [(20, 1.75)],
    }
    events.close()


def test_records_are_written_at_once_and_ignored_after_closing(events: Events, tmp_path: Path) -> None:
    events.add({"step": 1, "train.loss": 1.0})
    assert scalars(tmp_path)["train/loss"] == [(1, 1.0)]
    events.close()
    events.close()
    events.add({"step": 2, "train.loss": 1.0})
    assert scalars(tmp_path)["train/loss"] == [(1, 1.0)]


def test_values_without_a_number_or_a_step_are_ignored(events: Events, tmp_path: Path) -> None:
    events.add({"step": 3, "failed": "no finite gradient", "averaged": [1], "nothing": None, "skipped": False})
    events.add({"train.loss": 1.0})
    events.add({"step": 4, "best.valid.loss": 1.25, "train.loss": math.inf})
    written = scalars(tmp_path)
    assert written == {"best/valid.loss": [(4, 1.25)], "train/loss": [(4, math.inf)]}
    events.close()


def test_a_resumed_run_shows_each_step_once(events: Events, tmp_path: Path) -> None:
    """Steps 1 to 5 were written and the checkpoint is of step 3, so later steps are written again."""
    for step in range(1, 6):
        events.add({"step": step, "train.loss": float(step)})
    events.close()
    again = Events(tmp_path, after=3)
    for step in range(4, 7):
        again.add({"step": step, "train.loss": 10.0 * step})
    assert scalars(tmp_path)["train/loss"] == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 40.0), (5, 50.0), (6, 60.0)]
    again.close()


def test_without_tensorboard_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    events = Events(tmp_path, after=1)
    events.add({"step": 1, "train.loss": 1.0})
    events.close()
    assert list(tmp_path.iterdir()) == []
