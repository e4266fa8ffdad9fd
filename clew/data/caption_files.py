"""Captions of photographs as Flickr8k has them: a line a caption, `photograph#number` and the caption between a tab or an @."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from clew.core.errors import UserError
from clew.data.lines import read_lines
from clew.data.notes import Notes

CAPTION = re.compile(r"(.+?)[#@](\d+)[\t@](.*)")


class Captioned(NamedTuple):
    """A photograph's name and what was said of it."""

    image: str
    captions: tuple[str, ...]
    id: str = ""

    @property
    def key(self) -> str:
        return self.image


def read_captions(path: Path, images: Path, *, notes: Notes | None = None) -> Iterator[Captioned]:
    """The photographs that the file `images` lists, in its order, each with its captions in the order of their numbers."""
    notes = Notes() if notes is None else notes
    found: dict[str, list[tuple[int, str]]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        match = CAPTION.fullmatch(line)
        if match is not None and match[3].strip():
            found.setdefault(match[1], []).append((int(match[2][:9]), match[3]))
        elif line.strip():
            notes.fault("bad caption", f"{path}:{number}", "expected photograph#number, a tab and a caption")
    for number, line in enumerate(read_lines(images), start=1):
        name = line.strip()
        if name in found:
            yield Captioned(name, tuple(caption for _, caption in sorted(found[name])), f"{images}:{number}")
        elif name:
            notes.fault("no caption", f"{images}:{number}", f"the photograph {name} has no caption in {path}")
    if not found:
        raise UserError(f"{path}: there is no caption in it; give the file that has them")
