"""Baselines beside a model's score: what has learnt next to nothing, or was known before neural models, on the same examples.

A task's entry has a function that fits its baselines on the training part, one after the other as they are asked for. What would take
longer than a few seconds is left out.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from clew.core.errors import UserError
from clew.core.processes import from_first, world_size
from clew.metrics.measures import Measured
from clew.metrics.score import Score


class Baseline(NamedTuple):
    """`words` begins the sentence: `naive Bayes has`. `measure` scores a part, as the task's Learning knows it, and ends it."""

    words: str
    measure: Callable[[Any], Measured]


Train = Callable[[], Any]
"""Gives the training part, where it is needed."""
Fit = Callable[[Train, Any], Iterator[Baseline]]
"""`fit(train, task)`: the baselines of a task with the section `task`, each fitted when it is asked for."""


def no_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    return iter(())


class Baselines:
    """Those of a task, each fitted when it is first asked for."""

    def __init__(self, fit: Fit, task: Any, train: Train):
        self.fitted: list[Baseline] = []
        self.unfitted = fit(train, task)

    def beside(self, score: Score, part: Any, interrupted: Callable[[], bool] = lambda: False) -> Score | None:
        """The score with the baselines' on the same part; None where `interrupted` says to stop, which a process alone may do."""
        found = json.loads(from_first(lambda: json.dumps(self.measured(part, interrupted))))
        if not found:
            return None if found is None else score
        measures = {name: value for values, _ in found for name, value in values.items()}
        return replace(score, measures={**score.measures, **measures}, text=f"{score.text}; {', '.join(text for _, text in found)}")

    def measured(self, part: Any, interrupted: Callable[[], bool]) -> list[Measured] | None:
        """What each is found to reach, in whole sentences."""
        found = []
        try:
            for baseline in self.all():
                if interrupted() and world_size() == 1:
                    return None
                values, text = baseline.measure(part)
                found.append(Measured(values, f"{baseline.words} {text}"))
        except (UserError, MemoryError):  # no training data any more, or trees without a single phrase
            pass
        return found

    def all(self) -> Iterator[Baseline]:
        yield from tuple(self.fitted)
        for baseline in self.unfitted:
            self.fitted.append(baseline)
            yield baseline
