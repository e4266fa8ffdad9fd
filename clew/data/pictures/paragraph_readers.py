"""Readers of pictures with paragraphs, from files or from Python. A paragraph is a list of sentences; boxes in the
picture and a phrase for each box are optional. No picture is opened here."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew.data.examples import Described, Picture, Regions
from clew.data.files.given_files import expand_home
from clew.data.notes import Notes
from clew.data.pictures.picture_readers import missing, picture_from
from clew.data.pictures.references import check_folder, find_picture
from clew.data.readers import FilePath, build_examples, listed_rows, table_rows
from clew.data.records import Column
from clew.data.values import Faulty, as_text

FORMS = [("picture", "sentences"), ("picture", "sentences", "boxes"), ("picture", "sentences", "boxes", "phrases")]


def read_described(
    data: FilePath | Iterable[Any],
    *,
    image: Column | None = None,
    sentences: Column | None = None,
    boxes: Column | None = None,
    phrases: Column | None = None,
    pictures: FilePath | None = None,
    with_sentences: bool = True,
    format: str | None = None,
    notes: Notes | None = None,
) -> Iterator[Described]:
    """Read pictures with paragraphs.

    A file has JSON lines such as {"image": "a.png", "sentences": ["...", "..."], "boxes": [[left, top, right, bottom],
    ...], "phrases": ["..."]}, where boxes and phrases are optional. From Python: (path, sentences), optionally followed
    by boxes and phrases. Without `with_sentences`, sentences are not needed, since a model will write them.
    """
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        return build_examples(
            listed_rows(data, Described, FORMS),
            lambda values, place: described(picture_from(values["picture"]), values, place),
            data,
            notes,
        )
    path = expand_home(data)
    folder = path.parent if pictures is None else check_folder(expand_home(pictures))
    columns = {
        "image": image,
        **({"sentences": sentences} if with_sentences else {}),
        "boxes": boxes,
        "phrases": phrases,
    }
    rows = table_rows(path, "pictures with paragraphs", columns, format, None, notes, optional=("boxes", "phrases"))

    def make(values: Mapping[str, Any], place: str) -> Described:
        name = as_text(values, "image").strip()
        picture = find_picture(name, folder)
        if picture is None:
            raise Faulty("missing picture", missing(name, folder))
        return described(picture, values, place)

    return build_examples(rows, make, data, notes)


def described(picture: Picture, values: Mapping[str, Any], place: str) -> Described:
    picture = with_boxes(picture, values.get("boxes"))
    phrases = as_sentences(values["phrases"], "phrases") if values.get("phrases") else ()
    if phrases and (not isinstance(picture, Regions) or len(phrases) != len(picture.boxes)):
        count = len(picture.boxes) if isinstance(picture, Regions) else 0
        raise Faulty(
            "phrases without boxes", f"there are {len(phrases)} phrases and {count} boxes; give one phrase for each box"
        )
    sentences = as_sentences(values["sentences"], "sentences") if "sentences" in values else ()
    return Described(picture, sentences, phrases, place)


def with_boxes(picture: Picture, boxes: Any) -> Picture:
    """Return the picture with these boxes, or unchanged if there are none. New boxes replace the picture's own."""
    if not boxes:
        return picture
    return Regions(picture.picture if isinstance(picture, Regions) else picture, tuple(as_box(box) for box in boxes))


def as_box(box: Any) -> tuple[int, int, int, int]:
    if not isinstance(box, (list, tuple)) or len(box) != 4 or not all(type(number) in (int, float) for number in box):
        raise Faulty("bad box", f"expected [left, top, right, bottom] in pixels, found {str(box)[:60]}")
    left, top, right, bottom = (round(number) for number in box)
    if not (0 <= left < right and 0 <= top < bottom):
        raise Faulty(
            "bad box", f"a box must have left < right and top < bottom, and no number below 0; this one is {list(box)}"
        )
    return left, top, right, bottom


def as_sentences(value: Any, role: str) -> tuple[str, ...]:
    """Return a list of non-empty texts, without the white space around them."""
    if not isinstance(value, (list, tuple)) or not value:
        raise Faulty(f"no {role}", f"the field for data.{role} must be a list with at least one text")
    return tuple(as_text({role: text}, role).strip() for text in value)
