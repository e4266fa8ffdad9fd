"""The kinds of content that a corpus can have, one class each, and how their files become examples. Knows no corpus by
name.

A content lists the files that a path in the table of corpora stands for (`files`), reads the files of one part
(`read`), and returns the key by which a part is split (`key`). `choices` are the user's: `source` and `target` for
pairs, `tags` for words.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from clew.core.errors import UserError, unknown
from clew.data.examples import Labelled, Pair, Parsed, Sentence
from clew.data.lines import read_lines
from clew.data.notes import Notes
from clew.data.readers import read_labelled, read_pairs, read_parsed, read_sentences
from clew.data.records import Column
from clew.data.sounds.spoken_digits import Recording, read_recordings

Choices = Mapping[str, Column | None]


class Content(Protocol):
    kind: ClassVar[str]

    def files(self, path: str, choices: Choices) -> tuple[str, ...]: ...


@runtime_checkable
class ExampleContent(Content, Protocol):
    """Content that is read as examples. Running text is read in pieces instead."""

    def read(self, paths: tuple[Path, ...], choices: Choices, notes: Notes) -> Iterator[Any]: ...

    def key(self, choices: Choices) -> Callable[[Any], str]: ...


@dataclass(frozen=True)
class RunningText:
    """Continuous text, for language models."""

    kind: ClassVar[str] = "running text"

    def files(self, path: str, choices: Choices) -> tuple[str, ...]:
        return (path,)


@dataclass(frozen=True)
class Trees:
    """Bracketed trees, any number in each file."""

    kind: ClassVar[str] = "bracketed trees"

    def files(self, path: str, choices: Choices) -> tuple[str, ...]:
        return (path,)

    def read(self, paths: tuple[Path, ...], choices: Choices, notes: Notes) -> Iterator[Parsed]:
        return read_parsed(paths)

    def key(self, choices: Choices) -> Callable[[Parsed], str]:
        return lambda example: example.key


@dataclass(frozen=True)
class ParallelText:
    """One file per language, aligned by line; `{}` in a path stands for the language."""

    languages: tuple[str, ...]
    kind: ClassVar[str] = "pairs"

    def files(self, path: str, choices: Choices) -> tuple[str, ...]:
        return tuple(path.format(language) for language in choose_languages(self.languages, choices))

    def read(self, paths: tuple[Path, ...], choices: Choices, notes: Notes) -> Iterator[Pair]:
        return read_pairs(paths, notes=notes)

    def key(self, choices: Choices) -> Callable[[Pair], str]:
        return lambda pair: pair.source


@dataclass(frozen=True)
class PairTable:
    """A table without a header, with one column per language. Parts are split by the texts of the language `split_by`,
    regardless of the direction of translation."""

    columns: Mapping[str, int]
    split_by: str
    kind: ClassVar[str] = "pairs"

    def files(self, path: str, choices: Choices) -> tuple[str, ...]:
        return (path,)

    def read(self, paths: tuple[Path, ...], choices: Choices, notes: Notes) -> Iterator[Pair]:
        source, target = choose_languages(tuple(self.columns), choices)
        return read_pairs(
            paths[0], source=self.columns[source], target=self.columns[target], format="tsv", header=False, notes=notes
        )

    def key(self, choices: Choices) -> Callable[[Pair], str]:
        source, _ = choose_languages(tuple(self.columns), choices)
        return lambda pair: pair.source if source == self.split_by else pair.target


@dataclass(frozen=True)
class LabelTable:
    """A table with one or two texts and their label. Columns are names, or numbers if there is no header. In a `ragged`
    table lines may have more columns, and quotes have no special meaning."""

    text: Column
    label: Column
    second: Column | None = None
    ragged: bool = False
    kind: ClassVar[str] = "labelled texts"

    def files(self, path: str, choices: Choices) -> tuple[str, ...]:
        return (path,)

    def read(self, paths: tuple[Path, ...], choices: Choices, notes: Notes) -> Iterator[Labelled]:
        return chain.from_iterable(self.read_file(path, notes) for path in paths)

    def read_file(self, path: Path, notes: Notes) -> Iterator[Labelled]:
        if self.ragged:
            return self.read_ragged(path, notes)
        columns = {"text": self.text, "label": self.label, "second": self.second}
        return read_labelled(path, **columns, format="tsv", header=isinstance(self.text, str), notes=notes)  # type: ignore[arg-type]

    def read_ragged(self, path: Path, notes: Notes) -> Iterator[Labelled]:
        indexes = [int(column) - 1 for column in (self.text, self.label, self.second) if column is not None]
        for number, line in enumerate(read_lines(path), start=1):
            fields, place = line.split("\t"), f"{path}:{number}"
            if len(fields) <= max(indexes):
                notes.fault(
                    "wrong number of fields",
                    place,
                    f"expected {max(indexes) + 1} tab-separated columns, found {len(fields)}",
                )
                continue
            text, label, *second = (fields[index].strip() for index in indexes)
            yield Labelled(text, (label,), second[0] if second else None, place)

    def key(self, choices: Choices) -> Callable[[Labelled], str]:
        return lambda example: example.key


@dataclass(frozen=True)
class Tagged:
    """Words with tags in CoNLL columns or CoNLL-U. The first kind of tags is the default."""

    tags: Mapping[str, Column]
    format: str = "conll"
    kind: ClassVar[str] = "words with tags"

    def files(self, path: str, choices: Choices) -> tuple[str, ...]:
        return (path,)

    def read(self, paths: tuple[Path, ...], choices: Choices, notes: Notes) -> Iterator[Sentence]:
        chosen = choices.get("tags")
        name = next(iter(self.tags)) if chosen is None else str(chosen)
        if name not in self.tags:
            raise unknown("kind of tags", name, self.tags)
        return read_sentences(paths[0], tags=self.tags[name], format=self.format, notes=notes)

    def key(self, choices: Choices) -> Callable[[Sentence], str]:
        return lambda sentence: sentence.key


@dataclass(frozen=True)
class Recordings:
    """Spoken digits in a tar. Parts are split by speaker, so that no speaker is in two parts."""

    kind: ClassVar[str] = "recordings"

    def files(self, path: str, choices: Choices) -> tuple[str, ...]:
        return (path,)

    def read(self, paths: tuple[Path, ...], choices: Choices, notes: Notes) -> Iterator[Recording]:
        return chain.from_iterable(read_recordings(path, notes=notes) for path in paths)

    def key(self, choices: Choices) -> Callable[[Recording], str]:
        return lambda recording: recording.speaker


def choose_languages(known: tuple[str, ...], choices: Choices) -> tuple[str, str]:
    """Return the source and target languages: those that are chosen, and for the rest the first languages that are not
    taken."""
    choice = [choices.get("source"), choices.get("target")]
    for role, language in zip(("source", "target"), choice, strict=True):
        if language is not None and language not in known:
            raise unknown(f"language for data.{role}", str(language), known)
    source, target = (None if language is None else str(language) for language in choice)
    source = source or next(language for language in known if language != target)
    target = target or next(language for language in known if language != source)
    if source == target:
        raise UserError(f"data.source and data.target are both '{source}'; choose two of {', '.join(known)}")
    return source, target
