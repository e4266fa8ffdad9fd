"""A kind of examples: its section, how it is read from a config and from files, and what it looks like as JSON
lines."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError
from clew.core.files import cache_folder
from clew.data.caching.fingerprints import data_key
from clew.data.caching.parts import gather, keep_parts, load_parts, take
from clew.data.example_splits import PARTS, split_examples
from clew.data.kinds.section import DataSection, ExampleData
from clew.data.notes import Notes

Parts = dict[str, Sequence[Any]]
"""Train, valid, and test where there is one."""
Given = Sequence[Path | str]
"""Files of one part: one, several, or the two of parallel text."""


@dataclass(frozen=True)
class Kind:
    """Examples of one kind. `read_parts(data, seed, notes)` gives those of a config by part; `read_files(files, data,
    notes)` those of files, read as the config says."""

    name: str
    """What they are called in a sentence."""
    section: type[ExampleData]
    read_parts: Callable[[Any, int, Notes], Parts]
    read_files: Callable[[Given, Any, Notes], Iterator[Any]]
    rows: Callable[[Iterable[Any], Notes], Iterator[Mapping[str, Any]]] | None = None
    """Examples from Python as JSON lines, whose fields are columns; None where they come from files alone."""
    pieces: Callable[[Any], Sequence[str]] = lambda data: ()
    """`pieces(data)`: how the ids end of examples that are scored by themselves, such as those of each direction."""
    is_plain: bool = True
    """Whether examples are made of strings and numbers, so that many of them are kept on disk; pictures and sounds stay
    in their files."""

    def read(self, data: ExampleData, seed: int, notes: Notes | None = None) -> Parts:
        """Train, valid, and test where there is one, none of them empty. Large parts are read once and then found in
        the cache."""
        notes = Notes(faults=data.faults) if notes is None else notes
        key = data_key(data, seed, (self.read_parts, self.read_files)) if self.is_plain else None
        place = None if key is None else cache_folder() / key
        if place is not None and (kept := load_parts(place)) is not None:
            parts, passed_over = kept
            notes.add(passed_over)
            return dict(parts)
        own = Notes(faults=notes.faults)
        found = self.read_anew(data, seed, own)
        notes.add(own.to_json())
        return found if place is None else keep_parts(place, found, own.to_json())

    def read_anew(self, data: ExampleData, seed: int, notes: Notes) -> Parts:
        parts = self.read_parts(data, seed, notes)
        if data.limit is not None:
            drawn = np.random.default_rng(seed).permutation(len(parts["train"]))[: data.limit]
            parts["train"] = take(parts["train"], np.sort(drawn))
        for part, examples in parts.items():
            if not examples:
                raise UserError(
                    f"the {part} part has no examples; {notes.report()[0] if notes.skipped else 'give more data'}"
                )
        return parts


def files_of(given: Any) -> Given:
    """One file, or several, as a list."""
    return list(given) if isinstance(given, (list, tuple)) else [given]


def cut_files(
    read: Callable[[Given], Iterable[Any]],
    data: DataSection,
    seed: int,
    *,
    by_label: bool = False,
    key: Callable[[Any], str] | None = None,
    check: Callable[[Any], object] | None = None,
) -> Parts:
    """The parts that files are named for; those that are not are cut off the training part, by the examples' own keys
    unless told, in equal shares of each label. Where that cannot be done, `check` first refuses an example that could
    not be read anyway."""
    given = {
        part: gather(read([data.given(file) for file in files_of(files)]))
        for part in PARTS
        if (files := getattr(data, part)) is not None
    }
    by: dict[str, Callable[[Any], str]] = {} if key is None else {"key": key}
    if by_label and come_again(example.label for example in given["train"]):
        by["stratify"] = lambda example: example.label
    try:
        return cut(given["train"], data, seed, given.get("valid"), given.get("test"), **by)
    except UserError:
        if check is not None:
            for example in given["train"]:
                check(example)
        raise


def come_again(labels: Iterable[str]) -> bool:
    """Whether most have a label that others have too, as numbers may not."""
    counts = Counter(labels)
    return 2 * sum(count == 1 for count in counts.values()) < counts.total()


def cut(
    train: Sequence[Any],
    data: DataSection,
    seed: int,
    valid: Sequence[Any] | None = None,
    test: Sequence[Any] | None = None,
    **by: Callable[[Any], str],
) -> Parts:
    """Parts that are not given are cut off the training part, `by` a key and in equal shares of each stratum."""
    return dict(
        split_examples(
            train, valid, test, seed=seed, valid_fraction=data.valid_fraction, test_fraction=data.test_fraction, **by
        )
    )
