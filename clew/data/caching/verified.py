"""Detects damaged files in the cache, by the sizes and hashes in an index. Knows no content."""

import hashlib
from pathlib import Path
from typing import Any

HASHED = 2**28
"""Cached files of up to this many bytes are hashed every time they are opened. Of larger ones, only files whose
modification time has changed are hashed."""
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""Exceptions that reading a damaged index or cached file may raise."""

Entry = dict[str, Any]
"""An index's description of a file: `file`, `size`, `sha256` and `changed`, its modification time."""


def is_whole(folder: Path, entry: Entry, *, hashed: bool) -> bool:
    """Return whether a file has the size and hash of its entry. Without `hashed`, a file with an unchanged modification
    time is not read."""
    stat = (folder / entry["file"]).stat()
    if stat.st_size != entry["size"]:
        return False
    if not hashed and stat.st_mtime_ns == entry["changed"]:
        return True
    with (folder / entry["file"]).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == entry["sha256"]
