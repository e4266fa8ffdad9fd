"""Documents: texts of several sentences, from files or corpora. They are read one sentence at a time, so a document
need not fit into memory.

In plain text, a line is a sentence and a blank line separates documents. In JSON lines, a document is an object: one
field holds its text, and the lines of the text are its sentences. A line of more than LONG characters is split at its
sentence ends.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from clew.core.errors import UserError, did_you_mean
from clew.data.corpora import find_corpus, get_corpus, read_corpus
from clew.data.corpora.contents import ParallelText, RunningText
from clew.data.files.extents import Extent, extent_of
from clew.data.files.folders import OBJECTS, TEXTS, ending, files_at, has_bytes
from clew.data.files.given_files import expand_home
from clew.data.files.measures import cached_extent
from clew.data.files.text_files import FIELD, Stamp, TextFiles
from clew.data.formats.json_files import KINDS, dotted_names, read_jsonl, value_at
from clew.data.lines import read_lines
from clew.data.notes import Notes

LONG = 250
"""A line of up to this many characters is one sentence, regardless of its content."""
END = re.compile(r"[.!?…]+[\"')\]»”’]*\s+(?![a-z])|[。！？]+[」』”’]*\s*")
"""The end of a sentence within a longer line."""


class Line(NamedTuple):
    """A sentence; `opens` says that it begins a document."""

    text: str
    opens: bool

    @property
    def mark(self) -> bytes:
        return b"\xfe" if self.opens else b"\xff"


@dataclass(frozen=True)
class Documents:
    """Documents that can be read repeatedly. Iterating yields their sentences; `str` gives their name."""

    name: str
    lines: Callable[[], Iterator[Line]]
    stamp: Callable[[], Stamp | None] = lambda: None
    """Identifies the current contents of files without reading them. None for other sources, and if faulty records are
    skipped."""

    def __iter__(self) -> Iterator[str]:
        return (line.text for line in self.lines())

    def __str__(self) -> str:
        return self.name


def measure_documents(documents: Documents) -> Extent:
    return extent_of(documents.lines())


def joined(parts: Sequence[Documents]) -> Documents:
    """Concatenate several into one."""
    if len(parts) == 1:
        return parts[0]
    name = f"{parts[0]} and {len(parts) - 1} more"
    return Documents(name, lambda: (line for part in parts for line in part.lines()), lambda: joined_stamp(parts))


def joined_stamp(parts: Sequence[Documents], *span: int) -> Stamp | None:
    """Return one stamp for all parts, and for the `span` of characters that is read of them; None if a part has
    none."""
    stamps = [stamp for part in parts if (stamp := part.stamp()) is not None]
    if len(stamps) < len(parts):
        return None
    text = json.dumps([*(stamp.text for stamp in stamps), *span])
    return Stamp(text, sum(stamp.size for stamp in stamps), max(stamp.changed for stamp in stamps))


def documents_at(path: Path | str, notes: Notes, field: str = FIELD, format: str | None = None) -> Documents:
    """The documents of a file, or of all text and JSON lines files below a folder in the order of their names. `format`
    is lines or jsonl; by default it is detected from a file's name."""
    if format not in (None, "lines", "jsonl"):
        raise UserError(
            f"data.format={format}: documents are plain text (lines) or JSON lines (jsonl); convert them, or leave"
            " it out"
        )
    files = [
        documents_in(file, notes, field, format) for file in files_at(expand_home(path), (*TEXTS, *OBJECTS), has_bytes)
    ]
    return replace(joined(files), name=str(path))


def documents_in(path: Path, notes: Notes, field: str = FIELD, format: str | None = None) -> Documents:
    """The documents of one file. Skipped records are noted only the first time it is read."""
    if format == "lines" or (format is None and ending(path) not in OBJECTS):
        return Documents(str(path), lambda: plain_lines(read_lines(path)), lambda: file_stamp(path, "lines"))
    unread = [notes]

    def lines() -> Iterator[Line]:
        return object_lines(path, field, unread.pop() if unread else Notes(faults="skip"))

    return Documents(str(path), lines, lambda: None if notes.faults == "skip" else file_stamp(path, "jsonl", field))


