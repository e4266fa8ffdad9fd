"""Store findings as JSON files, one each. They are reused for the same scale and seed, so an interrupted tour can be
resumed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.core.files import read_json, write_json
from clew.drawing.view_files import view_of
from clew.tour.experiment import Finding, Scale

FINDINGS = "findings"
FORM = 2
"""The version of the file format. Findings in another version are computed again."""


def finding_path(folder: Path, name: str) -> Path:
    return folder / FINDINGS / f"{name}.json"


def store_finding(folder: Path, name: str, scale: Scale, seed: int, finding: Finding) -> None:
    path = finding_path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "form": FORM,
        "scale": scale,
        "seed": seed,
        "title": finding.title,
        "claim": finding.claim,
        "measured": finding.measured,
        "rows": [list(row) for row in finding.rows],
        "seconds": finding.seconds,
        "view": json.loads(finding.view.json()),
    }
    write_json(path, content)


def stored_finding(folder: Path, name: str, scale: Scale, seed: int) -> Finding | None:
    """Return the stored finding of this format, scale and seed; None if there is none, or if it cannot be read."""
    path = finding_path(folder, name)
    if not path.is_file():
        return None
    try:
        content = read_json(path)
        if (content["form"], content["scale"], content["seed"]) != (FORM, scale, seed):
            return None
        return finding_of(content)
    except (UserError, KeyError, TypeError, ValueError, AttributeError):
        return None  # the file is incomplete or has another format: compute the finding again


def finding_of(content: Mapping[str, Any]) -> Finding:
    return Finding(
        content["title"],
        content["claim"],
        content["measured"],
        view_of(content["view"]),
        [(what, claimed, measured) for what, claimed, measured in content["rows"]],
        float(content["seconds"]),
    )
