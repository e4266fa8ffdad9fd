"""Compare runs: runs that differ only in the seed form a group with a mean, a standard deviation, and a significance
test against another group."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

from clew.core.errors import UserError, counted, unknown
from clew.core.numbers import is_number
from clew.core.wording import argument
from clew.metrics.bootstrap import approximate_randomisation, paired_bootstrap, paired_score_bootstrap
from clew.metrics.measures import measure_name
from clew.metrics.statistics import FORMULAS, Row, Statistics, tabulated
from clew.metrics.welch import welch
from clew.runs.folder.predictions import read_prediction_records
from clew.runs.folder.recomputed import recomputed_statistics
from clew.runs.folder.records import Summary
from clew.runs.settings.fields import SCHEDULE, fields_of, in_steps
from clew.tasks import TASKS

WITHOUT_EFFECT = ("device", "training.log_every", "training.save_every")
"""Settings that do not affect the results; runs that differ in them are still in one group."""
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
"""Measures per token, which are comparable only between runs with the same tokens."""
PAIRED = {"bootstrap": "paired bootstrap", "randomisation": "approximate randomisation"}
"""Tests over examples that both groups were scored on."""


@dataclass(frozen=True)
class Group:
    """Runs of the same config with different seeds. `label` tells the group from the others."""

    label: str
    runs: tuple[Summary, ...]

    def scores(self, measure: str) -> list[float]:
        return [run.best[measure] for run in self.runs if measure in run.best]

    def mean(self, measure: str) -> float | None:
        scores = self.scores(measure)
        return fmean(scores) if scores else None

    def spread(self, measure: str) -> float | None:
        """Return the sample standard deviation over seeds; None for a single seed."""
        scores = self.scores(measure)
        return stdev(scores) if len(scores) > 1 else None


class Verdict(NamedTuple):
    """The result of a significance test of two groups: the test's name, its p-value, and what it was computed over."""

    name: str
    p: float | None
    over: str


def lower_is_better(measure: str) -> bool:
    return measure.rpartition(".")[2] in LOWER_IS_BETTER


def group_runs(runs: Iterable[Summary]) -> tuple[list[Group], list[str]]:
    """Return groups in the order of their first runs, and a note on each run that was left out because another run has
    the same settings and seed."""
    groups: dict[str, dict[int, Summary]] = {}
    notes = []
    for run in runs:
        fields = identity(run)
        fields[SCHEDULE] = in_steps(fields[SCHEDULE], run.config.training.steps)
        seeds = groups.setdefault(json.dumps([fields, len(run.averaged)], sort_keys=True), {})
        twin = seeds.setdefault(run.config.seed, run)
        if twin is not run:
            notes.append(f"{run.folder} is skipped: it has the same settings and seed as {twin.folder}")
    members = [tuple(run for _, run in sorted(seeds.items())) for seeds in groups.values()]
    return [
        Group(label, runs) for label, runs in zip(labels([runs[0] for runs in members]), members, strict=True)
    ], notes


def identity(run: Summary) -> dict[str, Any]:
    return {
        name: value for name, value in fields_of(run.config).items() if name != "seed" and name not in WITHOUT_EFFECT
    }


def labels(runs: Sequence[Summary]) -> list[str]:
    """Return a label for one run of each group: its recipe if there are several, and the fields that differ within the
    recipe."""
    has_several_recipes = len({run.config.recipe for run in runs}) > 1
    texts = []
    for run in runs:
        siblings = [other for other in runs if other.config.recipe == run.config.recipe]
        fields = [name for name, _ in differing([identity(sibling) for sibling in siblings])]
        short_names = [name.rpartition(".")[2] for name in fields]
        values = [
            f"{short if short_names.count(short) == 1 else name}={spelt(identity(run).get(name))}"
            for name, short in zip(fields, short_names, strict=True)
        ]
        words = [
            *([run.config.recipe] if has_several_recipes or not values else []),
            *values,
            *(["averaged"] if run.averaged else []),
        ]
        texts.append(" ".join(words))
    return texts


