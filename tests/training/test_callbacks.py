"""Callbacks receive events, may stop training, and lose no work if they fail."""

import os
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import clew
from clew.core.errors import UserError
from clew.runs.folder.run_files import read_metrics
from clew.runs.folder.summary import summarise
from clew.training.callbacks import Callbacks, Ended, Evaluated, Saved, check_callbacks
from clew.training.records import Record
from tests.runs.small import lstm_settings
from tests.training.group import fit_together


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


class Diary:
    def __init__(self) -> None:
        self.entries: list[Any] = []

    def on_step(self, step: Record) -> None:
        self.entries.append(("step", step.step, step.loss))

    def on_evaluation(self, evaluation: Evaluated) -> None:
        self.entries.append(evaluation)

    def on_save(self, save: Saved) -> None:
        assert save.folder.is_dir()
        self.entries.append(save)

    def on_end(self, end: Ended) -> None:
        self.entries.append(end)


class StopAt:
    def __init__(self, step: int):
        self.step = step

    def on_step(self, step: Record) -> bool:
        return step.step == self.step


class FailAt(StopAt):
    def on_step(self, step: Record) -> bool:
        if step.step == self.step:
            raise ZeroDivisionError("mine")
        return False


def test_events_arrive_in_order(tmp_path: Path) -> None:
    diary = Diary()
    run = clew.train("text-lstm", *lstm_settings(tmp_path, steps=6), out="run", quiet=True, callbacks=[diary])
    kinds = [entry[0] if isinstance(entry, tuple) else type(entry).__name__ for entry in diary.entries]
    assert kinds == ["step"] * 4 + ["Evaluated", "Saved"] + ["step"] * 2 + ["Evaluated", "Saved", "Ended"]
    ended, evaluated = diary.entries[-1], diary.entries[4]
    assert (ended.step, ended.folder, evaluated.step, evaluated.is_best) == (6, run.folder, 4, True)
    assert evaluated.loss == evaluated.measures["loss"] and {"perplexity"} <= ended.measures.keys()
    logged = [record["train.loss"] for record in summarise(run.folder).records if "train.loss" in record]
    assert [entry[2] for entry in diary.entries if isinstance(entry, tuple)] == logged


def test_callbacks_do_not_change_the_weights(tmp_path: Path) -> None:
    settings = lstm_settings(tmp_path, steps=4)
    runs = [
        clew.train("text-lstm", *settings, quiet=True, callbacks=callback_list) for callback_list in ([], [Diary()])
    ]
    assert all(torch.equal(a, b) for a, b in zip(*(run.task.state_dict().values() for run in runs), strict=True))


def test_a_callback_can_end_a_run_which_is_then_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diary = Diary()
    settings = lstm_settings(tmp_path, steps=6)
    run = clew.train("text-lstm", *settings, out="run", callbacks=[StopAt(3), diary])
    assert "stopped at step 3, as requested by StopAt" in capsys.readouterr().err
    assert isinstance(diary.entries[-1], Ended) and diary.entries[-1].step == diary.entries[-1].best_step == 3
    assert clew.load("run", device="cpu").score("the door") == run.score("the door")
    stopped = summarise(run.folder)
    assert (stopped.state, stopped.step, stopped.records[-1]["stopped_by"]) == ("finished", 3, "StopAt")
    more = clew.train("text-lstm", *settings, out="run", resume=True, quiet=True)
    whole = clew.train("text-lstm", *settings, out="whole", quiet=True)
    records = [summarise(each.folder).records for each in (more, whole)]
    assert not any("stopped_by" in record for record in records[0])
    losses = [[record["train.loss"] for record in run_records if "train.loss" in record] for run_records in records]
    assert losses[0] == losses[1] and len(losses[0]) == 6


def test_a_failing_callback_stops_the_run_and_saves_it(tmp_path: Path) -> None:
    settings = lstm_settings(tmp_path, steps=6)
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        clew.train("text-lstm", *settings, out="run", quiet=True, callbacks=[FailAt(3)])
    innermost = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (Path(innermost.filename).name, innermost.name) == ("test_callbacks.py", "on_step")
    assert [path.name for path in Path("run/checkpoints").iterdir()] == ["step-00000003"]
    assert clew.train("text-lstm", *settings, out="run", resume=True, quiet=True).score("the door")


