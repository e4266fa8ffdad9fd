"""A kind of example: its config section, how it is read from a config and from files, and its form in JSON lines."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError
from clew.core.files import cache_folder
from clew.data.caching.fingerprints import data_key
from clew.data.caching.parts import examples_at, gather, keep_parts, load_parts
from clew.data.example_splits import PARTS, split_examples
from clew.data.kinds.section import DataSection, ExampleData
from clew.data.notes import Notes

Parts = dict[str, Sequence[Any]]
"""Train, valid, and test if there is one."""
PartFiles = Sequence[Path | str]
"""The files of one part: one, several, or the two of parallel text."""


@dataclass(frozen=True)
class Kind:
    """A kind of example. `read_parts(data, seed, notes)` returns the examples of a config by part; `read_files(files,
    data, notes)` reads those of files as the config says."""

    name: str
    """The name of the examples in messages."""
    section: type[ExampleData]
    read_parts: Callable[[Any, int, Notes], Parts]
    read_files: Callable[[PartFiles, Any, Notes], Iterator[Any]]
    rows: Callable[[Iterable[Any], Notes], Iterator[Mapping[str, Any]]] | None = None
    """Turns examples from Python into JSON lines, whose fields are columns; None if examples come only from files."""
    pieces: Callable[[Any], Sequence[str]] = lambda data: ()
    """`pieces(data)`: the endings of the ids of examples that are scored separately, such as those of each
    direction."""
    is_plain: bool = True
    """Whether examples consist of strings and numbers, so that large parts are cached on disk; pictures and sounds stay
    in their files."""

    def read(self, data: ExampleData, seed: int, notes: Notes | None = None) -> Parts:
        """Return train, valid, and test if there is one, none of them empty. Large parts are read once and then taken
        from the cache."""
        notes = Notes(faults=data.faults) if notes is None else notes
        key = data_key(data, seed, (self.read_parts, self.read_files)) if self.is_plain else None
        place = None if key is None else cache_folder() / key
        if place is not None and (kept := load_parts(place)) is not None:
            parts, counts = kept
            notes.add(counts)
            return dict(parts)
        own_notes = Notes(faults=notes.faults)
        read = self.read_anew(data, seed, own_notes)
        notes.add(own_notes.to_json())
        return read if place is None else keep_parts(place, read, own_notes.to_json())

    def read_anew(self, data: ExampleData, seed: int, notes: Notes) -> Parts:
        parts = self.read_parts(data, seed, notes)
        if data.limit is not None:
            drawn = np.random.default_rng(seed).permutation(len(parts["train"]))[: data.limit]
            parts["train"] = examples_at(parts["train"], np.sort(drawn))
        for part, examples in parts.items():
            if not examples:
                raise UserError(
                    f"the {part} part has no examples; {notes.report()[0] if notes.skipped else 'give more data'}"
                )
        return parts


def as_list(files: Any) -> PartFiles:
    """Return one file, or several, as a list."""
    return list(files) if isinstance(files, (list, tuple)) else [files]


def cut_files(
    read: Callable[[PartFiles], Iterable[Any]],
    data: DataSection,
    seed: int,
    *,
    by_label: bool = False,
    key: Callable[[Any], str] | None = None,
    check: Callable[[Any], object] | None = None,
) -> Parts:
    """Read the parts that have files. Missing parts are cut off the training part, by `key` or by the examples' own
    keys; `by_label` keeps the proportions of labels. If the training part cannot be split, `check` first refuses
    examples that could not be read anyway."""
    parts = {
        part: gather(read([data.with_encoding(file) for file in as_list(files)]))
        for part in PARTS
        if (files := getattr(data, part)) is not None
    }
    by: dict[str, Callable[[Any], str]] = {} if key is None else {"key": key}
    if by_label and labels_repeat(example.label for example in parts["train"]):
        by["stratify"] = lambda example: example.label
    try:
        return cut(parts["train"], data, seed, parts.get("valid"), parts.get("test"), **by)
    except UserError:
        if check is not None:
            for example in parts["train"]:
                check(example)
        raise


def labels_repeat(labels: Iterable[str]) -> bool:
    """Whether most examples share their label with others, unlike examples labelled with numbers."""
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
    """Cut missing parts off the training part. `by` may give the `key` and `stratify` of `split_examples`."""
    return dict(
        split_examples(
            train, valid, test, seed=seed, valid_fraction=data.valid_fraction, test_fraction=data.test_fraction, **by
        )
    )
