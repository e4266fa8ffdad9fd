"""Pictures with a label for every pixel: a folder of pictures and a folder of label pictures, or drawn scenes."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field

from clew.core.errors import UserError, unknown
from clew.data.examples import LabelledPixels
from clew.data.kinds.captioned import part_sizes, split_key
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.section import ExampleData
from clew.data.lines import near
from clew.data.notes import Notes
from clew.data.pictures.label_pictures import LabelFile
from clew.data.pictures.picture_decoding import ENDINGS
from clew.data.pictures.references import PictureRef
from clew.data.synthetic.scenes import MOST_THINGS, SCENES, SHAPES, Draw, Part, Scene, drawn_scene

GROUND = "ground"
"""The label of pixels outside all objects."""
LABELS = "labels"
"""The default name of the folder of label pictures, beside the folder of pictures."""


class LabelledPixelsData(ExampleData):
    """Where the pictures come from: drawn scenes, or your own folders."""

    labels: str | None = Field(
        None,
        description=(
            "the folder of label pictures: for each picture a PNG of the same name, grey or with a palette, whose"
            " numbers are the labels; by default `labels` beside data.train"
        ),
    )
    names: list[str] = Field(
        [], description="the names of the numbers 0, 1, 2 ... of label pictures; by default the numbers themselves"
    )
    ignored: int | None = Field(None, ge=0, le=255, description="the number of pixels without a label, such as 255")
    size: int = Field(10_000, ge=1, description="drawn scenes: their number")
    side: int = Field(64, ge=32, le=512, description="drawn scenes: the side of a picture, in pixels")
    smallest: int | None = Field(
        None, ge=32, le=512, description="drawn scenes: random sides from this to data.side; by default all data.side"
    )
    things: int = Field(MOST_THINGS, ge=1, le=MOST_THINGS, description="drawn scenes: the largest number of objects")


class SceneShapes(NamedTuple):
    """The shape of each pixel of a scene; 0 is the ground. It is a `PixelLabels`."""

    scene: Scene

    def levels(self) -> np.ndarray:
        return self.scene.classes()


def read_pixel_parts(data: LabelledPixelsData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        "there is no training data; name your folder of pictures with data.train, e.g. data.train=pictures"
        " data.labels=labels, with the label pictures in the second"
    )
    if data.corpus is None:
        return cut_files(lambda files: read_pixel_files(files, data, notes), data, seed, key=split_key)
    if data.corpus != SCENES:
        raise unknown("corpus of pictures with labels of pixels", data.corpus, [SCENES])
    if data.smallest is not None and data.smallest > data.side:
        raise UserError(f"data.smallest ({data.smallest}) must be at most data.side ({data.side})")
    return {part: list(draw_scenes(data, seed, part, count)) for part, count in part_sizes(data).items()}


def draw_scenes(data: LabelledPixelsData, seed: int, part: Part, count: int) -> Iterator[LabelledPixels]:
    """Draw scenes as `scenes` does, each with its own side if sides vary."""
    for number in range(1, count + 1):
        name = f"{SCENES} {part} {seed} {number}"
        side = data.side if data.smallest is None else Draw(f"side {name}").between(data.smallest, data.side)
        scene = drawn_scene(name, number, part, side, 1, data.things)
        yield LabelledPixels(scene, SceneShapes(scene), (GROUND, *SHAPES), None, f"{SCENES} {part} {number}")


def read_pixel_files(files: PartFiles, data: LabelledPixelsData, notes: Notes) -> Iterator[LabelledPixels]:
    return chain.from_iterable(read_folder(Path(file).expanduser(), data, notes) for file in files)


def read_folder(folder: Path, data: LabelledPixelsData, notes: Notes) -> Iterator[LabelledPixels]:
    """Read every picture below a folder with its label picture. A missing one, or one of another size, is a fault."""
    labels = folder.parent / LABELS if data.labels is None else Path(data.labels).expanduser()
    for path, purpose in (
        (folder, "data.train, data.valid and data.test name folders of pictures"),
        (labels, "data.labels names their folder"),
    ):
        if not path.is_dir():
            raise UserError(
                f"{path}: there is no such folder; {purpose}, with a label picture of the same name for each;"
                f" {near(path)}"
            )
    has_examples = False
    for path in pictures_below(folder):
        label_path = (labels / path.relative_to(folder)).with_suffix(".png")
        picture, pixels = PictureRef(str(path)), LabelFile(str(label_path))
        if not label_path.is_file():
            notes.fault(
                "missing label picture",
                str(path),
                f"there is no label picture {label_path}; data.labels names their folder",
            )
            continue
        sizes = picture.size(), PictureRef(str(label_path)).size()
        if sizes[0] != sizes[1]:
            own, other = (f"{height} x {width}" for height, width in sizes)
            rule = f"it has {own} pixels, and its label picture {label_path} has {other}; both must have the same size"
            notes.fault("label picture of a different size", str(path), rule)
            continue
        has_examples = True
        yield LabelledPixels(picture, pixels, tuple(data.names), data.ignored, str(path))
    if not has_examples and not notes.skipped:
        raise UserError(
            f"{folder}: no picture in this folder; expected files with an ending such as .jpg or .png;"
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
    read_parts=read_pixel_parts,
    read_files=read_pixel_files,
    is_plain=False,
)
