"""The files of a run directory that are JSON: which there are, whether a folder is a run, its config's fields and its
records. Knows neither models nor tensors, so that a listing needs no torch; `clew.runs.directory` has the rest."""

import hashlib
import json
import os
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, command, shortened, shown
from clew.core.files import LARGEST_JSON, open_file, read_json
from clew.runs.trust import check_links, is_trusted

FORMAT = 3
"""Of what is written: configs and checkpoints."""
CONFIG, WEIGHTS, METRICS, ENVIRONMENT, CODE = (
    "config.json",
    "model.safetensors",
    "metrics.jsonl",
    "environment.json",
    "code.py",
)
VOCABULARY = "vocabulary"
IMPORTED = "imported"
"""The recipe of a run that was no run of clew's at first: a published checkpoint."""
ORIGIN = "origin.json"
LONGEST_RECORD = 2**20
"""Bytes of a record in metrics.jsonl; a longer line is none of ours."""
MOST_NAMED = 10
"""Runs that a sentence names."""


def is_run(folder: Path) -> bool:
    return os.path.isfile(folder / CONFIG)


def is_own(folder: Path) -> bool:
    """Whether a folder is a run, or was one before it was damaged; and not another program's, whose config has the same
    name."""
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
    """Refuses what is no run directory, naming the runs near it, those of the likest names first."""
    if is_run(folder):
        return
    try:
        where = folder.parent if folder.parent.is_dir() else Path(".")
    except (OSError, ValueError):
        where = Path(".")
    near = [str(path) for path in where.iterdir() if is_own(path)] if where.is_dir() else []
    if not near and Path("runs").is_dir():
        near = [str(path) for path in Path("runs").iterdir() if is_own(path)]
    near = sorted(near, key=lambda path: (-SequenceMatcher(None, str(folder), path).ratio(), path))
    more = f" and {len(near) - MOST_NAMED} more" if len(near) > MOST_NAMED else ""
    known = (
        f"runs here: {', '.join(near[:MOST_NAMED])}{more}"
        if near
        else "train one first, e.g. `clew train shakespeare-lstm`"
    )
    raise UserError(f"{shortened(str(folder))} is not a run directory (it has no {CONFIG}); {known}")


def read_raw_settings(folder: Path) -> tuple[dict[str, Any], int, dict[str, str]]:
    """The config's fields as they stand in the file, their format, and the hashes of the files beside it."""
    path = folder / CONFIG
    check_links(folder)
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise UserError(f"{path} is not a run's config: it holds no fields")
    expected = settings.pop("sha256", None)
    if expected is not None and json_hash(settings) != expected:
        raise UserError(
            f"{path} is not what was written; bring it back, or, where it was changed on purpose, "
            "remove its field sha256 to have it taken as it is"
        )
    if is_foreign(settings):
        raise UserError(
            f"{folder} is a checkpoint of Hugging Face's; `{command('clew', 'import', folder)}` makes a run of it"
        )
    found = check_format(settings.pop("format", None), path)
    files = settings.pop("files", {})
    return settings, found, files if isinstance(files, dict) else {}


def check_format(found: Any, path: Path) -> int:
    """The format, where it can be read."""
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= FORMAT:
        raise UserError(
            f"{path} is of format {shown(found)}, but this clew reads formats 1 to {FORMAT}; "
            "use the version of clew that wrote it, or train again"
        )
    return found


def read_metrics(folder: Path) -> Iterator[dict[str, Any]]:
    """Every record that is whole; a line that was cut short by a crash, damaged, or none of ours, is passed over."""
    path = folder / METRICS
    check_links(folder)
    if not path.is_file():
        return
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST_JSON and not is_trusted(folder):  # a long training of one's own may log more
            raise UserError(
                f"{path} has {size:,} bytes, and that of a run that was not trained here has at most {LARGEST_JSON:,};"
                " where you trust the run add --trust, or remove the file"
            )
        for line in iter(lambda: file.readline(LONGEST_RECORD), b""):
            try:
                record = json.loads(line.decode(errors="replace"))
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record


def json_hash(content: Any) -> str:
    """SHA-256 of what JSON says, however it is laid out."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
