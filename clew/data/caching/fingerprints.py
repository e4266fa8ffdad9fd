"""What decides which examples a config reads: its data section, the content of its files, and the code that reads them.
Two that are alike have the same key in the cache."""

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
from clew.core.files import cache_folder, file_hash
from clew.data.corpora import CORPORA, find_files
from clew.data.example_splits import PARTS
from clew.data.files.extents import Extent
from clew.data.files.given_files import at_home
from clew.data.files.measures import measured
from clew.data.files.text_files import Stamp
from clew.data.formats import FORMATS
from clew.data.kinds.section import ExampleData

READERS = ("core", "data", "text", "sources", "tasks")
"""The packages whose code decides what examples and their ids are."""


@dataclass(frozen=True)
class FileContents:
    """Files of any kind, all their bytes."""

    paths: tuple[Path, ...]

    def stamp(self) -> Stamp:
        found = [(str(path.absolute()), path.stat()) for path in self.paths]
        rows = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]
        return Stamp(
            f"bytes {json.dumps(rows)}",
            sum(size for _, size, _ in rows),
            max((stat.st_mtime for _, stat in found), default=0.0),
        )

    def digest(self) -> Extent:
        hashes = [file_hash(path) for path in self.paths]
        return Extent(
            sum(path.stat().st_size for path in self.paths), hashlib.sha256(json.dumps(hashes).encode()).hexdigest()
        )


def data_key(data: ExampleData, seed: int, readers: Iterable[Any] = ()) -> str | None:
    """The key of the parts that a config reads; None where they do not come from files, or by code that has none."""
    try:
        files = tuple(files_of_config(data))
        content = measured(FileContents(files), cache_folder(), FileContents.digest).digest if files else None
    except (OSError, UserError):  # the reader says what is wrong
        return None
    of_formats = (value for each in FORMATS.values() for value in vars(each).values() if callable(value))
    of_corpus = type(CORPORA[data.corpus].content) if data.corpus in CORPORA else None
    code = code_digest((*readers, *of_formats, of_corpus))
    if content is None or code is None:
        return None
    # Names too: a file that moves from one part's folder to another's changes no content.
    names = [str(path) for path in files]
    about = [type(data).__qualname__, data.model_dump(mode="json"), seed, names, content, code]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:32]


def files_of_config(data: ExampleData) -> Iterator[Path]:
    """All files that it names: themselves, those below folders, and those whose names begin so."""
    for part in PARTS:
        given = getattr(data, part)
        for name in [] if given is None else given if isinstance(given, list) else [given]:
            path = at_home(name)
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
    """A hash of clew's code in some packages, by default those that read and encode, and of other files that `readers`
    are defined in, with those beside them, which they may import; None where one has no file."""
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
"""Packages whose code is not looked at, or is known."""


@cache
def own_code(packages: tuple[str, ...]) -> str:
    root = Path(__file__).parents[2]
    found = hashlib.sha256()
    for path in sorted(path for package in packages for path in (root / package).rglob("*.py")):
        found.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return found.hexdigest()
