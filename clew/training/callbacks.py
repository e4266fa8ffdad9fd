"""Callbacks: objects of the user's that are told of steps, evaluations, saves and the end, and may ask training to
stop.

The loop knows nothing of them: whoever takes its records calls them between two. An object has any of four methods:

    on_step(step: Record) -> bool | None
    on_evaluation(evaluation: Evaluated) -> bool | None
    on_save(save: Saved) -> None
    on_end(end: Ended) -> None

A method that returns True asks to stop after this step: the run is evaluated, saved and finished as one that is
complete. An exception ends the run once its checkpoint is saved. Of several processes the first alone has callbacks,
and what they ask for is done a step later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from clew.core.errors import UserError, shown
from clew.core.processes import is_first
from clew.training.records import Record


@dataclass(frozen=True)
class Evaluated:
    """An evaluation on the validation part: its measures by name, and whether it is the best so far."""

    step: int
    measures: Mapping[str, float]
    is_best: bool

    @property
    def loss(self) -> float:
        return self.measures["loss"]


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was written."""

    step: int
    folder: Path


@dataclass(frozen=True)
class Ended:
    """The end of training: its last step, that of the best evaluation, and what that one measured, by name."""

    step: int
    best_step: int
    measures: Mapping[str, float]
    seconds: float
    folder: Path


@runtime_checkable
class StepCallback(Protocol):
    def on_step(self, step: Record, /) -> bool | None: ...


@runtime_checkable
class EvaluationCallback(Protocol):
    def on_evaluation(self, evaluation: Evaluated, /) -> bool | None: ...


@runtime_checkable
class SaveCallback(Protocol):
    def on_save(self, save: Saved, /) -> None: ...


@runtime_checkable
class EndCallback(Protocol):
    def on_end(self, end: Ended, /) -> None: ...


Callback = StepCallback | EvaluationCallback | SaveCallback | EndCallback
"""An object with at least one of the methods."""
METHODS = ("on_step", "on_evaluation", "on_save", "on_end")


class Callbacks:
    """Several callbacks as one. `stopped_by` is the name of the one that asked to stop; `error` what one has raised."""

    def __init__(self, callbacks: Sequence[Callback] = ()):
        check_callbacks(callbacks)
        self.callbacks = list(callbacks) if is_first() else []
        self.stopped_by: str | None = None
        self.error: Exception | None = None

    @property
    def ask_to_stop(self) -> bool:
        return self.stopped_by is not None or self.error is not None

    def step(self, record: Record) -> None:
        self._call("on_step", record)

    def evaluation(self, evaluated: Evaluated) -> None:
        self._call("on_evaluation", evaluated)

    def save(self, saved: Saved) -> None:
        self._call("on_save", saved)

    def end(self, ended: Ended) -> None:
        """What is raised here is the caller's at once: nothing is left to be saved."""
        self._call("on_end", ended)
        self.raise_error()

    def raise_error(self) -> None:
        """Raises what a callback has raised, with its own traceback."""
        if self.error is not None:
            raise self.error

    def _call(self, name: str, record: Any) -> None:
        for callback in self.callbacks:
            method = getattr(callback, name, None)
            if method is None or self.error is not None:
                continue
            try:
                answer = method(record)
            except Exception as error:
                if isinstance(error, UserError):
                    error.is_of_user_code = True
                self.error = error
                return
            if is_true(answer):
                self.stopped_by = type(callback).__name__


def is_true(answer: Any) -> bool:
    """Whether an answer is True, of NumPy and torch too; any other value, such as a loss, asks for nothing."""
    is_scalar = isinstance(answer, (np.generic, np.ndarray, Tensor)) and answer.shape in ((), (1,))
    return (answer.item() if is_scalar else answer) is True


def check_callbacks(callbacks: Any) -> None:
    """Refuses what would never be called."""
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise UserError(f"callbacks= takes a list of objects, not {shown(callbacks)}")
    for callback in callbacks:
        if isinstance(callback, type):
            raise UserError(f"callbacks= takes objects, and {callback.__name__} is a class; give {callback.__name__}()")
        for name in METHODS:
            method = getattr(callback, name, None)
            if method is not None and not callable(method):
                raise UserError(
                    f"{name} of the callback {type(callback).__name__} is {shown(method)}; it must be a method"
                )
        if not any(callable(getattr(callback, name, None)) for name in METHODS):
            own = {name.removeprefix("on_"): name for name in dir(callback) if not name.startswith("_")}
            meant = {name: get_close_matches(name.removeprefix("on_"), own, 1) for name in METHODS}
            near = next(
                (f"name its method {name} in place of {own[match[0]]}" for name, match in meant.items() if match),
                "give it one",
            )
            named = type(callback).__name__
            raise UserError(f"the callback {named} has none of the methods {', '.join(METHODS)}; {near}")
