"""predictions.jsonl in a run directory: what an evaluation scored, one object an example.

    {"id": "test-17", "score": -1.52, "prediction": "a dog barks"}

`id` names the example, the same in every run that was scored on it. `score` is a finite number, higher is better, and its mean over the
examples is the run's: a log-probability, 1 for right and 0 for wrong, the F1 of a sentence. `prediction` and other fields are the
evaluation's own.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.core.files import write_text

PREDICTIONS = "predictions.jsonl"


def write_predictions(folder: Path, scores: Mapping[str, float], fields: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """An example a line, by its id, with other fields where there are some."""
    write_text(folder / PREDICTIONS, "".join(prediction_line(name, score, (fields or {}).get(name, {})) for name, score in scores.items()))


def prediction_line(name: str, score: float, fields: Mapping[str, Any]) -> str:
    return json.dumps({"id": name, "score": score, **fields}, ensure_ascii=False) + "\n"


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
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; evaluate the run again") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            record = prediction(line, f"{path}:{number}")
            if record["id"] in found:
                raise UserError(f"{path}:{number}: the id {record['id']!r} stands above already; every example has an id of its own")
            found[record["id"]] = record
    if not found:
        raise UserError(f"{path} has no predictions in it; evaluate the run again")
    return list(found.values())


def worst_first(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The wrong ones, worst first: of tags those with the most wrong words, else those of the lowest score; among equals those that gave
    what is right the lowest probability."""
    wrong = [dict(record) for record in records if record["score"] < 100 and record.get("prediction") != record.get("target")]
    return sorted(wrong, key=lambda record: (-len(record.get("wrong", "")), record["score"], record.get("gold_probability", 0)))


def marked_words(words: Sequence[str], wrong: Sequence[Mapping[str, Any]]) -> str:
    """A sentence in which `Paris[B-LOC not B-PER]` is a word with a wrong tag."""
    found = list(words)
    for each in wrong:
        found[each["word"] - 1] += f"[{each['gold']} not {each['predicted']}]"
    return " ".join(found)


def prediction(line: str, where: str) -> dict[str, Any]:
    try:
        record: Any = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"{where}: this is not JSON: {error}") from None
    name, score = (record.get("id"), record.get("score")) if isinstance(record, dict) else (None, None)
    if not isinstance(name, (str, int)) or isinstance(name, bool):
        raise UserError(
            f'{where}: a prediction is an object with an "id" (a text or a whole number) and a "score", not {line.strip()[:60]}'
        )
    if not isinstance(score, (int, float)) or isinstance(score, bool) or not math.isfinite(score):
        raise UserError(f'{where}: "score" takes a finite number, not {score!r}')
    return {**record, "id": str(name), "score": float(score)}