class FailAsClew:
    def on_step(self, step: Record) -> None:
        raise UserError("my own model.dim=3 and --resume")


def test_a_user_error_of_a_callback_keeps_its_message_and_traceback(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^my own model.dim=3 and --resume$") as caught:
        clew.train("text-lstm", *lstm_settings(tmp_path, steps=2), out="run", quiet=True, callbacks=[FailAsClew()])
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "on_step"


class Answer:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def on_evaluation(self, evaluation: Evaluated) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "stops"),
    [
        (True, True),
        (np.True_, True),
        (torch.tensor(True), True),
        (np.array([True]), True),
        (np.False_, False),
        (torch.tensor(0.5), False),
        (torch.ones(2, dtype=torch.bool), False),
        (1, False),
        ("yes", False),
    ],
)
def test_only_a_true_of_any_library_stops_training(answer: Any, stops: bool) -> None:
    callbacks = Callbacks([Answer(answer)])
    callbacks.evaluation(Evaluated(1, {"loss": 1.0}, is_best=True))
    assert callbacks.ask_to_stop is stops and callbacks.error is None


class Mean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean).square().mean()


def test_fit_calls_callbacks() -> None:
    diary = Diary()
    loader = DataLoader(torch.randn(8, 1), batch_size=4)  # type: ignore[arg-type]
    fitted = clew.fit(
        Mean(), loader, "fit", steps=5, evaluate=loader, device="cpu", quiet=True, callbacks=[StopAt(2), diary]
    )
    assert (fitted.step, diary.entries[-1].step) == (2, 2) and fitted.measures == diary.entries[-1].measures
    assert repr(fitted).startswith("Fit('fit': Mean, 2 steps, loss ")


def fit_with(name: str, callback: Any) -> None:
    loader = DataLoader(torch.randn(8, 1, generator=torch.Generator().manual_seed(1)), batch_size=4)  # type: ignore[arg-type]
    clew.fit(Mean(), loader, name, steps=6, device="cpu", quiet=True, callbacks=[callback])


def stop_together(folder: Path) -> None:
    fit_with(str(folder / "stopped"), StopAt(2))


def fail_together(folder: Path) -> None:
    try:
        fit_with(str(folder / "failed"), FailAt(2))
    except Exception as error:
        (folder / f"{os.environ['RANK']}.txt").write_text(type(error).__name__)


@pytest.mark.slow
def test_all_processes_end_after_the_same_step(tmp_path: Path) -> None:
    """Only the first process has callbacks; its request reaches the others with the next step."""
    fit_together(2, tmp_path, stop_together)
    assert [*read_metrics(tmp_path / "stopped")][-1]["step"] == 3
    fit_together(2, tmp_path, fail_together)
    assert [(tmp_path / f"{rank}.txt").read_text() for rank in (0, 1)] == ["ZeroDivisionError", "Interrupted"]
    assert [path.name for path in (tmp_path / "failed" / "checkpoints").iterdir()] == ["step-00000003"]


class Wrong:
    def step(self, record: Record) -> None: ...


class Misspelt:
    def on_stpe(self, step: Record) -> None: ...


class Number:
    on_step = 3

    def on_end(self, end: Ended) -> None: ...


@pytest.mark.parametrize(
    ("callbacks", "sentence"),
    [
        (
            [Misspelt()],
            (
                "the callback Misspelt has none of the methods on_step, on_evaluation, on_save, on_end; rename its"
                " method "
            ),
        ),
        ([Number()], "on_step of the callback Number must be a method, not 3"),
        (
            [Wrong()],
            (
                "the callback Wrong has none of the methods on_step, on_evaluation, on_save, on_end; rename its"
                " method step to on_step"
            ),
        ),
        (
            [object()],
            "the callback object has none of the methods on_step, on_evaluation, on_save, on_end; add one",
        ),
        ([Diary], "callbacks= takes objects, but Diary is a class; pass Diary()"),
        (Diary(), "callbacks= takes a list of objects, not <tests"),
    ],
)
def test_invalid_callbacks_are_rejected(callbacks: Any, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        check_callbacks(callbacks)
    assert str(caught.value).startswith(sentence.partition("<")[0])
