"""The worst mistakes of a run's last evaluation: what it was given, what was expected, what it found, and how bad that is."""

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
from clew.instruments.subject import Subject
from clew.runs.predictions import PREDICTIONS, marked_words, read_records, worst_first

BINS = 10
SHOWN = ("source", "second", "target", "prediction")


class ErrorsOptions(Section):
    """Which of them."""

    most: int = Field(25, ge=1, le=1000, description="how many are listed, the worst first")
    containing: str = Field("", description="only those whose text, target or prediction contains this")


def look_at_errors(subjects: Sequence[Subject], options: ErrorsOptions) -> View:
    folder = subjects[0].folder
    records = [] if folder is None else read_records(folder) or []
    wrong = worst_first(records)
    chosen = [record for record in wrong if options.containing in " ".join(str(record.get(field, "")) for field in SHOWN)][: options.most]
    chosen = [{**record, "marked": marked(record)} if "wrong" in record else record for record in chosen]
    told = [{**record, "source": record["marked"], "target": "", "prediction": ""} if "marked" in record else record for record in chosen]
    fields = [field for field in SHOWN if any(record.get(field) for record in told)]
    with_probability = any("gold_probability" in record for record in chosen)
    header = ("score", *(HEADINGS.get(field, field) for field in fields), *(("p of expected",) if with_probability else ()), "where")
    rows = [
        (
            round(record["score"], 2),
            *(record.get(field, "") for field in fields),
            *((record.get("gold_probability", ""),) if with_probability else ()),
            record["id"].replace("\\", "/").rpartition("/")[2],
        )
        for record in told
    ]
    confusions = Counter((record["target"], record["prediction"]) for record in wrong if "gold_probability" in record)
    parts: list[Part] = [Table(header, rows) if rows else Note("None is wrong." if not wrong else "None contains that.")]
    parts.append(histogram([record["score"] for record in records]))
    if confusions:
        parts.append(
            Table(("expected", "found", "times"), [(*pair, times) for pair, times in confusions.most_common(20)], "Taken for another")
        )
    mean = float(np.mean([record["score"] for record in records])) if records else 0.0
    about = f"{len(wrong)} of {len(records)} are not as expected; the mean score is {mean:.2f}"
    return View("Worst errors", parts, about, {"wrong": len(wrong), "examples": len(records), "mean_score": mean, "errors": chosen})


def marked(record: dict[str, Any]) -> str:
    """A sentence with its wrong tags, which say more than all tags side by side."""
    words = str(record["source"]).split(" ")
    return marked_words(words, [each for each in record["wrong"] if each["word"] <= len(words)])


def histogram(scores: Sequence[float]) -> Bars:
    """How many examples score how much, between round numbers."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    first, second, *_ = ticks(low, high if high > low else low + 1, BINS)
    apart = second - first
    begin = math.floor(low / apart + 1e-9)
    end = max(math.ceil(high / apart - 1e-9), begin + 1)
    edges = [apart * number for number in range(begin, end + 1)]
    counts, _ = np.histogram(np.clip(scores, edges[0], edges[-1]), bins=edges)  # rounding may leave one beyond them
    names = [f"{start} to {end}" for start, end in pairwise(labels(edges))]
    return Bars(names, [float(count) for count in counts], "examples", "Scores of all examples")


def why_no_errors(subject: Subject) -> str | None:
    if subject.folder is None:
        return f"{subject.name} is a module, and no run that was evaluated"
    if (subject.folder / PREDICTIONS).is_file():
        return None
    return (
        f"{subject.name} has no {PREDICTIONS}: it is written when a run on examples ends, with what it predicted on the part it was "
        "judged by"
    )


HEADINGS: dict[str, Any] = {"source": "given", "second": "and", "target": "expected", "prediction": "found"}

ERRORS = Instrument("the worst mistakes of the last evaluation", ErrorsOptions, look_at_errors, fits=why_no_errors)
