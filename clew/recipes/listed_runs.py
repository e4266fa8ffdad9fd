"""The settings in which a run differs from its recipe, from files only, without loading torch: the run's config is
compared with the recipe's resolved settings in `resolved.json`. `python -m clew.cli.options.forms` generates that file,
and a test compares it with the recipes."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from clew.core.errors import UserError
from clew.runs.folder.records import Summary, is_fit, read_records, summarise_fit
from clew.runs.folder.run_files import CONFIG, FORMAT, IMPORTED, is_run, read_raw_settings
from clew.runs.settings.field_paths import field_paths

RESOLVED = Path(__file__).with_name("resolved.json")
SCHEDULE, STEPS = "training.schedule", "training.steps"


class Listed(NamedTuple):
    """A run in a list, and the fields in which it differs from its recipe."""

    run: Summary
    changes: dict[str, Any]


def read_resolved() -> dict[str, dict[str, Any]]:
    """Return the fields of every recipe by their full names."""
    recipes: dict[str, dict[str, Any]] = {}
    for name, own in json.loads(RESOLVED.read_text(encoding="utf-8")).items():
        like = recipes.get(own["like"], {})
        recipes[name] = {
            **{field: value for field, value in like.items() if field not in own["without"]},
            **own["with"],
        }
    return recipes


def packed(resolved: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the table to write: each recipe as its differences from the most similar earlier one."""
    table: dict[str, Any] = {}
    for name, fields in resolved.items():
        entries = [entry(like, resolved[like], fields) for like in table] or [entry("", {}, fields)]
        table[name] = min(entries, key=lambda own: len(own["with"]) + len(own["without"]))
    return table


def entry(like: str, theirs: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in sorted(fields.items()) if name not in theirs or theirs[name] != value}
    return {"like": like, "without": sorted(theirs.keys() - fields.keys()), "with": changed}


def glance(folder: Path, resolved: Mapping[str, Mapping[str, Any]]) -> Listed | None:
    """Return a run and its changed fields, from its files only. None if that needs the whole library: for a config of
    an earlier format or with other fields than its recipe's, and for a fine-tuned run."""
    if is_fit(folder):
        return Listed(summarise_fit(folder), {})
    if not is_run(folder):
        raise UserError(f"{folder} has no {CONFIG}; it was copied incompletely, or is not a run directory")
    settings, format, _ = read_raw_settings(folder)
    fields = {".".join(path): value for path, value in field_paths(settings)}
    plain = resolved.get(str(settings.get("recipe")))
    if settings.get("recipe") == IMPORTED:
        plain = fields
    if format != FORMAT or plain is None or plain.keys() != fields.keys() or fields.get("transfer.from") is not None:
        return None
    changed = {name: here for name, here in sorted(fields.items()) if here != plain[name]}
    if SCHEDULE in changed and isinstance(changed[SCHEDULE], dict) and isinstance(plain[SCHEDULE], dict):
        return None  # they may state the same warm-up in two ways
    if fields["training.epochs"] is not None:
        changed.pop(STEPS, None)
    config: Any = json.loads(json.dumps(settings), object_hook=lambda section: SimpleNamespace(**section))
    return Listed(Summary(folder, config, read_records(folder)), changed)
