"""Pictures with captions: your own files, corpora, and drawn scenes."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal, Protocol

from pydantic import Field

from clew.core.errors import unknown
from clew.core.memory import check_memory
from clew.data.corpora import CORPORA, read_corpus
from clew.data.corpora.picture_contents import Captions
from clew.data.examples import Captioned, Crop
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.section import Column, TableData
from clew.data.notes import Notes
from clew.data.pictures.picture_files import picture_size
from clew.data.pictures.picture_readers import read_captioned
from clew.data.pictures.references import name_in_folder, reference_name
from clew.data.synthetic.scene_texts import captions, fixed_caption, paragraph, phrase_of
from clew.data.synthetic.scenes import MOST_THINGS, SCENES, Part, Scene, across, scenes

Order = Literal["drawn", "across"]
"""The order of the objects in a paragraph: random, or from left to right."""


class PicturesData(TableData):
    """Where the pictures come from: a corpus by name, drawn scenes, or your own files."""

    image: Column | None = Field(None, description="pictures in a table: the column of their paths, by name or number")
    pictures: str | None = Field(
        None,
        description=(
            "the folder or .tar archive that the paths of pictures are relative to; by default the data file's folder"
        ),
    )
    size: int = Field(10_000, ge=1, description="drawn scenes: their number")
    side: int = Field(64, ge=32, le=512, description="drawn scenes: the side of a picture, in pixels")
    things: int = Field(MOST_THINGS, ge=1, le=MOST_THINGS, description="drawn scenes: the largest number of objects")


class Drawn(Protocol):
    """A section with a number of scenes to draw."""

    @property
    def size(self) -> int: ...
    @property
    def valid_fraction(self) -> float: ...
    @property
    def test_fraction(self) -> float: ...


class CaptionedData(PicturesData):
    """Where the pictures with captions come from: a corpus by name, drawn scenes, or your own files."""

    caption: Column | None = Field(
        None, description="captions in a table: the column of the caption, or of a list of them"
    )
    captions: str | None = Field(
        None,
        description="a file of captions like Flickr8k's, if data.train is a list of the photographs of a part",
    )
    paragraphs: bool = Field(
        False, description="drawn scenes: instead of captions, a paragraph that covers every object"
    )
    order: Order = Field(
        "drawn", description="paragraphs of drawn scenes: objects in random order, or from left to right"
    )
    regions: bool = Field(
        False, description="drawn scenes: the box of every object is a picture, with a phrase instead of captions"
    )
    forms: Literal["varied", "fixed"] = Field(
        "varied",
        description="drawn scenes: up to five captions of varied forms, or the single one that the scene determines",
    )


def read_captioned_parts(data: CaptionedData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        'there is no training data; name your captions with data.train, e.g. data.train=captions.jsonl with {"image":'
        ' ..., "captions": [...]} on each line'
    )
    if data.corpus is None:
        return cut_files(
            lambda files: read_captioned_files(files, data, notes), data, seed, key=split_key, check=check_picture
        )
    if data.corpus == SCENES:
        return draw_parts(data, seed)
    if data.corpus not in CORPORA:
        raise unknown("corpus of pictures", data.corpus, [SCENES, *CORPORA])
    return dict(read_corpus(data.corpus, kind=Captions.kind, seed=seed, notes=notes))


def check_picture(example: Any) -> None:
    """Refuse a file that is not a picture, judged by its header."""
    picture_size(example.picture)


def split_key(example: Any) -> str:
    return name_in_folder(example.picture)


def draw_parts(data: CaptionedData, seed: int) -> Parts:
    """Draw the scenes of each part with their captions. In valid and test, some pairs of colour and shape are not in
    training."""
    return {
        part: [
            example
            for number, scene in enumerate(scenes(count, seed, part, side=data.side, most=data.things), start=1)
            for example in scene_examples(scene, data, f"{SCENES} {part} {number}")
        ]
        for part, count in part_sizes(data).items()
    }


def scene_examples(scene: Scene, data: CaptionedData, id: str) -> list[Captioned]:
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
    return (fixed_caption(scene).text,) if data.forms == "fixed" else tuple(caption.text for caption in captions(scene))


def part_sizes(data: Drawn) -> dict[Part, int]:
    """Return the number of scenes in each part that has any, as if `size` scenes had been split."""
    check_memory(4000 * data.size, f"{data.size:,} drawn scenes", "lower data.size")
    valid, test = (
        max(1, round(share * data.size)) if share else 0 for share in (data.valid_fraction, data.test_fraction)
    )
    sizes: dict[Part, int] = {"train": max(1, data.size - valid - test), "valid": valid, "test": test}
    return {part: count for part, count in sizes.items() if count}


def read_captioned_files(files: PartFiles, data: CaptionedData, notes: Notes) -> Iterator[Captioned]:
    options: dict[str, Any] = {
        name: getattr(data, name) for name in ("image", "caption", "captions", "pictures", "format", "header")
    }
    return chain.from_iterable(read_captioned(file, notes=notes, **options) for file in files)


def captioned_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """(path, caption), or (path, captions)."""
    for example in read_captioned(examples, notes=notes):
        yield {"image": reference_name(example.picture), "captions": list(example.captions)}


CAPTIONED = Kind(
    name="pictures with captions",
    section=CaptionedData,
    read_parts=read_captioned_parts,
    read_files=read_captioned_files,
    rows=captioned_rows,
    is_plain=False,
)
