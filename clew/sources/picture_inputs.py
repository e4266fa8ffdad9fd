"""Pictures as inputs of a run: files and drawn scenes, resized to one size and read as patches, pixels, rows or a
network's grid; or at their own size, cell by cell."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from clew.core.errors import unknown
from clew.core.layouts import Layout
from clew.data.pictures.picture_files import has_header, picture_size, read_picture
from clew.layers.shapes.patches import GRID_POSITIONS
from clew.layers.shapes.resnet import PICTURE_NORMS
from clew.sources.canvases import Canvas, cells_of_grid
from clew.sources.inputs import Input, InputReader
from clew.sources.pictures import Convolved, Patches, Pictures, Pixels, Rows


@dataclass(frozen=True, kw_only=True)
class PictureReader(InputReader):
    """Reads pictures resized to `side` x `side` pixels. In training they are shifted by up to `shift` pixels, and with
    `flip` mirrored with probability 1/2. `positions` is one of GRID_POSITIONS, the encoding of a place's row and
    column. The initial map from places to the body's width is multiplied by `gain`."""

    added: ClassVar[tuple[str, ...]] = ("positions", "gain")
    side: int = 64
    grey: bool = False
    shift: int = 0
    flip: bool = False
    positions: str = "sinusoidal"
    gain: float = 1.0

    def __post_init__(self) -> None:
        self.check_between(side=(1, 2048), shift=(0, 2048), gain=(0.01, 100))
        if self.positions not in GRID_POSITIONS:
            raise unknown("value for task.input.positions", self.positions, GRID_POSITIONS)

    @property
    def shared(self) -> dict[str, Any]:
        return {
            "channels": 1 if self.grey else 3,
            "shift": self.shift,
            "flip": self.flip,
            "places": self.places_part,
            "gain": self.gain,
        }

    @property
    def places_part(self) -> Any:
        """The position encoding, with learned tables as large as the grid can be."""
        return (
            {"name": "learned", "max_height": self.side, "max_width": self.side}
            if self.positions == "learned"
            else self.positions
        )

    @cached_property
    def pictures(self) -> Pictures:
        raise NotImplementedError

    def source(self) -> Pictures:
        return self.pictures

    @cached_property
    def grid(self) -> tuple[int, int]:
        """The number of rows and columns of places."""
        rows, columns = self.pictures.grid_sizes(torch.tensor([[self.side, self.side]]))[0].tolist()
        return rows, columns

    @property
    def cell(self) -> tuple[int, int]:
        """The height and width of a place, in pixels."""
        return -(-self.side // self.grid[0]), -(-self.side // self.grid[1])

    def measured(self, example: Any) -> Input:
        if has_header(example):
            picture_size(example)  # refuses files that are no pictures before training begins
        return Input(example, self.grid[0] * self.grid[1])

    def read(self, example: Any) -> Tensor:
        return read_picture(example, shape=(self.side, self.side), mode="grey" if self.grey else "rgb")

    def places(self, example: Any, length: int) -> list[str]:
        return [f"row {place // self.grid[1] + 1}, column {place % self.grid[1] + 1}" for place in range(length)]

    def layout(self, example: Any, length: int) -> Layout:
        return Layout(tuple(self.places(example, length)), self.unit, self.grid)

    def canvas(self, example: Any) -> Canvas:
        """The resized picture."""
        pixels = self.read(example)
        return Canvas(
            pixels.expand(-1, -1, 3).numpy(),
            spread=lambda entries: entries.sum(-1),
            cells=cells_of_grid(self.side, self.side, self.cell, self.pictures.before),
            grid=self.grid,
        )


@dataclass(frozen=True, kw_only=True)
class ConvolvedReader(PictureReader):
    """The grid of a small residual network. Its first stage has `first_dim` channels; every further stage has twice as
    many and halves both sides. `norm` is over the whole picture, or over each place separately."""

    added: ClassVar[tuple[str, ...]] = ("positions", "gain", "norm")
    name: ClassVar[str] = "convolved"
    unit: ClassVar[str] = "place"
    stages: int = 3
    first_dim: int = 32
    blocks: int = 1
    stem_stride: int = 2
    norm: str = "picture"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_between(stages=(1, 8), first_dim=(8, 1024), blocks=(1, 50), stem_stride=(1, 64))
        if self.norm not in PICTURE_NORMS:
            raise unknown("value for task.input.norm", self.norm, PICTURE_NORMS)

    @property
    def cell(self) -> tuple[int, int]:
        stride = self.stem_stride * int(2 ** (self.stages - 1))
        return stride, stride

    @cached_property
    def pictures(self) -> Convolved:
        widths = tuple(self.first_dim * 2**stage for stage in range(self.stages))
        return Convolved(**self.shared, widths=widths, blocks=self.blocks, stem_stride=self.stem_stride, norm=self.norm)


@dataclass(frozen=True, kw_only=True)
class PatchesReader(PictureReader):
    """Squares of `size` x `size` pixels."""

    name: ClassVar[str] = "patches"
    unit: ClassVar[str] = "patch"
    size: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_between(size=(1, self.side))

    @property
    def cell(self) -> tuple[int, int]:
        return self.size, self.size

    @cached_property
    def pictures(self) -> Patches:
        return Patches(**self.shared, size=self.size)


@dataclass(frozen=True, kw_only=True)
class PixelsReader(PictureReader):
    """Pixel by pixel."""

    name: ClassVar[str] = "pixels"
    unit: ClassVar[str] = "pixel"

    @cached_property
    def pictures(self) -> Pixels:
        return Pixels(**self.shared)


@dataclass(frozen=True, kw_only=True)
class RowsReader(PictureReader):
    """Row by row."""

    name: ClassVar[str] = "rows"
    unit: ClassVar[str] = "row"

    @cached_property
    def pictures(self) -> Rows:
        return Rows(**self.shared, columns=self.side)

    def places(self, example: Any, length: int) -> list[str]:
        return [f"row {place + 1}" for place in range(length)]

    def layout(self, example: Any, length: int) -> Layout:
        return InputReader.layout(self, example, length)


@dataclass(frozen=True, kw_only=True)
class CellsReader(InputReader):
    """Squares of `size` x `size` pixels of pictures at their own size; the last squares of a row or a column may reach
    beyond it."""

    name: ClassVar[str] = "cells"
    unit: ClassVar[str] = "cell"
    size: int = 4
    grey: bool = False

    def __post_init__(self) -> None:
        self.check_between(size=(1, 2048))

    def source(self) -> Patches:
        return self.pictures

    @cached_property
    def pictures(self) -> Patches:
        return Patches(channels=1 if self.grey else 3, size=self.size)

    def pixel_size(self, example: Any) -> tuple[int, int]:
        """The height and width of a picture."""
        return picture_size(example)

    def grid(self, example: Any) -> tuple[int, int]:
        """The number of rows and columns of cells."""
        height, width = self.pixel_size(example)
        return -(-height // self.size), -(-width // self.size)

    def measured(self, example: Any) -> Input:
        rows, columns = self.grid(example)
        return Input(example, rows * columns)

    def read(self, example: Any) -> Tensor:
        return read_picture(example, mode="grey" if self.grey else "rgb")

    def places(self, example: Any, length: int) -> list[str]:
        columns = self.grid(example)[1]
        return [f"row {place // columns + 1}, column {place % columns + 1}" for place in range(length)]

    def layout(self, example: Any, length: int) -> Layout:
        return Layout(tuple(self.places(example, length)), self.unit, self.grid(example))
