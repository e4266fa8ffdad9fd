"""Pictures with captions: files of one's own, corpora, and scenes that are drawn."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal, Protocol

from pydantic import Field

from clew.core.errors import unknown
from clew.core.memory import check_fits
from clew.data.corpora import CORPORA, read_corpus
from clew.data.corpora.picture_contents import Captions
from clew.data.examples import Captioned, Crop
from clew.data.kinds.kind import Given, Kind, Parts, cut_files
from clew.data.kinds.section import Column, TableData
from clew.data.notes import Notes
from clew.data.pictures.picture_files import picture_size
from clew.data.pictures.picture_readers import read_captioned
from clew.data.pictures.references import name_in_folder, path_of
from clew.data.synthetic.scene_texts import captions, fixed_caption, paragraph, phrase_of
from clew.data.synthetic.scenes import MOST_THINGS, SCENES, Part, Scene, across, scenes

Order = Literal["drawn", "across"]
"""Of what a paragraph speaks of."""


class PicturesData(TableData):
    """Where the pictures come from: a corpus by name, scenes that are drawn, or files of one's own."""

    image: Column | None = Field(None, description="pictures in a table: the column of their paths, by name or number")
    pictures: str | None = Field(
        None,
        description=(
            "the folder or .tar archive that paths of pictures start from; the data file's folder where not given"
        ),
    )
    size: int = Field(10_000, ge=1, description="drawn scenes: how many")
    side: int = Field(64, ge=32, le=512, description="drawn scenes: the side of a picture, in pixels")
    things: int = Field(MOST_THINGS, ge=1, le=MOST_THINGS, description="drawn scenes: how many things at most")


class Drawn(Protocol):
    """A section that says how many scenes are drawn."""

    @property
    def size(self) -> int: ...
    @property
    def valid_fraction(self) -> float: ...
    @property
    def test_fraction(self) -> float: ...


class CaptionedData(PicturesData):
    """Where the pictures with captions come from: a corpus by name, scenes that are drawn, or files of one's own."""

    caption: Column | None = Field(
        None, description="captions in a table: the column of the caption, or of a list of them"
    )
    captions: str | None = Field(
        None,
        description="a file of captions as Flickr8k has it, where data.train is a list of the photographs of a part",
    )
    paragraphs: bool = Field(False, description="drawn scenes: a paragraph on every thing in place of captions")
    order: Order = Field(
        "drawn", description="paragraphs of drawn scenes: in an order that is drawn, or from left to right"
    )
    regions: bool = Field(
        False, description="drawn scenes: every thing's box is a picture, with a phrase on it in place of captions"
    )
    forms: Literal["varied", "fixed"] = Field(
        "varied",
        description="drawn scenes: up to five captions of several forms, or the one that what is shown decides",
    )


def captioned_of(data: CaptionedData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        'data.train names your captions, e.g. data.train=captions.jsonl with {"image": ..., "captions": [...]} on a'
        " line"
    )
    if data.corpus is None:
        return cut_files(lambda files: captioned_in(files, data, notes), data, seed, key=split_key, check=check_picture)
    if data.corpus == SCENES:
        return drawn(data, seed)
    if data.corpus not in CORPORA:
        raise unknown("corpus of pictures", data.corpus, [SCENES, *CORPORA])
    return dict(read_corpus(data.corpus, kind=Captions.kind, seed=seed, notes=notes))


def check_picture(example: Any) -> None:
    """Refuses what is no picture, by its header."""
    picture_size(example.picture)


def split_key(example: Any) -> str:
    return name_in_folder(example.picture)


def drawn(data: CaptionedData, seed: int) -> Parts:
    """Scenes of each part with what is said of them; valid and test have pairs of a colour and a shape that training
    has not."""
    return {
        part: [
            example
            for number, scene in enumerate(scenes(count, seed, part, side=data.side, most=data.things), start=1)
            for example in told_of(scene, data, f"{SCENES} {part} {number}")
        ]
        for part, count in sizes_of(data).items()
    }


def told_of(scene: Scene, data: CaptionedData, id: str) -> list[Captioned]:
    if not data.regions:
        return [Captioned(scene, texts_of(scene, data), id)]
    boxes = scene.boxes()
    return [
        Captioned(Crop(scene, boxes[number]), (phrase_of(scene.things[number]),), f"{id}, thing {place}")
        for place, number in enumerate(across(scene), start=1)
    ]


def texts_of(scene: Scene, data: CaptionedData) -> tuple[str, ...]:
    if data.paragraphs:
        return (paragraph(scene, across(scene) if data.order == "across" else None).text,)
    return (fixed_caption(scene).text,) if data.forms == "fixed" else tuple(told.text for told in captions(scene))


def sizes_of(data: Drawn) -> dict[Part, int]:
    """How many scenes each part has that has any: as if so many had been cut."""
    check_fits(4000 * data.size, f"{data.size:,} drawn scenes", "lower data.size")
    valid, test = (
        max(1, round(share * data.size)) if share else 0 for share in (data.valid_fraction, data.test_fraction)
    )
    sizes: dict[Part, int] = {"train": max(1, data.size - valid - test), "valid": valid, "test": test}
    return {part: count for part, count in sizes.items() if count}


def captioned_in(files: Given, data: CaptionedData, notes: Notes) -> Iterator[Captioned]:
    options: dict[str, Any] = {
        name: getattr(data, name) for name in ("image", "caption", "captions", "pictures", "format", "header")
    }
    return chain.from_iterable(read_captioned(file, notes=notes, **options) for file in files)


def captioned_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """(path, caption), or (path, captions)."""
    for example in read_captioned(examples, notes=notes):
        yield {"image": path_of(example.picture), "captions": list(example.captions)}


CAPTIONED = Kind(
    name="pictures with captions",
    section=CaptionedData,
    read_parts=captioned_of,
    read_files=captioned_in,
    rows=captioned_rows,
    is_plain=False,
)
