"""Runs side by side: those that differ in the seed alone are one group, with a mean, a spread, and a test against
another group."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

from clew.core.errors import UserError, counted, unknown
from clew.core.numbers import is_number
from clew.metrics.bootstrap import approximate_randomisation, paired_bootstrap, paired_score_bootstrap
from clew.metrics.measures import named
from clew.metrics.statistics import FORMULAS, Row, Statistics, tabulated
from clew.metrics.welch import welch
from clew.runs.folder.predictions import read_records
from clew.runs.folder.recomputed import recomputed_statistics
from clew.runs.folder.summary import Summary
from clew.runs.settings.fields import SCHEDULE, fields_of, in_steps
from clew.tasks import TASKS

WITHOUT_EFFECT = ("device", "training.log_every", "training.save_every")
"""Settings that change nothing of what is measured; runs that differ in them are still one group."""
LOWER_IS_BETTER = (
    "loss",
    "perplexity",
    "bits_per_character",
    "error",
    "calibration_error",
    "word_error_rate",
    "character_error_rate",
    "ter",
    "wer",
    "cer",
)
TOKEN_MEASURES = ("loss", "perplexity")
"""Measures per token, which compare between runs with the same tokens only."""
PAIRED = {"bootstrap": "paired bootstrap", "randomisation": "approximate randomisation"}
"""Tests over the examples that two groups were both scored on."""


@dataclass(frozen=True)
class Group:
    """Runs of one config but for the seed. `label` says what sets the group apart from the others."""

    label: str
    runs: tuple[Summary, ...]

    def scores(self, measure: str) -> list[float]:
        return [run.best[measure] for run in self.runs if measure in run.best]

    def mean(self, measure: str) -> float | None:
        scores = self.scores(measure)
        return fmean(scores) if scores else None

    def spread(self, measure: str) -> float | None:
        """The sample's standard deviation over seeds; None where there is one seed."""
        scores = self.scores(measure)
        return stdev(scores) if len(scores) > 1 else None


class Verdict(NamedTuple):
    """What a test said of two groups: which test it was, its p-value, and over how many values."""

    name: str
    p: float | None
    over: str


def lower_is_better(measure: str) -> bool:
    return measure.rpartition(".")[2] in LOWER_IS_BETTER


def group_runs(runs: Iterable[Summary]) -> tuple[list[Group], list[str]]:
    """Groups in the order of their first runs, and a sentence on each run left out: a second one of the same seed says
    nothing new."""
    found: dict[str, dict[int, Summary]] = {}
    notes = []
    for run in runs:
        fields = identity(run)
        fields[SCHEDULE] = in_steps(fields[SCHEDULE], run.config.training.steps)
        seeds = found.setdefault(json.dumps([fields, len(run.averaged)], sort_keys=True), {})
        twin = seeds.setdefault(run.config.seed, run)
        if twin is not run:
            notes.append(f"{run.folder} has the settings and the seed of {twin.folder}, and is left out")
    members = [tuple(run for _, run in sorted(seeds.items())) for seeds in found.values()]
    return [
        Group(label, runs) for label, runs in zip(labels([runs[0] for runs in members]), members, strict=True)
    ], notes


def identity(run: Summary) -> dict[str, Any]:
    return {
        name: value for name, value in fields_of(run.config).items() if name != "seed" and name not in WITHOUT_EFFECT
    }


def labels(runs: Sequence[Summary]) -> list[str]:
    """What sets one run of each group apart: the recipe where there are several, and the fields that differ within a
    recipe."""
    several = len({run.config.recipe for run in runs}) > 1
    found = []
    for run in runs:
        own = [other for other in runs if other.config.recipe == run.config.recipe]
        fields = [name for name, _ in differing([identity(other) for other in own])]
        ends = [name.rpartition(".")[2] for name in fields]
        words = [
            f"{end if ends.count(end) == 1 else name}={spelt(identity(run).get(name))}"
            for name, end in zip(fields, ends, strict=True)
        ]
        words = [
            *([run.config.recipe] if several or not words else []),
            *words,
            *(["averaged"] if run.averaged else []),
        ]
        found.append(" ".join(words))
    return found


