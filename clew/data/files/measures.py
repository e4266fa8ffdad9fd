"""The length of a text and its hash, cached for large files, which take minutes to read.

A large file with the same size and modification time is assumed to be unchanged. Small files are read each time.
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
from clew.data.files.text_files import measure_text

LARGE = 2**26
"""Bytes; a smaller text is read in less than a second."""
WORTH_KEEPING = 2**22
"""Bytes of the smallest text whose trained tokenizer is cached; with a smaller text training takes a second or two."""
SETTLED = 2.0
"""Seconds after a modification, within which another one might leave the modification time unchanged."""


def cached_extent(source: Any, cache: Path | str | None, take: Callable[[Any], Extent] = measure_text) -> Extent:
    """The extent of a text, from the cache or computed by `take`. Only a source with a `stamp` can be cached."""
    path = cache_path(source, cache)
    if path is None:
        return take(source)
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(path.read_text(encoding="utf-8"))
        return Extent(int(content["num_characters"]), str(content["digest"]))
    extent = take(source)
    with suppress(OSError):  # without a cache the text is read again next time
        private_folder(path.parent)
        aside = path.with_suffix(f".partial-{os.getpid()}")
        write_private(aside, json.dumps(extent._asdict()))
        aside.replace(path)
    return extent


def cacheable_digest(source: Any, take: Callable[[Any], Extent] = measure_text) -> str | None:
    """The digest of a text in files, as a cache key; None for a text that is too small for caching."""
    stamp = getattr(source, "stamp", lambda: None)()
    return None if stamp is None or stamp.size < WORTH_KEEPING else cached_extent(source, cache_folder(), take).digest


def forget_extent(source: Any, cache: Path | str) -> None:
    """Delete the cached extent of a text that turns out to have changed."""
    path = cache_path(source, cache)
    if path is not None:
        path.unlink(missing_ok=True)


def cache_path(source: Any, cache: Path | str | None) -> Path | None:
    """The file that caches a text's extent; None for a text that is not cached."""
    if cache is None or not hasattr(source, "stamp"):
        return None
    stamp = source.stamp()
    if stamp is None or stamp.size < LARGE or time.time() - stamp.changed < SETTLED:
        return None
    return Path(cache) / "measures" / f"{hashlib.sha256(stamp.text.encode()).hexdigest()[:32]}.json"
