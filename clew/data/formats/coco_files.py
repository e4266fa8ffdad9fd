"""Captions of pictures in one JSON value: in COCO's format (Chen et al. 2015), or as a list of one object per picture.

{"images": [{"id": 9, "file_name": "9.jpg"}], "annotations": [{"image_id": 9, "caption": "A cat ."}]}
[{"image": "9.jpg", "captions": ["A cat .", "A red cat ."]}]
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, shown
from clew.data.described import Row, text_field
from clew.data.format import Format
from clew.data.formats.caption_files import CaptionRow
from clew.data.formats.json_files import KINDS, read_json_file
from clew.data.notes import Notes
from clew.data.records import check_found
from clew.data.values import Faulty, as_captions, as_text

SHAPES = (
    '{"images": [{"id": ..., "file_name": ...}], "annotations": [{"image_id": ..., "caption": ...}]}, or '
    '[{"image": ..., "captions": [...]}]'
)
BEGINNING = re.compile(
    r'\s*(\{\s*"(info|images|licenses|annotations)"\s*:\s*[\[{]|\[\s*\{[^{}]*"captions?"\s*:\s*[\["])'
)
NAMES = ("image", "file", "file_name", "filename", "picture")
"""The fields that may name a picture in a list."""


def read_coco(path: Path, notes: Notes | None = None) -> Iterator[CaptionRow]:
    """Yield every picture with all its captions. Pictures without captions are skipped and counted."""
    notes = Notes() if notes is None else notes
    content = read_json_file(path)
    read_rows = list_rows if isinstance(content, list) else annotation_rows
    has_rows = False
    for row in read_rows(content, path, notes):
        has_rows = True
        yield row
    check_found(has_rows, path, False, notes)


def list_rows(pictures: Sequence[Any], path: Path, notes: Notes) -> Iterator[CaptionRow]:
    for number, values in enumerate(pictures, start=1):
        place = f"{path}: picture {number}"
        try:
            if not isinstance(values, dict):
                raise Faulty("no object", f"expected an object, found {KINDS[type(values)]}; the shape is {SHAPES}")
            name = next((name for name in NAMES if name in values), "image")
            image, captions = (
                as_text({"image": values.get(name)}, "image"),
                as_captions(values.get("captions", values.get("caption"))),
            )
        except Faulty as fault:
            notes.fault(fault.reason, place, str(fault))
            continue
        yield CaptionRow(image, captions, place)


def annotation_rows(content: Any, path: Path, notes: Notes) -> Iterator[CaptionRow]:
    captions_by_id: dict[Any, list[str]] = {}
    for number, values in enumerate(list_field(content, "annotations", path), start=1):
        try:
            id, captions = picture_id(values, "image_id"), as_captions(values.get("caption"))
        except Faulty as fault:
            notes.fault(fault.reason, f"{path}: annotation {number}", str(fault))
            continue
        captions_by_id.setdefault(id, []).extend(captions)
    ids = set()
    for values in list_field(content, "images", path):
        try:
            id = picture_id(values, "id")
            name = as_text({"image": values.get("file_name")}, "image")
            if id in ids:
                raise Faulty("duplicate id", "another picture above has the same id")
        except Faulty as fault:
            notes.fault(fault.reason, f"{path}: image {shown(values)}", str(fault))
            continue
        ids.add(id)
        if id in captions_by_id:
            yield CaptionRow(name, tuple(captions_by_id[id]), f"{path}: image {id}")
        else:
            notes.skip("picture without a caption", f"{path}: image {id}")
    for id in captions_by_id:
        if id not in ids:
            notes.fault("no picture", f"{path}: image {id}", "it has a caption, but its id is not in 'images'")


def picture_id(values: Any, field: str) -> int | str:
    id = values.get(field) if isinstance(values, dict) else None
    if not isinstance(id, (int, str)) or isinstance(id, bool):
        raise Faulty("no id", f"expected an object with a number in '{field}', found {shown(values)}")
    return id


def list_field(content: Any, name: str, path: Path) -> list[Any]:
    """Return the list in a field of the file's object."""
    if not isinstance(content, Mapping) or not isinstance(content.get(name), list):
        if isinstance(content, Mapping):
            problem = f"has the fields {', '.join(content) or 'none'}, but no list '{name}'"
        else:
            problem = f"is {KINDS[type(content)]}, not an object with the list '{name}'"
        raise UserError(f"{path}: the file {problem}; the shape is {SHAPES}")
    values: list[Any] = content[name]
    return values


def is_coco(lines: Sequence[str]) -> bool:
    return bool(BEGINNING.match("\n".join(lines)[:4000]))


def coco_rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    for row in read_coco(path, notes):
        yield row.place, {"image": text_field(row.image), "caption": text_field(row.captions[0])._replace(labels=())}


COCO = Format(
    about="captions of pictures in JSON (COCO)",
    rows=coco_rows,
    extensions=(".json",),
    fits=is_coco,
    captions=read_coco,
    use=lambda columns, shown: None,
)