def differing(settings: Sequence[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """The fields that are not the same in all settings, with the value in each; None where one has no such field."""
    names = dict.fromkeys(name for each in settings for name in each)
    rows = [(name, [each.get(name) for each in settings]) for name in names]
    return [(name, values) for name, values in rows if any(value != values[0] for value in values)]


def group_differences(groups: Sequence[Group]) -> list[tuple[str, list[Any]]]:
    return differing([identity(group.runs[0]) for group in groups])


def spelt(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def ranked(groups: Iterable[Group], measure: str) -> list[Group]:
    """The best mean first; groups without the measure are refused."""
    groups = list(groups)
    known = sorted({name for group in groups for run in group.runs for name in run.best})
    if measure not in known:
        raise unknown("measure", measure, known)
    sign = 1 if lower_is_better(measure) else -1
    return sorted(
        groups, key=lambda group: math.inf if group.mean(measure) is None else sign * (group.mean(measure) or 0.0)
    )


def compare_groups(group: Group, other: Group, measure: str, test: str = "bootstrap") -> tuple[Verdict, list[str]]:
    """Whether two groups differ by more than chance. Where all their runs were scored on the same examples, a paired
    test over those, a member of PAIRED: of the measure itself, a group's being the mean of its runs', where the runs
    have its statistics, and else of the examples' scores. Else Welch's test over at least two seeds each; else no test.
    With it, what stood in the way."""
    if test not in PAIRED:
        raise unknown("test", test, PAIRED)
    notes: list[str] = []
    try:
        first, second = group_records(group), group_records(other)
        if first is not None and second is not None:
            if first[0].keys() == second[0].keys():
                verdict, remarks = compare_examples(group, other, first, second, measure, test)
                return verdict, [*notes, *remarks]
            notes.append(
                f"the predictions of {group.label} and of {other.label} are of different examples, so that they are"
                " compared over seeds"
            )
    except UserError as error:
        notes.append(str(error))
    one, two = group.scores(measure), other.scores(measure)
    if len(one) < 2 or len(two) < 2:
        return Verdict("none", None, f"{len(one)} and {len(two)} seeds"), notes
    return Verdict("Welch", welch(one, two).p, f"{len(one)} and {len(two)} seeds"), notes


Records = dict[str, dict[str, Any]]
"""A run's predictions by id."""


def compare_examples(
    group: Group, other: Group, first: list[Records], second: list[Records], measure: str, test: str
) -> tuple[Verdict, list[str]]:
    """A paired test over the same examples, and what it is of where that is not the measure asked for."""
    ids, name = list(first[0]), measure.rpartition(".")[2]
    rows = [
        statistics_of(run, [records[id] for id in ids], name)
        for runs, found in ((group.runs, first), (other.runs, second))
        for run, records in zip(runs, found, strict=True)
    ]
    formulas = {None if found is None else found[0] for found in rows}
    if len(formulas) > 1 or None in formulas:
        one, two = ([fmean(records[id]["score"] for records in found) for id in ids] for found in (first, second))
        note = f"predictions.jsonl does not tell {measure} of single examples, so that p is of the mean of their scores"
        return Verdict(PAIRED[test], p_of_scores(one, two, test), f"scores of {counted(len(ids), 'example')}"), [note]
    (formula,) = formulas
    assert formula is not None
    systems = tabulated([found[1] for found in rows if found is not None])
    pair, score = (systems[: len(first)], systems[len(first) :]), FORMULAS[formula]
    p = paired_score_bootstrap(*pair, score).p if test == "bootstrap" else approximate_randomisation(*pair, score)
    parts = dict.fromkeys(f"{predicted_part(run)}.{name}" for run in (*group.runs, *other.runs))
    notes = (
        []
        if list(parts) == [measure]
        else [f"predictions.jsonl has other examples than {measure} is of; p is of {', '.join(parts)}"]
    )
    return Verdict(PAIRED[test], p, f"{named(name)} of {counted(len(ids), 'example')}"), notes


def statistics_of(run: Summary, records: Sequence[dict[str, Any]], name: str) -> tuple[str, list[Row]] | None:
    """The formula of a measure and every example's statistics; None where the predictions do not tell them."""
    each: list[Statistics] = [record.get("statistics", {}) for record in records]
    if not any(each):
        each = recomputed_statistics(run.config.task, records)
    of = "loss" if name == "perplexity" else name
    formulas = {formula for statistics in each for formula in statistics.get(of, {})}
    if len(formulas) != 1 or not formulas <= FORMULAS.keys() or not all(of in statistics for statistics in each):
        return None
    (formula,) = formulas
    return "perplexity" if name == "perplexity" else formula, [statistics[of][formula] for statistics in each]


def p_of_scores(first: Sequence[float], second: Sequence[float], test: str) -> float:
    if test == "bootstrap":
        return paired_bootstrap(first, second).p
    one, two = tabulated([[(score, 1.0) for score in scores] for scores in (first, second)])
    return approximate_randomisation([one], [two], FORMULAS["mean"])


def predicted_part(run: Summary) -> str:
    """The part that a run's predictions are of: the last that was evaluated."""
    return "test" if any(name.startswith("test.") for name in run.best) else "valid"


def group_records(group: Group) -> list[Records] | None:
    """Every run's predictions by id; None where a run has none."""
    read = [read_records(run.folder) for run in group.runs]
    found = [{record["id"]: record for record in records} for records in read if records is not None]
    if len(found) < len(group.runs):
        return None
    for run, by_id in zip(group.runs, found, strict=True):
        if by_id.keys() != found[0].keys():
            odd = len(by_id.keys() ^ found[0].keys())
            raise UserError(
                f"{run.folder} and {group.runs[0].folder} have predictions of different examples ({odd} are in one of"
                " them alone)"
            )
    return found


def cautions(groups: Sequence[Group], measure: str) -> list[str]:
    """What a reader of the numbers must know: other tokens, other texts, unfinished runs."""
    found = []
    fields = [name for name, _ in group_differences(groups)]
    texts = [name for name in fields if name.startswith("data.")]
    tokens = [name for name in fields if name.startswith("text.")]
    if texts:
        found.append(f"the groups read different texts ({', '.join(texts)}), so that their scores do not compare")
    if tokens and measure.rpartition(".")[2] in TOKEN_MEASURES:
        chosen = {run.measure for group in groups for run in group.runs} - {"loss"}
        fair = f"{measure.rpartition('.')[0]}.{min(chosen, default='bits_per_character')}"
        has_fair = all(
            run.measure != "loss" or TASKS[run.config.task.name].is_running for group in groups for run in group.runs
        )
        advice = f"; use --measure {fair}" if has_fair else ""
        found.append(
            f"the groups have different tokens ({', '.join(tokens)}), so that {measure} does not compare{advice}"
        )
    for group in groups:
        for run in group.runs:
            if run.state not in ("finished", "averaged"):
                found.append(f"{run.folder} is {run.state} at step {run.step} of {run.config.training.steps}")
    return found


def curve(run: Summary, measure: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Steps and values of what a run logged, such as `train.loss`; what is not finite is left out."""
    points = [(record["step"], record[measure]) for record in run.records if is_number(record.get(measure))]
    return tuple(step for step, _ in points), tuple(value for _, value in points)
