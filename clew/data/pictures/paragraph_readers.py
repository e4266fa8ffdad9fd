"""Pictures with paragraphs, from files or from Python: a list of sentences, and the boxes of what is seen, with a
phrase each, where these are given. No picture is opened here."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew.data.examples import Described, Picture, Regions
from clew.data.files.given_files import at_home
from clew.data.notes import Notes
from clew.data.pictures.picture_readers import given_picture, missing
from clew.data.pictures.references import check_folder, find_picture
from clew.data.readers import FilePath, built, listed_rows, table_rows
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
    """JSON lines such as {"image": "a.png", "sentences": ["...", "..."], "boxes": [[left, top, right, bottom], ...],
    "phrases": ["..."]}, the last two where there are any. From Python: (path, sentences), with boxes and phrases behind
    them. Without `with_sentences` (to write them) there need be none."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        return built(
            listed_rows(data, Described, FORMS),
            lambda values, place: described(given(values), values, place),
            data,
            notes,
        )
    path = at_home(data)
    folder = path.parent if pictures is None else check_folder(at_home(pictures))
    wanted = {
        "image": image,
        **({"sentences": sentences} if with_sentences else {}),
        "boxes": boxes,
        "phrases": phrases,
    }
    rows = table_rows(path, "pictures with paragraphs", wanted, format, None, notes, optional=("boxes", "phrases"))

    def make(values: Mapping[str, Any], place: str) -> Described:
        name = as_text(values, "image").strip()
        picture = find_picture(name, folder)
        if picture is None:
            raise Faulty("missing picture", missing(name, folder))
        return described(picture, values, place)

    return built(rows, make, data, notes)


def given(values: Mapping[str, Any]) -> Picture:
    return given_picture(values["picture"])


def described(picture: Picture, values: Mapping[str, Any], place: str) -> Described:
    found = with_boxes(picture, values.get("boxes"))
    phrases = as_sentences(values["phrases"], "phrases") if values.get("phrases") else ()
    if phrases and (not isinstance(found, Regions) or len(phrases) != len(found.boxes)):
        count = len(found.boxes) if isinstance(found, Regions) else 0
        raise Faulty(
            "phrases without boxes", f"there are {len(phrases)} phrases and {count} boxes; give a phrase for each box"
        )
    sentences = as_sentences(values["sentences"], "sentences") if "sentences" in values else ()
    return Described(found, sentences, phrases, place)


def with_boxes(picture: Picture, boxes: Any) -> Picture:
    """The picture with its boxes, where there are any; its own where it has them already."""
    if not boxes:
        return picture
    return Regions(picture.picture if isinstance(picture, Regions) else picture, tuple(as_box(box) for box in boxes))


def as_box(given: Any) -> tuple[int, int, int, int]:
    if (
        not isinstance(given, (list, tuple))
        or len(given) != 4
        or not all(type(number) in (int, float) for number in given)
    ):
        raise Faulty("bad box", f"expected [left, top, right, bottom] in pixels, found {str(given)[:60]}")
    left, top, right, bottom = (round(number) for number in given)
    if not (0 <= left < right and 0 <= top < bottom):
        raise Faulty("bad box", f"a box has left < right and top < bottom, none below 0, and this one is {list(given)}")
    return left, top, right, bottom


def as_sentences(value: Any, role: str) -> tuple[str, ...]:
    """A list of texts, none empty; white space around them goes."""
    if not isinstance(value, (list, tuple)) or not value:
        raise Faulty(f"no {role}", f"the field for data.{role} must be a list of texts, one at least")
    return tuple(as_text({role: text}, role).strip() for text in value)
