"""Cache keys for the examples that a config reads: hashes of its data section, of its files' contents and of the code
that reads them."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.core.files import cache_folder, file_hash, json_hash
from clew.data.corpora import CORPORA, find_files
from clew.data.example_splits import PARTS
from clew.data.files.extents import Extent
from clew.data.files.given_files import expand_home
from clew.data.files.measures import cached_extent
from clew.data.files.text_files import Stamp
from clew.data.formats import FORMATS
from clew.data.kinds.section import ExampleData

READERS = ("core", "data", "text", "sources", "tasks")
"""The packages whose code affects examples and their ids."""


@dataclass(frozen=True)
class FileContents:
    """The bytes of files of any format."""

    paths: tuple[Path, ...]

    def stamp(self) -> Stamp:
        stats = [(str(path.absolute()), path.stat()) for path in self.paths]
        rows = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        return Stamp(
            f"bytes {json.dumps(rows)}",
            sum(size for _, size, _ in rows),
            max((stat.st_mtime for _, stat in stats), default=0.0),
        )

    def digest(self) -> Extent:
        hashes = [file_hash(path) for path in self.paths]
        return Extent(
            sum(path.stat().st_size for path in self.paths), hashlib.sha256(json.dumps(hashes).encode()).hexdigest()
        )


def data_key(data: ExampleData, seed: int, readers: Iterable[Any] = ()) -> str | None:
    """Return the cache key of the splits that a config reads; None if they are not read from files, or if the code of a
    reader has no file."""
    try:
        files = tuple(files_of_config(data))
        content = cached_extent(FileContents(files), cache_folder(), FileContents.digest).digest if files else None
    except (OSError, UserError):  # the reader reports the problem
        return None
    of_formats = (value for each in FORMATS.values() for value in vars(each).values() if callable(value))
    of_corpus = type(CORPORA[data.corpus].content) if data.corpus in CORPORA else None
    code = code_digest((*readers, *of_formats, of_corpus))
    if content is None or code is None:
        return None
    # Names too: moving a file from one split's folder to another's leaves the content unchanged.
    names = [str(path) for path in files]
    inputs = [type(data).__qualname__, data.model_dump(mode="json"), seed, names, content, code]
    return json_hash(inputs)[:32]


def files_of_config(data: ExampleData) -> Iterator[Path]:
    """Yield all files that a data section names: as a path, as a folder above them, or as the beginning of their
    names."""
    for part in PARTS:
        paths = getattr(data, part)
        for name in [] if paths is None else paths if isinstance(paths, list) else [paths]:
            path = expand_home(name)
            if path.is_dir():
                yield from sorted(below for below in path.rglob("*") if below.is_file())
            elif path.exists():
                yield path
            else:
                yield from sorted(path.parent.glob(f"{path.name}.*"))
    if data.corpus in CORPORA and getattr(data, "directions", None) is None:
        choices = {name: getattr(data, name, None) for name in ("source", "target", "tags")}
        for files in find_files(data.corpus, **choices).values():
            yield from files


def code_digest(readers: Iterable[Any], packages: tuple[str, ...] = READERS) -> str | None:
    """Return a hash of the code that reads and encodes.

    It covers the given packages of clew, and the modules outside clew that define `readers`, with the Python files in
    the same folders, which they may import. Return None if such a module has no file.
    """
    hashes = [own_code(packages)]
    modules = {getattr(innermost(reader), "__module__", None) for reader in readers if reader is not None}
    for module in sorted(str(name) for name in modules if name is not None and name.partition(".")[0] not in KNOWN):
        path = getattr(sys.modules.get(module), "__file__", None)
        if path is None:
            return None
        with suppress(OSError):
            hashes += [file_hash(each) for each in sorted({Path(path), *Path(path).parent.glob("*.py")})]
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def innermost(reader: Any) -> Any:
    """The function that a partial calls."""
    while isinstance(reader, partial):
        reader = reader.func
    return reader


KNOWN = ("clew", "builtins", "functools", "torch", "typing")
"""Packages that are not hashed as readers: clew's own code is hashed by package, and the others do not matter."""


@cache
def own_code(packages: tuple[str, ...]) -> str:
    """Return a hash of all Python files in some packages of clew."""
    root = Path(__file__).parents[2]
    sha256 = hashlib.sha256()
    for path in sorted(path for package in packages for path in (root / package).rglob("*.py")):
        sha256.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return sha256.hexdigest()
