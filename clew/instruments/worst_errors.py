"""The worst errors of a run's last evaluation: input, expected and predicted output, and score."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import Field

from clew.core.config import Section
from clew.drawing.scales import labels, ticks
from clew.drawing.views import Bars, Note, Part, Table, View
from clew.instruments.instrument import Instrument
from clew.instruments.subjects.subject import Subject
from clew.runs.folder.predictions import (
    NO_LABEL,
    PREDICTIONS,
    PROBABILITY,
    SCORE,
    WORDS,
    badness,
    marked_words,
    read_prediction_records,
    worst_by,
    worst_first,
)

BINS = 10
LABELS = ("target", "prediction")
SHOWN = ("source", "second", *LABELS)
ORDERS = {
    WORDS: "worst first: those with the most wrong words",
    PROBABILITY: "worst first: those with the lowest probability of the expected output",
    SCORE: "worst first: those with the lowest score",
}


class ErrorsOptions(Section):
    """The errors to list."""

    most: int = Field(25, ge=1, le=1000, description="the number of errors to list, the worst first")
    containing: str = Field("", description="list only errors whose text, target or prediction contains this")


def look_at_errors(subjects: Sequence[Subject], options: ErrorsOptions) -> View:
    folder = subjects[0].folder
    records = [] if folder is None else read_prediction_records(folder) or []
    wrong = worst_first(records)
    chosen = [
        record for record in wrong if options.containing in " ".join(str(record.get(field, "")) for field in SHOWN)
    ][: options.most]
    chosen = [{**record, "marked": mark_wrong_tags(record)} if "wrong" in record else record for record in chosen]
    measure = worst_by(wrong)
    fields = [field for field in SHOWN if any(field in record for record in chosen)]
    if measure == WORDS:
        fields = [field for field in fields if field not in LABELS]  # tags are shown with their words
    other_scores = [
        name
        for name in (PROBABILITY, SCORE)
        if name != measure and (name == SCORE or any("gold_probability" in each for each in chosen))
    ]
    header = (measure, *(HEADINGS.get(field, field) for field in fields), *other_scores, "where")
    rows = [
        (
            shown_number(record, measure),
            *(shown_text(record, field) for field in fields),
            *(shown_number(record, name) for name in other_scores),
            record["id"].replace("\\", "/").rpartition("/")[2],
        )
        for record in chosen
    ]
    confusions = Counter(
        (shown_text(record, "target"), shown_text(record, "prediction"))
        for record in wrong
        if "gold_probability" in record
    )
    parts: list[Part] = [
        Table(header, rows)
        if rows
        else Note("No prediction is wrong." if not wrong else "No error contains that text.")
    ]
    parts.append(histogram([record["score"] for record in records]))
    if confusions:
        parts.append(
            Table(
                ("expected", "found", "times"),
                [(*pair, times) for pair, times in confusions.most_common(20)],
                "Confusions",
                keys=2,
            )
        )
    mean = float(np.mean([record["score"] for record in records])) if records else 0.0
    about = f"{len(wrong)} of {len(records)} predictions are wrong; the mean score is {mean:.2f}" + (
        f"; {ORDERS[measure]}" if wrong else ""
    )
    return View(
        "Worst errors",
        parts,
        about,
        {"wrong": len(wrong), "examples": len(records), "mean_score": mean, "errors": chosen},
    )


def shown_number(record: dict[str, Any], measure: str) -> float | None:
    value = badness(record, measure)
    return None if math.isnan(value) else int(value) if measure == WORDS else round(value, 2 if measure == SCORE else 6)


def shown_text(record: dict[str, Any], field: str) -> str:
    """Return a field for the table: words with their wrong tags, and never an empty label."""
    if field == "source" and "marked" in record:
        return str(record["marked"])
    return str(record.get(field, "")) or (NO_LABEL if field in LABELS else "")


def mark_wrong_tags(record: dict[str, Any]) -> str:
    """Return a sentence with only its wrong tags, which are more informative than all tags."""
    words = str(record["source"]).split(" ")
    return marked_words(words, [each for each in record["wrong"] if each["word"] <= len(words)])


def histogram(scores: Sequence[float]) -> Bars:
    """Count examples by score, between round numbers."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    first, second, *_ = ticks(low, high if high > low else low + 1, BINS)
    apart = second - first
    begin = math.floor(low / apart + 1e-9)
    end = max(math.ceil(high / apart - 1e-9), begin + 1)
    edges = [apart * number for number in range(begin, end + 1)]
    # Rounding may put a score beyond the edges.
    counts, _ = np.histogram(np.clip(scores, edges[0], edges[-1]), bins=edges)
    names = [f"{start} to {end}" for start, end in pairwise(labels(edges))]
    return Bars(names, [float(count) for count in counts], "examples", "Scores of all examples")


def why_no_errors(subject: Subject) -> str | None:
    if subject.folder is None:
        return f"{subject.name} is a module, not an evaluated run"
    if (subject.folder / PREDICTIONS).is_file():
        return None
    return (
        f"{subject.name} has no {PREDICTIONS}: it is written at the end of a run on examples, with the predictions for"
        " the part on which it was evaluated"
    )


HEADINGS: dict[str, Any] = {"source": "given", "second": "and", "target": "expected", "prediction": "found"}

ERRORS = Instrument("the worst errors of the last evaluation", ErrorsOptions, look_at_errors, fits=why_no_errors)
