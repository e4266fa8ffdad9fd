"""Recompute the statistics of predictions that were written without them, from the target and prediction of every
example.

Texts are scored again with the run's config; tags and labels are counted again. Trees and answers cannot be: the file
does not have their gold tags and right answers as they were scored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clew.core.tag_schemes import is_phrase_tag
from clew.metrics.measures import MEASURES
from clew.metrics.spans import tag_statistics
from clew.metrics.statistics import Statistics
from clew.tasks.uses.answers import label_set_statistics, one_label_statistics

Record = Mapping[str, Any]


def recomputed_statistics(task: Any, records: Sequence[Record]) -> list[Statistics]:
    """Return the statistics of each record, using the section `task` of the run's config; empty if they cannot be
    recomputed."""
    recompute = RECOMPUTED.get(task.name)
    has_both = all(isinstance(record.get(side), str) for record in records for side in ("target", "prediction"))
    return recompute(task, records) if recompute is not None and has_both else [{} for _ in records]


def text_statistics(task: Any, records: Sequence[Record]) -> list[Statistics]:
    targets, predictions = (
        [record[side] if task.exact_space else " ".join(record[side].split()) for record in records]
        for side in ("target", "prediction")
    )
    by_measure = [
        MEASURES[name].statistics(predictions, targets, task.lowercase) for name in task.measures if name in MEASURES
    ]
    return [
        {name: row for statistics in by_measure for name, row in statistics[place].items()}
        for place in range(len(records))
    ]


def sentence_tag_statistics(task: Any, records: Sequence[Record]) -> list[Statistics]:
    """Return the statistics of tagged sentences; phrases are stored as IOB2 tags, regardless of the task's scheme."""
    pairs = [(record["target"].split(" "), record["prediction"].split(" ")) for record in records]
    phrases = task.scheme != "none" and all(is_phrase_tag(tag) for pair in pairs for tags in pair for tag in tags)
    if any(len(gold) != len(tags) for gold, tags in pairs):
        return [{} for _ in records]
    return [tag_statistics(gold, tags, phrases=phrases) for gold, tags in pairs]


def label_statistics(task: Any, records: Sequence[Record]) -> list[Statistics]:
    """Return the statistics of labels. Sets of labels are stored with a `|` between them; they have no accuracy,
    because labels that no example has are not in the file."""
    if task.labels == "one":
        return [one_label_statistics(record["target"], record["prediction"], task.positive) for record in records]
    if task.labels == "number":
        return [{} for _ in records]
    sets = [
        [[label for label in record[side].split("|") if label] for side in ("target", "prediction")]
        for record in records
    ]
    by_example = [label_set_statistics(gold, predicted, 0) for gold, predicted in sets]
    return [{name: row for name, row in statistics.items() if name != "accuracy"} for statistics in by_example]


RECOMPUTED: dict[str, Callable[[Any, Sequence[Record]], list[Statistics]]] = {
    "sequence": text_statistics,
    "translation": text_statistics,
    "tagging": sentence_tag_statistics,
    "classification": label_statistics,
}
