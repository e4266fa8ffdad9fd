"""Captions of photographs in Flickr8k's format (Hodosh et al. 2013): one caption per line, as `photograph#number`, a
tab or an @, and the caption; and lists of the photographs of each part, one per line."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from clew.core.errors import UserError
from clew.data.described import Row, text_field
from clew.data.format import Format
from clew.data.lines import read_lines
from clew.data.notes import Notes

CAPTION = re.compile(r"(.+?)[#@](\d+)[\t@](.*)")
BEGINNING = re.compile(r"[^\s#@][^\t#@]*\.\w{2,5}(\.\d+)?[#@]\d+[\t@]\s*\S")


class CaptionRow(NamedTuple):
    """A picture's name in the file, its captions, and their place."""

    image: str
    captions: tuple[str, ...]
    place: str


def read_flickr(path: Path, notes: Notes | None = None) -> Iterator[CaptionRow]:
    """Yield every photograph with its captions in the order of their numbers."""
    notes = Notes() if notes is None else notes
    numbered: dict[str, list[tuple[int, str]]] = {}
    places: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        match = CAPTION.fullmatch(line)
        if match is not None and match[3].strip():
            numbered.setdefault(match[1], []).append((int(match[2][:9]), match[3]))
            places.setdefault(match[1], f"{path}:{number}")
        elif line.strip():
            notes.fault("bad caption", f"{path}:{number}", "expected photograph#number, a tab and a caption")
    if not numbered:
        raise UserError(f"{path}: there is no caption in it; give a file with captions")
    for name, captions in numbered.items():
        yield CaptionRow(name, tuple(caption for _, caption in sorted(captions)), places[name])


def read_listed_captions(images: Path, captions: Path, notes: Notes | None = None) -> Iterator[CaptionRow]:
    """Yield the photographs in the order of the list `images`, with their captions from the file `captions`."""
    notes = Notes() if notes is None else notes
    captions_by_name = {row.image: row.captions for row in read_flickr(captions, notes)}
    for number, line in enumerate(read_lines(images), start=1):
        name = line.strip()
        if name in captions_by_name:
            yield CaptionRow(name, captions_by_name[name], f"{images}:{number}")
        elif name:
            notes.fault("no caption", f"{images}:{number}", f"the photograph {name} has no caption in {captions}")


def is_flickr(lines: Sequence[str]) -> bool:
    filled = [line for line in lines if line.strip()]
    return bool(filled) and all(BEGINNING.match(line) for line in filled)


def caption_rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    for row in read_flickr(path, notes):
        yield row.place, {"image": text_field(row.image), "caption": text_field(row.captions[0])._replace(labels=())}


FLICKR = Format(
    about="captions of photographs (Flickr8k)",
    rows=caption_rows,
    fits=is_flickr,
    captions=read_flickr,
    use=lambda columns, shown: None,
)
