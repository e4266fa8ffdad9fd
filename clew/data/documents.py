"""Documents: texts of several sentences, in files or corpora. They are read a sentence at a time, so that none has to
fit into memory.

In plain text a line is a sentence and a blank line parts documents; in JSON lines a document is an object, its text in
one field, and the text's lines are its sentences. A line of more than LONG characters is cut where sentences end in it.
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
from clew.data.files.given_files import at_home
from clew.data.files.measures import measured
from clew.data.files.text_files import FIELD, Stamp, TextFiles
from clew.data.formats.json_files import KINDS, dotted_names, read_jsonl, value_at
from clew.data.lines import read_lines
from clew.data.notes import Notes

LONG = 250
"""Characters of a line that is read as one sentence, whatever is in it."""
END = re.compile(r"[.!?…]+[\"')\]»”’]*\s+(?![a-z])|[。！？]+[」』”’]*\s*")
"""What ends a sentence in a longer line."""


class Line(NamedTuple):
    """A sentence; `opens` says that a document begins with it."""

    text: str
    opens: bool

    @property
    def mark(self) -> bytes:
        return b"\xfe" if self.opens else b"\xff"


@dataclass(frozen=True)
class Documents:
    """Documents that can be read again and again; iterating gives their sentences, and `str` says which they are."""

    name: str
    lines: Callable[[], Iterator[Line]]
    stamp: Callable[[], Stamp | None] = lambda: None
    """What tells them from what they were before without reading them, where they are files that are read without a
    fault."""

    def __iter__(self) -> Iterator[str]:
        return (line.text for line in self.lines())

    def __str__(self) -> str:
        return self.name


def measure(documents: Documents) -> Extent:
    return extent_of(documents.lines())


def joined(parts: Sequence[Documents]) -> Documents:
    """Several as one, in their order."""
    if len(parts) == 1:
        return parts[0]
    name = f"{parts[0]} and {len(parts) - 1} more"
    return Documents(name, lambda: (line for part in parts for line in part.lines()), lambda: stamped(parts))


def stamped(parts: Sequence[Documents], *more: Any) -> Stamp | None:
    """One stamp of all parts, and of what else tells what is read of them."""
    stamps = [part.stamp() for part in parts]
    found = [stamp for stamp in stamps if stamp is not None]
    if len(found) < len(stamps):
        return None
    text = json.dumps([*(stamp.text for stamp in found), *more])
    return Stamp(text, sum(stamp.size for stamp in found), max(stamp.changed for stamp in found))


def documents_at(path: Path | str, notes: Notes, field: str = FIELD, format: str | None = None) -> Documents:
    """Those of a file, or of all text and JSON lines files below a folder in the order of their names. `format` is
    lines or jsonl, told from a file's name where it is not given."""
    if format not in (None, "lines", "jsonl"):
        raise UserError(
            f"data.format={format}: documents are plain text (lines) or JSON lines (jsonl); convert them, or leave"
            " it out"
        )
    found = [
        documents_in(file, notes, field, format) for file in files_at(at_home(path), (*TEXTS, *OBJECTS), has_bytes)
    ]
    return replace(joined(found), name=str(path))


def documents_in(path: Path, notes: Notes, field: str = FIELD, format: str | None = None) -> Documents:
    """Those of one file. What is passed over in it is noted when it is first read."""
    if format == "lines" or (format is None and ending(path) not in OBJECTS):
        return Documents(str(path), lambda: plain_lines(read_lines(path)), lambda: file_stamp(path, "lines"))
    unread = [notes]

    def lines() -> Iterator[Line]:
        return object_lines(path, field, unread.pop() if unread else Notes(faults="skip"))

    return Documents(str(path), lines, lambda: None if notes.faults == "skip" else file_stamp(path, "jsonl", field))


def file_stamp(path: Path, *how: str) -> Stamp | None:
    """Of a file that is read in some way."""
    found = TextFiles((path,)).stamp()
    return None if found is None else found._replace(text=json.dumps(["documents", LONG, found.text, *how]))


def plain_lines(lines: Iterable[str]) -> Iterator[Line]:
    opens = True
    for line in lines:
        text = line.strip()
        for sentence in sentences_of(text):
            yield Line(sentence, opens)
            opens = False
        opens = opens or not text


def object_lines(path: Path, field: str, notes: Notes) -> Iterator[Line]:
    """The texts of JSON lines; one that lacks its text is a fault."""
    for record in read_jsonl(path, notes=notes):
        try:
            text = value_at(record.values, field)
        except KeyError:
            names = dotted_names(record.values)
            remedy = (
                f"{did_you_mean(field, names)} there are: {', '.join(names[:10])}; name the text's with data.text=NAME"
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


def sentences_of(line: str) -> list[str]:
    """A line, or what is between the ends of sentences in a long one."""
    if len(line) <= LONG:
        return [line] if line else []
    edges = [0, *(match.end() for match in END.finditer(line)), len(line)]
    found = (line[start:stop].strip() for start, stop in zip(edges, edges[1:], strict=False))
    return [sentence for sentence in found if sentence]


def corpus_documents(name: str, language: str | None = None) -> dict[str, Documents]:
    """The parts of a corpus by name. One of sentences is a document a part; of pairs it is the side in `language`, or
    in the first one."""
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
    """Examples as one document; the same one again at once, as where a sentence has several translations, is left
    out."""
    before = None
    for example in examples:
        text = " ".join(example.key.split())
        if text and text != before:
            yield Line(text, before is None)
            before = text


def cut_off(documents: Documents, fractions: dict[str, float], cache: Path | None = None) -> dict[str, Documents]:
    """`train`, and what `fractions` says of the last sentences, by name; a document that is cut through becomes two.
    How long a large file is may be remembered in a `cache`."""
    held_out = round(sum(fractions.values()), 9)
    if held_out >= 1:
        sizes = " + ".join(f"{name}_fraction ({fraction})" for name, fraction in fractions.items())
        raise UserError(f"{sizes} must be below 1, or nothing is left to train on")
    wanted = {"train": 1 - held_out, **{name: fraction for name, fraction in fractions.items() if fraction}}
    if len(wanted) == 1:
        return {"train": documents}
    size = measured(documents, cache, measure).num_characters
    parts, start, share = {}, 0, 0.0
    for name, fraction in wanted.items():
        share += fraction
        stop = int(round(share, 9) * size)
        parts[name] = part_of(documents, start, stop)
        if next(parts[name].lines(), None) is None:
            raise UserError(
                f"{documents}: the {name} part of its {size} characters has no sentence; give more text, or another"
                " data.valid_fraction or data.test_fraction"
            )
        start = stop
    return parts


def part_of(documents: Documents, start: int, stop: int) -> Documents:
    """The sentences that end behind character `start`, and not behind `stop`."""

    def lines() -> Iterator[Line]:
        place, opens = 0, True
        for line in documents.lines():
            place += len(line.text)
            if place > stop:
                return
            if place > start:
                yield Line(line.text, opens or line.opens)
                opens = False

    return Documents(str(documents), lines, lambda: stamped([documents], start, stop))
