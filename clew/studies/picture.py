"""A search as a view: scores in the order of the trials, a plot for each setting, and importances."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from clew.drawing.parts import Bars, Part, Points, Series, Table
from clew.drawing.views import View
from clew.studies.space import Choices, Range, Space
from clew.studies.study import Trial
from clew.studies.trials import FINISHED, PRUNED


def view_of_trials(
    space: Space, trials: Sequence[Trial], measure: str, importances: Mapping[str, float], about: str
) -> View:
    scored = [
        trial
        for trial in trials
        if trial.score is not None and np.isfinite(trial.score) and trial.state in (FINISHED, PRUNED)
    ]
    parts: list[Part] = []
    if scored:
        parts.append(history(scored, measure))
        parts += [slice_of(axis, scored, measure) for axis in space.axes]
    if importances:
        shares = list(importances.values())
        parts.append(
            Bars(
                list(importances),
                shares,
                "share of the difference between the best trials and the others",
                "Importance of the settings",
                low=0.0,
                high=1.0,
            )
        )
    header = ["trial", *(axis.field for axis in space.axes), f"valid {measure}", "steps", "state", "note"]
    rows = [
        (
            trial.number,
            *trial.settings.values(),
            trial.score,
            f"{trial.step}/{trial.steps}" if trial.steps else None,
            trial.state,
            trial.note,
        )
        for trial in trials
    ]
    parts.append(Table(header, rows, "Trials"))
    facts = {"trials": len(trials), "importances": dict(importances)}
    return View(f"Search of {space.recipe}", parts, about, facts)


def history(scored: Sequence[Trial], measure: str) -> Points:
    """Plot the scores in the order of the trials."""
    return points(scored, lambda trial: float(trial.number), "trial", measure, "Scores in the order of the trials")


def slice_of(axis: Range | Choices, scored: Sequence[Trial], measure: str) -> Points:
    """Plot the scores against one setting. Choices have one colour each, in the order of the trials."""
    title = f"Scores by {axis.field}"
    if isinstance(axis, Range):
        return points(scored, lambda trial: float(trial.settings[axis.field]), axis.field, measure, title, axis)
    groups = {value: [trial for trial in scored if trial.settings[axis.field] == value] for value in axis.values}
    series = [series_of(value, group, lambda trial: float(trial.number)) for value, group in groups.items() if group]
    texts = [[text_of(trial) for trial in group] for group in groups.values() if group]
    return Points(series, texts, "trial", f"valid {measure}", title)


def points(
    scored: Sequence[Trial],
    place: Callable[[Trial], float],
    x_label: str,
    measure: str,
    title: str,
    axis: Range | None = None,
) -> Points:
    """Plot finished and pruned trials in two colours, over the whole range of a setting."""
    groups = {state: [trial for trial in scored if trial.state == state] for state in (FINISHED, PRUNED)}
    series = [series_of(state, group, place) for state, group in groups.items() if group]
    texts = [[text_of(trial) for trial in group] for group in groups.values() if group]
    x_range = None if axis is None else (axis.low, axis.high)
    return Points(series, texts, x_label, f"valid {measure}", title, x_range, log_x=axis is not None and axis.is_log)


def series_of(name: str, group: Sequence[Trial], place: Callable[[Trial], float]) -> Series:
    return Series(name, [place(trial) for trial in group], [trial.score for trial in group if trial.score is not None])


def text_of(trial: Trial) -> str:
    return f"trial {trial.number}: {trial.words}, {trial.measure} {trial.score:.4f}, {trial.state}"
