"""predictions.jsonl in a run directory: what an evaluation scored, one object an example.

    {"id": "test-17", "score": -1.52, "prediction": "a dog barks"}

`id` names the example, the same in every run that was scored on it. `score` is a finite number, higher is better, and its mean over the
examples is the run's: a log-probability, 1 for right and 0 for wrong, the F1 of a sentence. `prediction` and other fields are the
evaluation's own.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.runs.directory import write_text

PREDICTIONS = "predictions.jsonl"


def write_predictions(folder: Path, scores: Mapping[str, float], fields: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """An example a line, by its id, with other fields where there are some."""
    write_text(folder / PREDICTIONS, "".join(prediction_line(name, score, (fields or {}).get(name, {})) for name, score in scores.items()))


def prediction_line(name: str, score: float, fields: Mapping[str, Any]) -> str:
    return json.dumps({"id": name, "score": score, **fields}, ensure_ascii=False) + "\n"


def read_predictions(folder: Path) -> dict[str, float] | None:
    """Every example's score by its id; None where the run has no predictions."""
    path = folder / PREDICTIONS
    if not path.is_file():
        return None
    found: dict[str, float] = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; evaluate the run again") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            name, score = prediction(line, f"{path}:{number}")
            if name in found:
                raise UserError(f"{path}:{number}: the id {name!r} stands above already; every example has an id of its own")
            found[name] = score
    if not found:
        raise UserError(f"{path} has no predictions in it; evaluate the run again")
    return found


def prediction(line: str, where: str) -> tuple[str, float]:
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
    return str(name), float(score)
