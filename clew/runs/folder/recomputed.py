"""Statistics of predictions that were written without them, from what stands there: target and prediction of every
example.

Texts are scored again as the run's config says, tags and labels are counted again. Trees and answers are not: their
gold tags and right answers are not in the file as they were scored.
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
    """Each record's, by the section `task` of the run's config; nothing where the file does not tell them."""
    recompute = RECOMPUTED.get(task.name)
    has_both = all(isinstance(record.get(side), str) for record in records for side in ("target", "prediction"))
    return recompute(task, records) if recompute is not None and has_both else [{} for _ in records]


def of_texts(task: Any, records: Sequence[Record]) -> list[Statistics]:
    wanted, written = (
        [record[side] if task.exact_space else " ".join(record[side].split()) for record in records]
        for side in ("target", "prediction")
    )
    found = [MEASURES[name].statistics(written, wanted, task.lowercase) for name in task.measures if name in MEASURES]
    return [{name: row for each in found for name, row in each[place].items()} for place in range(len(records))]


def of_tags(task: Any, records: Sequence[Record]) -> list[Statistics]:
    """Phrases stand there in IOB2."""
    pairs = [(record["target"].split(" "), record["prediction"].split(" ")) for record in records]
    phrases = task.scheme != "none" and all(is_phrase_tag(tag) for pair in pairs for tags in pair for tag in tags)
    if any(len(gold) != len(tags) for gold, tags in pairs):
        return [{} for _ in records]
    return [tag_statistics(gold, tags, phrases=phrases) for gold, tags in pairs]


def of_labels(task: Any, records: Sequence[Record]) -> list[Statistics]:
    """Several labels have a `|` between them; their accuracy is not told, since labels that no example has are not
    there."""
    if task.labels == "one":
        return [one_label_statistics(record["target"], record["prediction"], task.positive) for record in records]
    if task.labels == "number":
        return [{} for _ in records]
    sets = [
        [[label for label in record[side].split("|") if label] for side in ("target", "prediction")]
        for record in records
    ]
    found = [label_set_statistics(gold, told, 0) for gold, told in sets]
    return [{name: row for name, row in each.items() if name != "accuracy"} for each in found]


RECOMPUTED: dict[str, Callable[[Any, Sequence[Record]], list[Statistics]]] = {
    "sequence": of_texts,
    "translation": of_texts,
    "tagging": of_tags,
    "classification": of_labels,
}
