"""Pictures with a label, or with several: a folder a class, tables, corpora of them, and scenes that are drawn."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal

from pydantic import Field

from clew.core.errors import unknown
from clew.data.corpora import CORPORA, read_corpus
from clew.data.examples import LabelledPicture
from clew.data.kinds.captioned import PicturesData, check_picture, path_of, sizes_of, split_key
from clew.data.kinds.kind import Given, Kind, Parts, cut_files
from clew.data.kinds.section import Column
from clew.data.notes import Notes
from clew.data.picture_contents import IdxPictures
from clew.data.picture_readers import read_labelled_pictures
from clew.data.scenes import SCENES, Scene, scenes

About = Literal["shape", "colour", "size", "count"]


class LabelledPicturesData(PicturesData):
    """Where the labelled pictures come from: a corpus by name, scenes that are drawn, or files of one's own."""

    label: Column | None = Field(None, description="labelled pictures in a table: the column of the label")
    label_separator: str | None = Field(None, min_length=1, description="what parts several labels in a field")
    about: About = Field("shape", description="drawn scenes: what the label is: of one thing its shape, colour or size; how many things")


def labelled_pictures_of(data: LabelledPicturesData, seed: int, notes: Notes) -> Parts:
    """Pictures with labels; an unsplit set is split so that every label has its share on both sides."""
    data.check_given("data.train names your pictures, e.g. data.train=photographs, a folder with one for each class in it")
    if data.corpus is None:
        return cut_files(
            lambda files: labelled_pictures_in(files, data, notes), data, seed, by_label=True, key=split_key, check=check_picture
        )
    if data.corpus == SCENES:
        return drawn(data, seed)
    if data.corpus not in CORPORA:
        raise unknown("corpus of pictures", data.corpus, [SCENES, *CORPORA])
    return dict(read_corpus(data.corpus, kind=IdxPictures.kind, seed=seed, notes=notes))


def drawn(data: LabelledPicturesData, seed: int) -> Parts:
    most = data.things if data.about == "count" else 1
    return {
        part: [
            LabelledPicture(scene, (label_of(scene, data.about),), f"{SCENES} {part} {number}")
            for number, scene in enumerate(scenes(count, seed, part, side=data.side, most=most), start=1)
        ]
        for part, count in sizes_of(data).items()
    }


def label_of(scene: Scene, about: About) -> str:
    return str(len(scene.things)) if about == "count" else str(getattr(scene.things[0], about))


def labelled_pictures_in(files: Given, data: LabelledPicturesData, notes: Notes) -> Iterator[LabelledPicture]:
    options: dict[str, Any] = {name: getattr(data, name) for name in ("image", "label", "label_separator", "pictures", "format", "header")}
    return chain.from_iterable(read_labelled_pictures(file, notes=notes, **options) for file in files)


def labelled_picture_rows(examples: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """(path, label); several labels are a list."""
    for example in read_labelled_pictures(examples):
        yield {"image": path_of(example.picture), "label": example.labels[0] if len(example.labels) == 1 else list(example.labels)}


LABELLED_PICTURES = Kind(
    name="labelled pictures",
    section=LabelledPicturesData,
    read_parts=labelled_pictures_of,
    read_files=labelled_pictures_in,
    rows=labelled_picture_rows,
)
