"""Callbacks: user objects whose methods are called at steps, evaluations, saves and the end of training, and which can
request a stop.

The training loop knows nothing about callbacks: the code that consumes its records calls them between two steps. An
object has one or more of four methods:

    on_step(step: Record) -> bool | None
    on_evaluation(evaluation: Evaluated) -> bool | None
    on_save(save: Saved) -> None
    on_end(end: Ended) -> None

If a method returns True, training stops after this step: the run is evaluated, saved and finished like a complete one.
An exception ends the run after a checkpoint is saved. With several processes, only the first has callbacks, and
training stops one step later.
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
    """An evaluation on the validation part: its metrics by name, and whether it is the best so far."""

    step: int
    measures: Mapping[str, float]
    is_best: bool

    @property
    def loss(self) -> float:
        return self.measures["loss"]


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written."""

    step: int
    folder: Path


@dataclass(frozen=True)
class Ended:
    """The end of training: the last step, the step of the best evaluation, and its metrics by name."""

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
"""An object with at least one of the four methods."""
METHODS = ("on_step", "on_evaluation", "on_save", "on_end")


class Callbacks:
    """A list of callbacks. `stopped_by` is the class name of the one that requested a stop, and `error` the exception
    that one raised."""

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
        """Call `on_end`. An exception is raised immediately, because everything is saved."""
        self._call("on_end", ended)
        self.raise_error()

    def raise_error(self) -> None:
        """Raise the exception of a callback, with its traceback."""
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
    """Whether an answer is True, in Python, NumPy or torch. Any other value, such as a loss, is not a request."""
    is_scalar = isinstance(answer, (np.generic, np.ndarray, Tensor)) and answer.shape in ((), (1,))
    return (answer.item() if is_scalar else answer) is True


def check_callbacks(callbacks: Any) -> None:
    """Raise an error for objects whose methods would never be called."""
    if not isinstance(callbacks, Sequence) or isinstance(callbacks, str):
        raise UserError(f"callbacks= takes a list of objects, not {shown(callbacks)}")
    for callback in callbacks:
        if isinstance(callback, type):
            raise UserError(f"callbacks= takes objects, but {callback.__name__} is a class; pass {callback.__name__}()")
        for name in METHODS:
            method = getattr(callback, name, None)
            if method is not None and not callable(method):
                raise UserError(
                    f"{name} of the callback {type(callback).__name__} must be a method, not {shown(method)}"
                )
        if not any(callable(getattr(callback, name, None)) for name in METHODS):
            own = {name.removeprefix("on_"): name for name in dir(callback) if not name.startswith("_")}
            matches = {name: get_close_matches(name.removeprefix("on_"), own, 1) for name in METHODS}
            remedy = next(
                (f"rename its method {own[match[0]]} to {name}" for name, match in matches.items() if match),
                "add one",
            )
            class_name = type(callback).__name__
            raise UserError(f"the callback {class_name} has none of the methods {', '.join(METHODS)}; {remedy}")