def differing(settings: Sequence[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Return the fields that differ between settings, with the value in each; None where the field is missing."""
    names = dict.fromkeys(name for fields in settings for name in fields)
    rows = [(name, [fields.get(name) for fields in settings]) for name in names]
    return [(name, values) for name, values in rows if any(value != values[0] for value in values)]


def group_differences(groups: Sequence[Group]) -> list[tuple[str, list[Any]]]:
    return differing([identity(group.runs[0]) for group in groups])


def spelt(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def rank_groups(groups: Iterable[Group], measure: str) -> list[Group]:
    """Sort groups by a measure, best mean first and groups without it last; refuse a measure that no group has."""
    groups = list(groups)
    known = sorted({name for group in groups for run in group.runs for name in run.best})
    if measure not in known:
        raise unknown("measure", measure, known)
    sign = 1 if lower_is_better(measure) else -1
    return sorted(
        groups, key=lambda group: math.inf if group.mean(measure) is None else sign * (group.mean(measure) or 0.0)
    )


def compare_groups(group: Group, other: Group, measure: str, test: str = "bootstrap") -> tuple[Verdict, list[str]]:
    """Test whether two groups differ significantly; return the verdict and notes on why a better test was impossible.

    If all runs were scored on the same examples, the test is paired over the examples and is a member of PAIRED: of the
    measure itself if the runs have its statistics (a group's value is the mean over its runs), else of the examples'
    scores. Otherwise it is Welch's test if both groups have at least two seeds, and otherwise there is no test.
    """
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
                f"the predictions of {group.label} and {other.label} are of different examples, so the groups are"
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
    """Return a paired test over the same examples, and a note if it is not of the requested measure."""
    ids, name = list(first[0]), measure.rpartition(".")[2]
    statistics = [
        statistics_of(run, [by_id[id] for id in ids], name)
        for runs, predictions in ((group.runs, first), (other.runs, second))
        for run, by_id in zip(runs, predictions, strict=True)
    ]
    formulas = {None if pair is None else pair[0] for pair in statistics}
    if len(formulas) > 1 or None in formulas:
        one, two = ([fmean(by_id[id]["score"] for by_id in runs) for id in ids] for runs in (first, second))
        note = f"predictions.jsonl has no {measure} of single examples, so p is of the mean of their scores"
        return Verdict(PAIRED[test], p_of_scores(one, two, test), f"scores of {counted(len(ids), 'example')}"), [note]
    (formula,) = formulas
    assert formula is not None
    systems = tabulated([pair[1] for pair in statistics if pair is not None])
    pair, score = (systems[: len(first)], systems[len(first) :]), FORMULAS[formula]
    p = paired_score_bootstrap(*pair, score).p if test == "bootstrap" else approximate_randomisation(*pair, score)
    parts = dict.fromkeys(f"{predicted_part(run)}.{name}" for run in (*group.runs, *other.runs))
    notes = (
        []
        if list(parts) == [measure]
        else [f"predictions.jsonl is not of the examples of {measure}; p is of {', '.join(parts)}"]
    )
    return Verdict(PAIRED[test], p, f"{measure_name(name)} of {counted(len(ids), 'example')}"), notes


def statistics_of(run: Summary, records: Sequence[dict[str, Any]], name: str) -> tuple[str, list[Row]] | None:
    """Return the formula of a measure and every example's statistics; None if the predictions do not have them."""
    examples: list[Statistics] = [record.get("statistics", {}) for record in records]
    if not any(examples):
        examples = recomputed_statistics(run.config.task, records)
    measure = "loss" if name == "perplexity" else name
    formulas = {formula for example in examples for formula in example.get(measure, {})}
    if len(formulas) != 1 or not formulas <= FORMULAS.keys() or not all(measure in example for example in examples):
        return None
    (formula,) = formulas
    return "perplexity" if name == "perplexity" else formula, [example[measure][formula] for example in examples]


def p_of_scores(first: Sequence[float], second: Sequence[float], test: str) -> float:
    if test == "bootstrap":
        return paired_bootstrap(first, second).p
    one, two = tabulated([[(score, 1.0) for score in scores] for scores in (first, second)])
    return approximate_randomisation([one], [two], FORMULAS["mean"])


def predicted_part(run: Summary) -> str:
    """Return the part of the data that a run's predictions are of: the last one evaluated."""
    return "test" if any(name.startswith("test.") for name in run.best) else "valid"


def group_records(group: Group) -> list[Records] | None:
    """Return every run's predictions by id; None if a run has none."""
    records_of_runs = [read_prediction_records(run.folder) for run in group.runs]
    predictions = [{record["id"]: record for record in records} for records in records_of_runs if records is not None]
    if len(predictions) < len(group.runs):
        return None
    for run, by_id in zip(group.runs, predictions, strict=True):
        if by_id.keys() != predictions[0].keys():
            num_unshared = len(by_id.keys() ^ predictions[0].keys())
            raise UserError(
                f"{run.folder} and {group.runs[0].folder} have predictions of different examples ({num_unshared} are in"
                " only one of them)"
            )
    return predictions


def cautions(groups: Sequence[Group], measure: str) -> list[str]:
    """Return warnings about a comparison: different tokens, different texts, unfinished runs."""
    warnings = []
    fields = [name for name, _ in group_differences(groups)]
    texts = [name for name in fields if name.startswith("data.")]
    tokens = [name for name in fields if name.startswith("text.")]
    if texts:
        warnings.append(f"the groups read different texts ({', '.join(texts)}), so their scores are not comparable")
    if tokens and measure.rpartition(".")[2] in TOKEN_MEASURES:
        chosen = {run.measure for group in groups for run in group.runs} - {"loss"}
        fair = f"{measure.rpartition('.')[0]}.{min(chosen, default='bits_per_character')}"
        has_fair = all(
            run.measure != "loss" or TASKS[run.config.task.name].is_running for group in groups for run in group.runs
        )
        advice = f"; use {argument('measure', fair)}" if has_fair else ""
        warnings.append(
            f"the groups have different tokens ({', '.join(tokens)}), so {measure} is not comparable{advice}"
        )
    for group in groups:
        for run in group.runs:
            if run.state not in ("finished", "averaged"):
                warnings.append(f"{run.folder} is {run.state} at step {run.step} of {run.config.training.steps}")
    return warnings


def curve(run: Summary, measure: str) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the steps and values of a logged measure, such as `train.loss`, without non-finite values."""
    points = [(record["step"], record[measure]) for record in run.records if is_number(record.get(measure))]
    return tuple(step for step, _ in points), tuple(value for _, value in points)
