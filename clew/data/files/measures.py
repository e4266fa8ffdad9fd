"""How long a text is and its hash, remembered for large files, which take minutes to read.

A large file whose size and time of change are what they were is taken to be the same; small ones are read anew each
time.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from clew.core.files import cache_folder, private_folder, write_private
from clew.data.files.extents import Extent
from clew.data.files.text_files import measure

LARGE = 2**26
"""Bytes; a text below takes less than a second to read."""
WORTH_KEEPING = 2**22
"""Bytes of a text from which a tokenizer that was trained on it is kept: of a smaller one that takes a second or
two."""
SETTLED = 2.0
"""Seconds after a change, before which another would not be seen in the time of it."""


def measured(source: Any, cache: Path | str | None, take: Callable[[Any], Extent] = measure) -> Extent:
    """The measure of a text, taken anew or remembered in the cache. A source that can be remembered has a `stamp`."""
    path = remembered_at(source, cache)
    if path is None:
        return take(source)
    with suppress(OSError, ValueError, KeyError, TypeError):
        about = json.loads(path.read_text(encoding="utf-8"))
        return Extent(int(about["num_characters"]), str(about["digest"]))
    found = take(source)
    with suppress(OSError):  # what cannot be remembered is read again
        private_folder(path.parent)
        aside = path.with_suffix(f".partial-{os.getpid()}")
        write_private(aside, json.dumps(found._asdict()))
        aside.replace(path)
    return found


def known_content(source: Any, take: Callable[[Any], Extent] = measure) -> str | None:
    """The digest of a text in files that is large enough for something to be kept by it; None for a smaller one."""
    stamp = getattr(source, "stamp", lambda: None)()
    return None if stamp is None or stamp.size < WORTH_KEEPING else measured(source, cache_folder(), take).digest


def forget(source: Any, cache: Path | str) -> None:
    """Drops what is remembered of a text that turns out to be another."""
    path = remembered_at(source, cache)
    if path is not None:
        path.unlink(missing_ok=True)


def remembered_at(source: Any, cache: Path | str | None) -> Path | None:
    """Where a text's measure is kept; None for one that is read anew."""
    stamp = getattr(source, "stamp", None)
    if stamp is None or cache is None:
        return None
    found = stamp()
    if found is None or found.size < LARGE or time.time() - found.changed < SETTLED:
        return None
    return Path(cache) / "measures" / f"{hashlib.sha256(found.text.encode()).hexdigest()[:32]}.json"
