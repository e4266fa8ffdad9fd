"""Pictures with paragraphs: your own files, and drawn scenes."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pydantic import Field

from clew.core.errors import unknown
from clew.data.examples import Described, Regions
from clew.data.kinds.captioned import Order, PicturesData, part_sizes, split_key
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.section import Column
from clew.data.notes import Notes
from clew.data.pictures.paragraph_readers import read_described
from clew.data.pictures.references import reference_name
from clew.data.synthetic.scene_texts import paragraph_sentences, phrase_of
from clew.data.synthetic.scenes import SCENES, Scene, across, boxes_across, scenes


class DescribedData(PicturesData):
    """Where the pictures with paragraphs come from: drawn scenes, or your own files."""

    sentences: Column | None = Field(None, description="paragraphs in JSON lines: the field of the list of sentences")
    boxes: Column | None = Field(
        None, description="paragraphs in JSON lines: the field of the boxes [left, top, right, bottom]"
    )
    phrases: Column | None = Field(None, description="paragraphs in JSON lines: the field of a phrase for each box")
    order: Order = Field(
        "drawn", description="drawn scenes: sentences describe objects in random order, or from left to right"
    )


def read_described_parts(data: DescribedData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        'there is no training data; name your paragraphs with data.train, e.g. data.train=mine.jsonl with {"image":'
        ' ..., "sentences": [...]} on each line'
    )
    if data.corpus is None:
        return cut_files(lambda files: read_described_files(files, data, notes), data, seed, key=split_key)
    if data.corpus != SCENES:
        raise unknown("corpus of pictures with paragraphs", data.corpus, [SCENES])
    return {
        part: [
            described_scene(scene, data.order, f"{SCENES} {part} {number}")
            for number, scene in enumerate(scenes(count, seed, part, side=data.side, most=data.things), start=1)
        ]
        for part, count in part_sizes(data).items()
    }


def described_scene(scene: Scene, order: Order = "drawn", id: str = "") -> Described:
    """Return a scene with its paragraph, and with the boxes and phrases of its objects from left to right."""
    numbers = across(scene)
    sentences = paragraph_sentences(scene, numbers if order == "across" else None)
    return Described(
        Regions(scene, boxes_across(scene)),
        tuple(f"{sentence.text} ." for sentence in sentences),
        tuple(phrase_of(scene.things[number]) for number in numbers),
        id,
    )


def read_described_files(files: PartFiles, data: DescribedData, notes: Notes) -> Iterator[Described]:
    options: dict[str, Any] = {
        name: getattr(data, name) for name in ("image", "sentences", "boxes", "phrases", "pictures", "format")
    }
    return chain.from_iterable(read_described(file, notes=notes, **options) for file in files)


def described_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """Yield (path, sentences), with boxes and phrases if there are any."""
    for example in read_described(examples, notes=notes):
        picture = example.picture
        row: dict[str, Any] = {"image": reference_name(picture.picture if isinstance(picture, Regions) else picture)}
        row["sentences"] = list(example.sentences)
        if isinstance(picture, Regions):
            row["boxes"] = [list(box) for box in picture.boxes]
        yield {**row, **({"phrases": list(example.phrases)} if example.phrases else {})}


DESCRIBED = Kind(
    name="pictures with paragraphs",
    section=DescribedData,
    read_parts=read_described_parts,
    read_files=read_described_files,
    rows=described_rows,
    is_plain=False,
)
