"""predictions.jsonl in a run directory: what an evaluation scored, one object an example.

    {"id": "test-17", "score": 100.0, "prediction": "a dog barks", "statistics": {"exact_match": {"share": [1, 1]}}}

`id` names the example, the same in every run that was scored on it. `score` is a finite number, higher is better: a
log-probability, 100 for right and 0 for wrong, the BLEU of a sentence. `statistics` are what the measures of all
examples together are computed from, as clew.metrics.statistics has them; runs are compared by these where they have
them, and else by their scores. `prediction` and other fields are the evaluation's own.
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
    """An example a line, by its id, with other fields and with statistics where there are some."""
    lines = (
        prediction_line(name, score, (fields or {}).get(name, {}), (statistics or {}).get(name))
        for name, score in scores.items()
    )
    write_text(folder / PREDICTIONS, "".join(lines))


def prediction_line(name: str, score: float, fields: Mapping[str, Any], statistics: Statistics | None = None) -> str:
    more = {"statistics": statistics} if statistics else {}
    return json.dumps({"id": name, "score": score, **fields, **more}, ensure_ascii=False) + "\n"


def read_predictions(folder: Path) -> dict[str, float] | None:
    """Every example's score by its id; None where the run has no predictions."""
    records = read_records(folder)
    return None if records is None else {str(record["id"]): float(record["score"]) for record in records}


def read_records(folder: Path) -> list[dict[str, Any]] | None:
    """Every prediction with all of its fields, in the file's order; None where the run has none."""
    path = folder / PREDICTIONS
    if not path.is_file():
        return None
    found: dict[str, dict[str, Any]] = {}
    try:
        lines = read_text(path, (host_memory() or 2**34) // 16).split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; evaluate the run again") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            record = prediction(line, f"{path}:{number}")
            if record["id"] in found:
                raise UserError(
                    f"{path}:{number}: the id {record['id']!r} stands above already; every example has an id of its own"
                )
            found[record["id"]] = record
    if not found:
        raise UserError(f"{path} has no predictions in it; evaluate the run again")
    return list(found.values())


WORDS, PROBABILITY, SCORE = "wrong words", "p of expected", "score"
"""What mistakes are ordered by: the most wrong words, the lowest probability of what was expected, or the lowest
score."""


def worst_by(records: Iterable[Mapping[str, Any]]) -> str:
    """The one measure that mistakes are ordered by: of tags the wrong words, of labels the probability that the right
    one was given."""
    fields = {field for record in records for field in record}
    return WORDS if "wrong" in fields else PROBABILITY if "gold_probability" in fields else SCORE


def badness(record: Mapping[str, Any], measure: str) -> float:
    """The record's value of a measure, as it is shown; NaN where it has none."""
    values = {
        WORDS: len(record.get("wrong", ())),
        PROBABILITY: record.get("gold_probability", math.nan),
        SCORE: record["score"],
    }
    return float(values[measure])


def worst_first(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The wrong ones, worst first by `worst_by` of them; among equals those of the lowest score. One without the
    measure comes last."""
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
"""Stands for no label at all, so that what was expected and what was found are both named."""


def without_statistics(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a person reads of a prediction."""
    return {name: value for name, value in record.items() if name != "statistics"}


def marked_words(words: Sequence[str], wrong: Sequence[Mapping[str, Any]]) -> str:
    """A sentence in which `Paris[expected B-LOC, found B-PER]` is a word with a wrong tag."""
    found = list(words)
    for each in wrong:
        found[each["word"] - 1] += f"[expected {each['gold']}, found {each['predicted']}]"
    return " ".join(found)


def prediction(line: str, where: str) -> dict[str, Any]:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:  # no JSON, nested too deep, or more digits than Python reads
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
            f'{where}: "wrong" has an object a wrong word, with the number of the "word", its "gold" and its'
            ' "predicted" tag, not '
            f"{shown(record['wrong'])}"
        )
    if not are_statistics(record.get("statistics", {})):
        raise UserError(
            f'{where}: "statistics" has an object a measure, with the name of a formula and its numbers; evaluate the'
            " run again"
        )
    return {**record, "id": str(name), "score": float(score)}


def are_wrong_words(given: Any) -> bool:
    return isinstance(given, list) and all(
        isinstance(each, dict)
        and {"gold", "predicted"} <= each.keys()
        and is_number(each.get("word"))
        and each["word"] >= 1
        for each in given
    )


def are_statistics(given: Any) -> bool:
    """Whether it is an object of measures, each with one formula and its numbers, or numbers by label."""

    def are_numbers(row: Any) -> bool:
        return isinstance(row, list) and all(map(is_number, row))

    return isinstance(given, dict) and all(
        isinstance(measure, dict)
        and len(measure) == 1
        and all(
            are_numbers(row) or (isinstance(row, dict) and all(map(are_numbers, row.values())))
            for row in measure.values()
        )
        for measure in given.values()
    )
