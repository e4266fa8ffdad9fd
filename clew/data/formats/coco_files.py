"""Captions of pictures in one JSON value: as COCO has them (Chen et al. 2015), or a list with an object a picture.

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
"""What a list's objects call a picture."""


def read_coco(path: Path, notes: Notes | None = None) -> Iterator[CaptionRow]:
    """Every picture with all of its captions; one without any is passed over, and counted."""
    notes = Notes() if notes is None else notes
    whole = read_json_file(path)
    found = False
    for row in listed_captions(whole, path, notes) if isinstance(whole, list) else annotated(whole, path, notes):
        found = True
        yield row
    check_found(found, path, False, notes)


def listed_captions(whole: Sequence[Any], path: Path, notes: Notes) -> Iterator[CaptionRow]:
    for number, values in enumerate(whole, start=1):
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


def annotated(whole: Any, path: Path, notes: Notes) -> Iterator[CaptionRow]:
    said: dict[Any, list[str]] = {}
    for number, values in enumerate(listed(whole, "annotations", path), start=1):
        try:
            image, captions = number_in(values, "image_id"), as_captions(values.get("caption"))
        except Faulty as fault:
            notes.fault(fault.reason, f"{path}: annotation {number}", str(fault))
            continue
        said.setdefault(image, []).extend(captions)
    seen = set()
    for values in listed(whole, "images", path):
        try:
            image = number_in(values, "id")
            name = as_text({"image": values.get("file_name")}, "image")
            if image in seen:
                raise Faulty("an id twice", "another picture above has the same id")
        except Faulty as fault:
            notes.fault(fault.reason, f"{path}: image {shown(values)}", str(fault))
            continue
        seen.add(image)
        if image in said:
            yield CaptionRow(name, tuple(said[image]), f"{path}: image {image}")
        else:
            notes.skip("picture without a caption", f"{path}: image {image}")
    for image in said:
        if image not in seen:
            notes.fault("no picture", f"{path}: image {image}", "it has a caption, and 'images' has no such id")


def number_in(values: Any, field: str) -> int | str:
    """The id of a picture."""
    found = values.get(field) if isinstance(values, dict) else None
    if not isinstance(found, (int, str)) or isinstance(found, bool):
        raise Faulty("no id", f"expected an object with a number in '{field}', found {shown(values)}")
    return found


def listed(whole: Any, name: str, path: Path) -> list[Any]:
    if not isinstance(whole, Mapping) or not isinstance(whole.get(name), list):
        found = (
            f"has the fields {', '.join(whole) or 'none'}" if isinstance(whole, Mapping) else f"is {KINDS[type(whole)]}"
        )
        raise UserError(f"{path}: the whole file {found}, and no list '{name}'; the shape is {SHAPES}")
    found_list: list[Any] = whole[name]
    return found_list


def is_coco(lines: Sequence[str]) -> bool:
    return bool(BEGINNING.match("\n".join(lines)[:4000]))


def coco_rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    for row in read_coco(path, notes):
        yield row.place, {"image": text_field(row.image), "caption": text_field(row.captions[0])._replace(labels=())}


COCO = Format(
    about="captions of pictures in one JSON value, as COCO has them",
    rows=coco_rows,
    extensions=(".json",),
    fits=is_coco,
    captions=read_coco,
    use=lambda columns, shown: None,
)
