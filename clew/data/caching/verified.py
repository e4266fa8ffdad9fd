"""Files in the cache with an index that says how large they are and what their hash is, so that damage is found. Knows
no content."""

import hashlib
import json
from pathlib import Path
from typing import Any

HASHED = 2**28
"""Bytes that are hashed whenever kept files are opened. Of larger ones, a file is hashed whose time of change is
another."""
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""What reading an index or a kept file may raise where it is not what was written."""

Entry = dict[str, Any]
"""What an index says of a file: `file`, `size`, `sha256`, and the time of change, `changed`."""


def is_whole(folder: Path, entry: Entry, *, hashed: bool) -> bool:
    """Whether a file has the size and hash of its entry. Without `hashed`, a file whose time of change is unchanged is
    not read."""
    found = (folder / entry["file"]).stat()
    if found.st_size != entry["size"]:
        return False
    if not hashed and found.st_mtime_ns == entry["changed"]:
        return True
    with (folder / entry["file"]).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == entry["sha256"]


def digest(about: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
