"""The length of training in epochs."""

import json
import signal
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.recipes.many import is_done, plan_grid, run_planned
from clew.recipes.resolving import changes, config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import read_config, read_weights
from clew.runs.folder.run_files import read_metrics
from clew.training.report import Silence
from clew.training.signals import Interrupted
from tests.runs.small import gpt_settings


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


class Stopper(Silence):
    """Collects messages, and raises a signal at a step."""

    def __init__(self, step: int = -1):
        self.at = step
        self.messages: list[str] = []

    def say(self, text: str) -> None:
        self.messages.append(text)

    def step(self, record, steps, tokens_per_second) -> None:
        if record.step == self.at:
            signal.raise_signal(signal.SIGINT)


def settings(folder: Path) -> list[str]:
    """Settings without a number of steps."""
    without_steps = [word for word in gpt_settings(folder) if not word.startswith("training.steps=")]
    return [*without_steps, "training.log_every=1", "model.dropout=0.2"]


def epochs_seen(folder: Path) -> list[int]:
    return [record["epoch"] for record in read_metrics(folder) if "epoch" in record]


def test_every_batch_is_trained_on_once_per_epoch(tmp_path: Path) -> None:
    listener = Stopper()
    run_recipe("text-gpt", [*settings(tmp_path), "training.epochs=2"], out=Path("run"), report=listener)
    epochs = epochs_seen(Path("run"))
    assert set(epochs) == {0, 1} and epochs.count(0) == epochs.count(1)
    assert f"2 epochs are {len(epochs)} steps" in listener.messages
    once_more = run_recipe("text-gpt", [*settings(tmp_path), f"training.steps={len(epochs) + 1}"], out=Path("longer"))
    assert epochs_seen(once_more.run.folder)[-1] == 2


def test_a_part_of_an_epoch_is_that_part_of_its_batches(tmp_path: Path) -> None:
    whole = run_recipe("text-gpt", [*settings(tmp_path), "training.epochs=1"], out=Path("whole")).step
    assert run_recipe("text-gpt", [*settings(tmp_path), "training.epochs=1.5"], out=Path("more")).step == whole + round(
        whole / 2
    )
    assert run_recipe("text-gpt", [*settings(tmp_path), "training.epochs=1e-9"], out=Path("less")).step == 1


def test_epochs_and_the_same_number_of_steps_train_alike(tmp_path: Path) -> None:
    count = run_recipe("text-gpt", [*settings(tmp_path), "training.epochs=1"], out=Path("epochs")).step
    run_recipe("text-gpt", [*settings(tmp_path), f"training.steps={count}"], out=Path("steps"))
    expected, actual = (read_weights(Path(folder, "model.safetensors")) for folder in ("epochs", "steps"))
    assert all(torch.equal(value, actual[name]) for name, value in expected.items())


def test_epochs_resume_bit_for_bit(tmp_path: Path) -> None:
    assignments = [*settings(tmp_path), "training.epochs=2", "training.schedule=cosine"]
    count = run_recipe("text-gpt", assignments, out=Path("straight")).step
    with pytest.raises(Interrupted, match=f"stopped at step 3 of {count}"):
        run_recipe("text-gpt", assignments, out=Path("stopped"), report=Stopper(3))
    assert run_recipe("text-gpt", assignments, out=Path("stopped"), resume=True).step == count
    expected, actual = (read_weights(Path(folder, "model.safetensors")) for folder in ("straight", "stopped"))
    assert all(torch.equal(value, actual[name]) for name, value in expected.items())


def test_a_run_can_be_resumed_for_more_epochs_or_steps_but_not_fewer(tmp_path: Path) -> None:
    assignments = [*settings(tmp_path), "training.epochs=1"]
    count = run_recipe("text-gpt", assignments, out=Path("run")).step
    before = Path("run/metrics.jsonl").read_text()
    with pytest.raises(
        UserError,
        match=f"has already done {count} steps, but training.epochs=0.5 is {round(count / 2)}; set more epochs",
    ):
        run_recipe("text-gpt", ["training.epochs=0.5"], out=Path("run"), resume=True)
    assert Path("run/metrics.jsonl").read_text() == before
    assert run_recipe("text-gpt", ["training.epochs=2"], out=Path("run"), resume=True).step == 2 * count
    assert (
        run_recipe("text-gpt", [f"training.steps={2 * count + 1}"], out=Path("run"), resume=True).step == 2 * count + 1
    )
    assert read_config(Path("run")).training.epochs is None


def test_steps_computed_from_epochs_are_not_a_changed_setting(tmp_path: Path) -> None:
    assignments = [*settings(tmp_path), "training.epochs=1"]
    run = run_recipe("text-gpt", assignments).run
    changed = changes(run.config)
    assert changed is not None and changed["training.epochs"] == 1.0 and "training.steps" not in changed
    with pytest.raises(UserError, match="is a run with exactly these settings; resume it with resume=True"):
        run_recipe("text-gpt", assignments)
    assert run_recipe("text-gpt", assignments, resume=True).run.folder == run.folder


def test_a_grid_over_epochs_knows_which_runs_are_done(tmp_path: Path) -> None:
    assignments = [*settings(tmp_path), "training.epochs=1,2"]
    for each in plan_grid("text-gpt", assignments):
        assert not is_done(each)
        run_planned(each)
    again = plan_grid("text-gpt", assignments)
    assert all(map(is_done, again))
    assert [read_config(each.folder).training.epochs for each in again] == [1.0, 2.0]


def test_steps_and_epochs_are_not_given_together() -> None:
    sentence = r"training.steps \(50\) and training.epochs \(3\) both say how long to train; give one of them"
    with pytest.raises(UserError, match=sentence):
        config_of("text-gpt", ["training.steps=50", "training.epochs=3"])


def test_steps_override_the_epochs_of_a_file(tmp_path: Path) -> None:
    Path("mine.yaml").write_text("recipe: text-gpt\ntraining: {steps: 1000, epochs: 3}\n")
    assert config_of("mine.yaml").training.epochs == 3
    training = config_of("mine.yaml", ["training.steps=50"]).training
    assert (training.steps, training.epochs) == (50, None)


def test_a_shortened_warmup_is_reported_and_kept_on_resuming(tmp_path: Path) -> None:
    listener, assignments = Stopper(), [*settings(tmp_path), "training.schedule={name: linear, warmup: 400}"]
    run_recipe("text-gpt", [*assignments, "training.steps=20"], out=Path("run"), report=listener)
    assert any(
        message.startswith("a warm-up of 400 steps is longer than a training of 20, and is shortened to 2")
        for message in listener.messages
    )
    run_recipe("text-gpt", ["training.steps=24"], out=Path("run"), resume=True)
    assert json.loads(Path("run/checkpoints/step-00000024/training.json").read_text())["schedule"]["warmup"] == 2
