"""predictions.jsonl in a run directory: the scored examples of an evaluation, one object per example.

    {"id": "test-17", "score": 100.0, "prediction": "a dog barks", "statistics": {"exact_match": {"share": [1, 1]}}}

`id` names the example, the same in every run that was scored on it. `score` is a finite number, higher is better: a
log-probability, 100 for right and 0 for wrong, or a sentence's BLEU. `statistics` are the values from which the
measures of all examples together are computed, in the form of clew.metrics.statistics; runs are compared by these if
they have them, otherwise by their scores. `prediction` and other fields depend on the task.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, shown
from clew.core.files import read_text, write_text
from clew.core.memory import host_memory
from clew.core.numbers import is_number
from clew.metrics.statistics import Statistics

PREDICTIONS = "predictions.jsonl"


def write_predictions(
    folder: Path,
    scores: Mapping[str, float],
    fields: Mapping[str, Mapping[str, Any]] | None = None,
    statistics: Mapping[str, Statistics] | None = None,
) -> None:
    """Write one line per example: its id and score, and its other fields and statistics if given."""
    lines = (
        prediction_line(name, score, (fields or {}).get(name, {}), (statistics or {}).get(name))
        for name, score in scores.items()
    )
    write_text(folder / PREDICTIONS, "".join(lines))


def prediction_line(name: str, score: float, fields: Mapping[str, Any], statistics: Statistics | None = None) -> str:
    optional = {"statistics": statistics} if statistics else {}
    return json.dumps({"id": name, "score": score, **fields, **optional}, ensure_ascii=False) + "\n"


def read_predictions(folder: Path) -> dict[str, float] | None:
    """Return every example's score by its id; None if the run has no predictions."""
    records = read_prediction_records(folder)
    return None if records is None else {str(record["id"]): float(record["score"]) for record in records}


def read_prediction_records(folder: Path) -> list[dict[str, Any]] | None:
    """Return every prediction with all its fields, in file order; None if the run has none."""
    path = folder / PREDICTIONS
    if not path.is_file():
        return None
    records: dict[str, dict[str, Any]] = {}
    try:
        lines = read_text(path, (host_memory() or 2**34) // 16).split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; evaluate the run again") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            record = prediction(line, f"{path}:{number}")
            if record["id"] in records:
                raise UserError(
                    f"{path}:{number}: the id {record['id']!r} appears on an earlier line; ids must be unique"
                )
            records[record["id"]] = record
    if not records:
        raise UserError(f"{path} has no predictions in it; evaluate the run again")
    return list(records.values())


WORDS, PROBABILITY, SCORE = "wrong words", "p of expected", "score"
"""Sort keys of mistakes: most wrong words, lowest probability of the expected answer, or lowest score first."""


def worst_by(records: Iterable[Mapping[str, Any]]) -> str:
    """Return the key that mistakes are sorted by: wrong words for tags, the probability of the right label for labels,
    else the score."""
    fields = {field for record in records for field in record}
    return WORDS if "wrong" in fields else PROBABILITY if "gold_probability" in fields else SCORE


def badness(record: Mapping[str, Any], measure: str) -> float:
    """Return the record's value of a sort key; NaN if it has none."""
    values = {
        WORDS: len(record.get("wrong", ())),
        PROBABILITY: record.get("gold_probability", math.nan),
        SCORE: record["score"],
    }
    return float(values[measure])


def worst_first(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the wrong predictions, worst first by `worst_by` and then by score; records without the key come last."""
    wrong = [
        without_statistics(record)
        for record in records
        if record["score"] < 100 and record.get("prediction") != record.get("target")
    ]
    measure = worst_by(wrong)
    sign = -1 if measure == WORDS else 1

    def order(record: dict[str, Any]) -> tuple[bool, float, float]:
        value = badness(record, measure)
        return (True, 0.0, record["score"]) if math.isnan(value) else (False, sign * value, record["score"])

    return sorted(wrong, key=order)


NO_LABEL = "(none)"
"""Shown for an empty set of labels."""


def without_statistics(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a prediction that people read."""
    return {name: value for name, value in record.items() if name != "statistics"}


def marked_words(words: Sequence[str], wrong: Sequence[Mapping[str, Any]]) -> str:
    """Return the sentence with wrong tags marked, as in `Paris[expected B-LOC, found B-PER]`."""
    marked = list(words)
    for error in wrong:
        marked[error["word"] - 1] += f"[expected {error['gold']}, found {error['predicted']}]"
    return " ".join(marked)


def prediction(line: str, where: str) -> dict[str, Any]:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:  # invalid JSON, nested too deep, or too many digits for Python
        raise UserError(f"{where}: this is not JSON: {str(error).partition('; use sys.')[0]}") from None
    name, score = (record.get("id"), record.get("score")) if isinstance(record, dict) else (None, None)
    if not isinstance(name, (str, int)) or isinstance(name, bool):
        raise UserError(
            f'{where}: a prediction is an object with an "id" (a text or a whole number) and a "score", not'
            f" {line.strip()[:60]}"
        )
    if not is_number(score):
        raise UserError(f'{where}: "score" takes a finite number, not {shown(score)}')
    if not is_number(record.get("gold_probability", 0.0)):
        raise UserError(
            f'{where}: "gold_probability" takes a number from 0 to 1, not {shown(record["gold_probability"])}'
        )
    if not are_wrong_words(record.get("wrong", [])):
        raise UserError(
            f'{where}: "wrong" has one object per wrong word, with the number of the "word", its "gold" and its'
            ' "predicted" tag, not '
            f"{shown(record['wrong'])}"
        )
    if not are_statistics(record.get("statistics", {})):
        raise UserError(
            f'{where}: "statistics" has one object per measure, with the name of a formula and its numbers; evaluate'
            " the run again"
        )
    return {**record, "id": str(name), "score": float(score)}


def are_wrong_words(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(error, dict)
        and {"gold", "predicted"} <= error.keys()
        and is_number(error.get("word"))
        and error["word"] >= 1
        for error in value
    )


def are_statistics(value: Any) -> bool:
    """Whether a value is an object of measures, each with one formula and its numbers, or numbers by label."""

    def are_numbers(row: Any) -> bool:
        return isinstance(row, list) and all(map(is_number, row))

    return isinstance(value, dict) and all(
        isinstance(measure, dict)
        and len(measure) == 1
        and all(
            are_numbers(row) or (isinstance(row, dict) and all(map(are_numbers, row.values())))
            for row in measure.values()
        )
        for measure in value.values()
    )
