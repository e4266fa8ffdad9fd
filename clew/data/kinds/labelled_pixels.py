"""Pictures with a label for every pixel: a folder of them beside a folder of label pictures, and scenes that are
drawn."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field

from clew.core.errors import UserError, unknown
from clew.data.examples import LabelledPixels
from clew.data.kinds.captioned import sizes_of, split_key
from clew.data.kinds.kind import Given, Kind, Parts, cut_files
from clew.data.kinds.section import ExampleData
from clew.data.lines import near
from clew.data.notes import Notes
from clew.data.pictures.label_pictures import LabelFile
from clew.data.pictures.picture_decoding import ENDINGS
from clew.data.pictures.references import PictureRef
from clew.data.synthetic.scenes import MOST_THINGS, SCENES, SHAPES, Draw, Part, Scene, drawn_scene

GROUND = "ground"
"""What is no thing."""
LABELS = "labels"
"""The name of the folder of label pictures, beside that of the pictures, where none is given."""


class LabelledPixelsData(ExampleData):
    """Where the pictures come from: scenes that are drawn, or folders of one's own."""

    labels: str | None = Field(
        None,
        description=(
            "the folder of label pictures: for each picture a PNG of the same name, grey or with a palette, whose"
            " numbers are the labels; `labels` beside data.train where not given"
        ),
    )
    names: list[str] = Field(
        [], description="what the numbers 0, 1, 2 ... of label pictures are called; themselves where not given"
    )
    ignored: int | None = Field(None, ge=0, le=255, description="the number of pixels without a label, such as 255")
    size: int = Field(10_000, ge=1, description="drawn scenes: how many")
    side: int = Field(64, ge=32, le=512, description="drawn scenes: the side of a picture, in pixels")
    smallest: int | None = Field(
        None, ge=32, le=512, description="drawn scenes: sides are drawn from this to data.side; all data.side else"
    )
    things: int = Field(MOST_THINGS, ge=1, le=MOST_THINGS, description="drawn scenes: how many things at most")


class SceneShapes(NamedTuple):
    """For each pixel of a scene which shape it is of, 0 being the ground. It is a `PixelLabels`."""

    scene: Scene

    def levels(self) -> np.ndarray:
        return self.scene.classes()


def labelled_pixels_of(data: LabelledPixelsData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        "data.train names your folder of pictures, e.g. data.train=pictures data.labels=labels, label pictures in the"
        " other"
    )
    if data.corpus is None:
        return cut_files(lambda files: labelled_pixels_in(files, data, notes), data, seed, key=split_key)
    if data.corpus != SCENES:
        raise unknown("corpus of pictures with labels of pixels", data.corpus, [SCENES])
    if data.smallest is not None and data.smallest > data.side:
        raise UserError(f"data.smallest ({data.smallest}) must be at most data.side ({data.side})")
    return {part: list(drawn(data, seed, part, count)) for part, count in sizes_of(data).items()}


def drawn(data: LabelledPixelsData, seed: int, part: Part, count: int) -> Iterator[LabelledPixels]:
    """Scenes as `scenes` draws them, each with a side of its own where these differ."""
    for number in range(1, count + 1):
        name = f"{SCENES} {part} {seed} {number}"
        side = data.side if data.smallest is None else Draw(f"side {name}").between(data.smallest, data.side)
        scene = drawn_scene(name, number, part, side, 1, data.things)
        yield LabelledPixels(scene, SceneShapes(scene), (GROUND, *SHAPES), None, f"{SCENES} {part} {number}")


def labelled_pixels_in(files: Given, data: LabelledPixelsData, notes: Notes) -> Iterator[LabelledPixels]:
    return chain.from_iterable(of_folder(Path(file).expanduser(), data, notes) for file in files)


def of_folder(folder: Path, data: LabelledPixelsData, notes: Notes) -> Iterator[LabelledPixels]:
    """Every picture below a folder that has a label picture of its size; one without is a fault."""
    labels = folder.parent / LABELS if data.labels is None else Path(data.labels).expanduser()
    for path, what in (
        (folder, "data.train, data.valid and data.test name folders of pictures"),
        (labels, "data.labels names their folder"),
    ):
        if not path.is_dir():
            raise UserError(
                f"{path}: there is no such folder; {what}, with a label picture of the same name for each; {near(path)}"
            )
    found = False
    for path in pictures_below(folder):
        beside = (labels / path.relative_to(folder)).with_suffix(".png")
        picture, pixels = PictureRef(str(path)), LabelFile(str(beside))
        if not beside.is_file():
            notes.fault(
                "missing label picture",
                str(path),
                f"there is no label picture {beside}; data.labels names their folder",
            )
            continue
        sizes = picture.size(), PictureRef(str(beside)).size()
        if sizes[0] != sizes[1]:
            own, other = (f"{height} x {width}" for height, width in sizes)
            rule = f"it has {own} pixels, and its label picture {beside} has {other}; both must be one size"
            notes.fault("label picture of another size", str(path), rule)
            continue
        found = True
        yield LabelledPixels(picture, pixels, tuple(data.names), data.ignored, str(path))
    if not found and not notes.skipped:
        raise UserError(
            f"{folder}: no picture in this folder; expected files that end in .jpg, .png or the like;"
            f" {near(folder / '*')}"
        )


def pictures_below(folder: Path) -> Sequence[Path]:
    paths = (
        path
        for path in sorted(folder.rglob("*"))
        if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    return [path for path in paths if path.suffix.lower() in ENDINGS and path.is_file()]


LABELLED_PIXELS = Kind(
    name="pictures with labels of pixels",
    section=LabelledPixelsData,
    read_parts=labelled_pixels_of,
    read_files=labelled_pixels_in,
    is_plain=False,
)
