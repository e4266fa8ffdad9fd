"""Baselines: simple models whose scores are shown next to a model's score on the same examples.

A task's entry has a function that fits its baselines on the training part, one at a time, when they are needed.
Baselines that would take longer than a few seconds are left out.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import BaseModel

from clew.core.errors import UserError
from clew.core.files import json_hash
from clew.core.processes import from_first, world_size
from clew.data.caching.fingerprints import code_digest
from clew.data.caching.parts import Part, remembered
from clew.metrics.measures import Measured
from clew.metrics.score import Score


class Baseline(NamedTuple):
    """`words` begin the sentence: `naive Bayes has`. `measure` scores a part, in the form of the task's Learning, and
    ends the sentence."""

    words: str
    measure: Callable[[Any], Measured]


Train = Callable[[], Any]
"""Returns the training part, read only when needed."""
Fit = Callable[[Train, Any], Iterator[Baseline]]
"""`fit(train, task)` yields the baselines of a task with the config section `task`, each fitted when it is reached."""
CODE = ("baselines", "core", "data", "metrics", "tasks", "text")
"""The packages whose code decides what baselines score."""


def fitting_key(fit: Fit, task: BaseModel, train: Any) -> str | None:
    """The key of baselines that are fitted on a training part in the cache; None for any other."""
    key = train.key if isinstance(train, Part) else None
    code = code_digest((fit,), CODE) if key is not None else None
    return None if code is None else json_hash({"train": key, "task": task.model_dump(mode="json"), "code": code})


def no_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    return iter(())


class Incomplete(Exception):
    """Not every baseline was measured, so that their scores are not remembered."""

    def __init__(self, measured: list[Measured] | None):
        super().__init__()
        self.measured = measured


class Baselines:
    """The baselines of a task, each fitted on first use. `key` identifies what they are fitted on and how; their scores
    on a large part are then remembered, since fitting passes over the whole training part."""

    def __init__(self, fit: Fit, task: Any, train: Train, key: str | None = None):
        self.fitted: list[Baseline] = []
        self.unfitted = fit(train, task)
        self.key = key

    def add_to(self, score: Score, part: Any, interrupted: Callable[[], bool] = lambda: False) -> Score | None:
        """The score, with the baselines' on the same part; None if `interrupted` says to stop, which only a single
        process may do."""
        measured = json.loads(from_first(lambda: json.dumps(self.remembered(part, interrupted))))
        if not measured:
            return None if measured is None else score
        measures = {name: value for values, _ in measured for name, value in values.items()}
        return replace(
            score,
            measures={**score.measures, **measures},
            text=f"{score.text}; {', '.join(text for _, text in measured)}",
        )

    def remembered(self, part: Any, interrupted: Callable[[], bool]) -> list[Measured] | None:
        """Return the stored results of `measure_all`, or compute them; None if interrupted."""
        try:
            if self.key is None:
                return self.measure_all(part, interrupted)
            return remembered(part, f"baselines {self.key}", lambda: self.measure_all(part, interrupted))
        except Incomplete as stopped:
            return stopped.measured

    def measure_all(self, part: Any, interrupted: Callable[[], bool]) -> list[Measured]:
        """The measures of each baseline, as whole sentences."""
        measured: list[Measured] = []
        try:
            for baseline in self.all():
                if interrupted() and world_size() == 1:
                    raise Incomplete(None)
                values, text = baseline.measure(part)
                measured.append(Measured(values, f"{baseline.words} {text}"))
        except (UserError, MemoryError):  # the training data are gone, or there are trees without a single phrase
            raise Incomplete(measured) from None
        return measured

    def all(self) -> Iterator[Baseline]:
        yield from tuple(self.fitted)
        for baseline in self.unfitted:
            self.fitted.append(baseline)
            yield baseline
