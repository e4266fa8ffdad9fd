"""Pictures with a label, or with several: a folder for each class, tables, corpora of them, and drawn scenes."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from clew.core.errors import unknown
from clew.data.corpora import CORPORA, read_corpus
from clew.data.corpora.picture_contents import IdxPictures
from clew.data.examples import LabelledInput
from clew.data.files.given_files import expand_home
from clew.data.kinds.captioned import PicturesData, part_sizes
from clew.data.kinds.kind import Parts
from clew.data.kinds.labelled_inputs import LabelledData, labelled_inputs
from clew.data.notes import Notes
from clew.data.pictures.picture_readers import PICTURE_FILES
from clew.data.pictures.references import check_folder
from clew.data.synthetic.scenes import SCENES, Scene, scenes

About = Literal["shape", "colour", "size", "count"]


class LabelledPicturesData(PicturesData, LabelledData):
    """Where the labelled pictures come from: a corpus by name, drawn scenes, or your own files."""

    about: About = Field(
        "shape",
        description="drawn scenes: the label: the shape, colour or size of one object, or the number of objects",
    )


def read_corpus_parts(data: LabelledPicturesData, seed: int, notes: Notes) -> Parts:
    assert data.corpus is not None
    if data.corpus == SCENES:
        return draw_parts(data, seed)
    if data.corpus not in CORPORA:
        raise unknown("corpus of pictures", data.corpus, [SCENES, *CORPORA])
    return dict(read_corpus(data.corpus, kind=IdxPictures.kind, seed=seed, notes=notes))


def draw_parts(data: LabelledPicturesData, seed: int) -> Parts:
    most = data.things if data.about == "count" else 1
    return {
        part: [
            LabelledInput(scene, (label_of(scene, data.about),), f"{SCENES} {part} {number}")
            for number, scene in enumerate(scenes(count, seed, part, side=data.side, most=most), start=1)
        ]
        for part, count in part_sizes(data).items()
    }


def label_of(scene: Scene, about: About) -> str:
    return str(len(scene.things)) if about == "count" else str(getattr(scene.things[0], about))


def folder_of(data: LabelledPicturesData) -> Path | None:
    return None if data.pictures is None else check_folder(expand_home(data.pictures))


LABELLED_PICTURES = labelled_inputs(LabelledPicturesData, PICTURE_FILES, read_corpus_parts, "photographs", folder_of)