def file_stamp(path: Path, *options: str) -> Stamp | None:
    """The stamp of a file and of the options with which it is read."""
    stamp = TextFiles((path,)).stamp()
    return None if stamp is None else stamp._replace(text=json.dumps(["documents", LONG, stamp.text, *options]))


def plain_lines(lines: Iterable[str]) -> Iterator[Line]:
    opens = True
    for line in lines:
        text = line.strip()
        for sentence in split_sentences(text):
            yield Line(sentence, opens)
            opens = False
        opens = opens or not text


def object_lines(path: Path, field: str, notes: Notes) -> Iterator[Line]:
    """Read the texts of JSON lines; an object without its text is a fault."""
    for record in read_jsonl(path, notes=notes):
        try:
            text = value_at(record.values, field)
        except KeyError:
            names = dotted_names(record.values)
            remedy = (
                f"{did_you_mean(field, names)} there are: {', '.join(names[:10])}; name the right one with"
                " data.text=NAME"
            )
            notes.fault("no text", record.place, f"this object has no field '{field}'{remedy}")
            continue
        if not isinstance(text, str):
            notes.fault("no text", record.place, f"expected a string in the field '{field}', found {KINDS[type(text)]}")
            continue
        opens = True
        for line in plain_lines(text.split("\n")):
            yield Line(line.text, opens)
            opens = False


def split_sentences(line: str) -> list[str]:
    """Return a line as one sentence, or a long line split at its sentence ends."""
    if len(line) <= LONG:
        return [line] if line else []
    edges = [0, *(match.end() for match in END.finditer(line)), len(line)]
    sentences = (line[start:stop].strip() for start, stop in zip(edges, edges[1:], strict=False))
    return [sentence for sentence in sentences if sentence]


def corpus_documents(name: str, language: str | None = None) -> dict[str, Documents]:
    """Return the parts of a corpus by name. In a corpus of sentences, each part is one document. In a corpus of pairs,
    it is the side in `language`, by default the first."""
    content = get_corpus(name).content
    if isinstance(content, RunningText):
        files = find_corpus(name)._asdict().items()
        return {part: documents_in(path, Notes()) for part, path in files if path is not None}
    choices: dict[str, Any] = {"source": language} if isinstance(content, ParallelText) else {}
    parts = read_corpus(name, **choices)
    return {
        part: Documents(f"the {part} part of {name}", partial(sentence_lines, texts)) for part, texts in parts.items()
    }


def sentence_lines(examples: Sequence[Any]) -> Iterator[Line]:
    """Read examples as one document. Repeats in a row are dropped, as when a sentence has several translations."""
    previous = None
    for example in examples:
        text = " ".join(example.key.split())
        if text and text != previous:
            yield Line(text, previous is None)
            previous = text


def hold_out(documents: Documents, fractions: dict[str, float], cache: Path | None = None) -> dict[str, Documents]:
    """Split documents into `train` and the parts that `fractions` names, which are taken off the end. A cut inside a
    document makes two of it. The length of a large file may be remembered in `cache`."""
    held_out = round(sum(fractions.values()), 9)
    if held_out >= 1:
        sizes = " + ".join(f"{name}_fraction ({fraction})" for name, fraction in fractions.items())
        raise UserError(f"{sizes} must be below 1, or nothing is left to train on")
    fraction_of = {"train": 1 - held_out, **{name: fraction for name, fraction in fractions.items() if fraction}}
    if len(fraction_of) == 1:
        return {"train": documents}
    size = cached_extent(documents, cache, measure_documents).num_characters
    parts, start, share = {}, 0, 0.0
    for name, fraction in fraction_of.items():
        share += fraction
        stop = int(round(share, 9) * size)
        parts[name] = documents_between(documents, start, stop)
        if next(parts[name].lines(), None) is None:
            raise UserError(
                f"{documents}: the {name} part of its {size} characters has no sentence; give more text, or another"
                " data.valid_fraction or data.test_fraction"
            )
        start = stop
    return parts


def documents_between(documents: Documents, start: int, stop: int) -> Documents:
    """The sentences that end after character `start` and not after `stop`."""

    def lines() -> Iterator[Line]:
        place, opens = 0, True
        for line in documents.lines():
            place += len(line.text)
            if place > stop:
                return
            if place > start:
                yield Line(line.text, opens or line.opens)
                opens = False

    return Documents(str(documents), lines, lambda: joined_stamp([documents], start, stop))
