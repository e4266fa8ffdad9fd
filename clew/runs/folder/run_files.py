"""The JSON files of a run directory: their names, whether a folder is a run, the fields of its config and its records.
This module knows neither models nor tensors, so that listing runs does not load torch; `clew.runs.directory` has the
rest."""

import json
import os
from collections.abc import Iterator
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from typing import Any

from clew.core.errors import STRICT, UserError, command, shortened, shown
from clew.core.files import LARGEST_JSON, json_hash, open_file, read_json
from clew.core.wording import call
from clew.runs.trust import check_links, is_trusted, remedy_of_trust

FORMAT = 3
"""The format number written to configs and checkpoints."""
CONFIG, WEIGHTS, METRICS, ENVIRONMENT, CODE = (
    "config.json",
    "model.safetensors",
    "metrics.jsonl",
    "environment.json",
    "code.py",
)
VOCABULARY = "vocabulary"
IMPORTED = "imported"
"""The recipe of a run that was imported from a published checkpoint."""
FIT = "clew.fit"
"""Listed as the recipe of a module that `clew.fit` trained."""
ORIGIN = "origin.json"
LONGEST_RECORD = 2**20
"""Maximum size of a record in metrics.jsonl in bytes; clew writes no longer lines."""
MOST_NAMED = 10
"""Maximum number of runs that a message names."""


def is_run(folder: Path) -> bool:
    return os.path.isfile(folder / CONFIG)


def is_own(folder: Path) -> bool:
    """Whether a folder is a run of clew's, possibly damaged, and not a folder of another program whose config has the
    same name."""
    if not is_run(folder):
        return False
    try:
        check_links(folder)
        settings = read_json(folder / CONFIG)
    except UserError:
        return True
    return not isinstance(settings, dict) or not {"format", "recipe"}.isdisjoint(settings)


def is_foreign(settings: Any) -> bool:
    return "format" not in settings and "model_type" in settings


def check_run(folder: Path) -> None:
    """Refuse a folder that is not a run directory, and name nearby runs, most similar names first."""
    if is_run(folder):
        return
    try:
        where = folder.parent if folder.parent.is_dir() else Path(".")
    except (OSError, ValueError):
        where = Path(".")
    nearby = [str(path) for path in where.iterdir() if is_own(path)] if where.is_dir() else []
    if not nearby and Path("runs").is_dir():
        nearby = [str(path) for path in Path("runs").iterdir() if is_own(path)]
    nearby = sorted(nearby, key=lambda path: (-SequenceMatcher(None, str(folder), path).ratio(), path))
    more = f" and {len(nearby) - MOST_NAMED} more" if len(nearby) > MOST_NAMED else ""
    train = call("clew.train('shakespeare-lstm')", "clew train shakespeare-lstm")
    known = f"runs here: {', '.join(nearby[:MOST_NAMED])}{more}" if nearby else f"train one first, e.g. {train}"
    paths = {Path(path).name: path for path in nearby}
    meant = f"; did you mean {paths[near[0]]}?" if (near := get_close_matches(folder.name, paths, 1, STRICT)) else ";"
    raise UserError(f"{shortened(str(folder))} is not a run directory (it has no {CONFIG}){meant} {known}")


def read_raw_settings(folder: Path) -> tuple[dict[str, Any], int, dict[str, str]]:
    """Read the config's fields without upgrading them; return them with their format and the hashes of the run's other
    files."""
    path = folder / CONFIG
    check_links(folder)
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise UserError(f"{path} is not a run's config: it is not a JSON object")
    expected = settings.pop("sha256", None)
    if expected is not None and json_hash(settings) != expected:
        raise UserError(
            f"{path} has changed since it was written; restore it, or, if the change is intended, "
            "remove its field sha256"
        )
    if is_foreign(settings):
        raise UserError(
            f"{folder} is a Hugging Face checkpoint; `{command('clew', 'import', folder)}` converts it to a run"
        )
    format = check_format(settings.pop("format", None), path)
    files = settings.pop("files", {})
    return settings, format, files if isinstance(files, dict) else {}


def check_format(format: Any, path: Path) -> int:
    """Return the format number; refuse one that this version cannot read."""
    if not isinstance(format, int) or isinstance(format, bool) or not 1 <= format <= FORMAT:
        raise UserError(
            f"{path} is of format {shown(format)}, but this clew reads formats 1 to {FORMAT}; "
            "use the version of clew that wrote it, or train again"
        )
    return format


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every intact record; skip lines that were cut short by a crash, are damaged, or were not written by
    clew."""
    path = folder / METRICS
    check_links(folder)
    if not path.is_file():
        return
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST_JSON and not is_trusted(folder):  # a long run of the user's own may log more
            raise UserError(
                f"{path} has {size:,} bytes, more than the {LARGEST_JSON:,} allowed for a run that was not trained"
                f" here; if you trust the run, {remedy_of_trust()}, or remove the file"
            )
        for line in iter(lambda: file.readline(LONGEST_RECORD), b""):
            try:
                record = json.loads(line.decode(errors="replace"))
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record
