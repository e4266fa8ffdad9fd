"""A run that decides steps on the device logs the same as a run that reads every step."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.recipes.running import run_recipe
from clew.runs.folder.run_files import read_metrics
from clew.tasks.language_model import LanguageModel
from clew.training.backward import StepOptions
from clew.training.loop import train
from tests.runs.small import lstm_settings
from tests.training.test_run import assert_same_run


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def loop_with(look: bool) -> Any:
    """The training loop, with the host reading every step or none."""

    def train_with_look(
        task: Any, batches: Any, optimiser: Any, schedule: Any, options: StepOptions, **rest: Any
    ) -> Any:
        return train(task, batches, optimiser, schedule, replace(options, look=look), **rest)

    return train_with_look


def poison(monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """Put NaN into the loss of some training steps, counted from 1."""
    forward, done = LanguageModel.forward, []

    def poisoned(self: Any, batch: Any, state: Any = None) -> Any:
        terms, state = forward(self, batch, state)
        if self.training:
            done.append(batch)
        if self.training and len(done) in steps:
            terms = {"loss": terms["loss"]._replace(sum=terms["loss"].sum * math.nan)}
        return terms, state

    monkeypatch.setattr(LanguageModel, "forward", poisoned)


def logged(folder: str) -> list[tuple[int, bool]]:
    return [
        (record["step"], record.get("skipped", False))
        for record in read_metrics(Path(folder))
        if "train.loss" in record
    ]


def test_skipped_steps_between_logged_ones_are_logged_in_order(tmp_path: Path) -> None:
    settings = [*lstm_settings(tmp_path, steps=17), "training.log_every=5", "training.evaluate_every=8"]
    for out, look in (("looked", True), ("ahead", False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("clew.training.driving.train", loop_with(look))
            poison(patch, {3, 4, 12, 16})
            run_recipe("text-lstm", settings, out=Path(out))
    expected = [(3, True), (4, True), (5, False), (10, False), (12, True), (15, False), (16, True), (17, False)]
    assert logged("looked") == logged("ahead") == expected
    assert_same_run(Path("looked"), Path("ahead"))


def test_skipped_steps_that_end_a_run_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [*lstm_settings(tmp_path, steps=40), "training.log_every=30", "training.evaluate_every=30"]
    monkeypatch.setattr("clew.training.driving.train", loop_with(False))
    poison(monkeypatch, set(range(6, 41)))
    with pytest.raises(
        UserError, match=r"10 steps in a row had no finite gradient \(step 15: loss nan, gradient norm nan\)"
    ):
        run_recipe("text-lstm", settings, out=Path("given-up"))
    logged_steps = logged("given-up")
    assert (
        logged_steps[:10] == [(step, True) for step in range(6, 16)]
        and len(logged_steps) <= 20
        and all(skipped for _, skipped in logged_steps)
    )
