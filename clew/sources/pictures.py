"""Pictures as inputs of a body: patches, pixels, rows, or the grid of a residual network, each a sequence in raster
order.

An example is a tensor of bytes (height, width, channels), as `read_picture` returns it. The pictures of a batch may
differ in size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.config import Part, build_part
from clew.core.errors import UserError
from clew.layers.shapes.patches import GRID_POSITIONS, GridPosition, PatchReader
from clew.layers.shapes.pictures import PictureEmbedding, PictureInputs, grid_places
from clew.layers.shapes.resnet import ResNet


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """The shared part of all sources of pictures. Pixels are normalised as (x / 255 - mean) / std; `places`, one of
    GRID_POSITIONS, encodes positions in the grid. The initial map to the body's width is multiplied by `gain`: soft
    attention starts as a mean over all places, where one thing among many is faint.

    In training, pictures are shifted by up to `shift` pixels in each direction, repeating the edge (a random crop of a
    padded picture, as in He et al. 2016), and with `flip` mirrored with probability 1/2.
    """

    channels: int = 3
    mean: float | tuple[float, ...] = 0.5
    std: float | tuple[float, ...] = 0.5
    places: Part = "sinusoidal"
    gain: float = 1.0
    shift: int = 0
    flip: bool = False

    @property
    def width(self) -> int:
        raise NotImplementedError

    def reader(self) -> nn.Module:
        """The module that turns pictures into grids of vectors."""
        raise NotImplementedError

    @property
    def cell(self) -> tuple[int, int]:
        """The height and width, in pixels, of a place of the grid."""
        raise NotImplementedError

    @property
    def before(self) -> int:
        """How many pixels the first place extends above and to the left of the picture."""
        return 0

    def grid_sizes(self, sizes: Tensor) -> Tensor:
        """The heights and widths (batch, 2) of the grids of pictures with these sizes."""
        return -(-sizes // torch.tensor(self.cell, device=sizes.device))

    def embedding(self, dim: int, *, word_dropout: float = 0.0, table: Any = None, **around: Any) -> PictureEmbedding:
        if word_dropout:
            raise UserError(
                f"model.word_dropout ({word_dropout}) drops words of a table, and pictures have none; leave it out"
            )
        if table is not None:
            raise UserError(
                "shared embeddings are a table of tokens, and pictures have none; set model.shared_embeddings=false"
            )
        places: GridPosition = build_part("places", self.places, GRID_POSITIONS, dim)
        embedding = PictureEmbedding(
            self.reader(), dim, places=places, mean=self.mean, std=self.std, augment=self.augment, **around
        )
        with torch.no_grad():
            embedding.map.weight.mul_(self.gain)
        return embedding

    def complete(self, embedding: PictureEmbedding) -> None:
        """Do nothing: the embedding is already complete."""

    def collate(self, examples: Sequence[Tensor]) -> tuple[PictureInputs, Tensor | None]:
        for number, example in enumerate(examples):
            self.check(number, example)
        sizes = torch.tensor([example.shape[:2] for example in examples])
        height, width = sizes.max(0).values.tolist()
        pixels = torch.zeros(len(examples), height, width, self.channels, dtype=examples[0].dtype)
        for row, example in enumerate(examples):
            pixels[row, : example.shape[0], : example.shape[1]] = example
        padded = int(self.grid_sizes(torch.tensor([[height, width]]))[0, 1])
        places, mask = grid_places(self.grid_sizes(sizes), padded)
        return PictureInputs(places, pixels, sizes), mask

    def check(self, number: int, example: Tensor) -> None:
        if example.dim() != 3 or example.shape[2] != self.channels or 0 in example.shape:
            raise UserError(
                f"example {number} has the shape {list(example.shape)}; pictures are (height, width, {self.channels})"
            )

    def augment(self, inputs: PictureInputs) -> PictureInputs:
        return moved(inputs, self.shift, self.flip) if self.shift or self.flip else inputs


@dataclass(frozen=True, kw_only=True)
class Patches(Pictures):
    """Squares of `size` x `size` pixels, mapped to the body's width (Dosovitskiy et al. 2021)."""

    size: int = 8

    @property
    def width(self) -> int:
        return self.size * self.size * self.channels

    def reader(self) -> PatchReader:
        return PatchReader(self.size, self.size, self.channels)

    @property
    def cell(self) -> tuple[int, int]:
        return self.size, self.size


@dataclass(frozen=True, kw_only=True)
class Pixels(Patches):
    """Single pixels, a test of recurrent networks on long sequences (Le et al. 2015)."""

    size: int = 1


@dataclass(frozen=True, kw_only=True)
class Rows(Pictures):
    """Rows of pixels, each one vector, of pictures up to `columns` pixels wide; narrower ones are padded on the
    right."""

    columns: int

    @property
    def width(self) -> int:
        return self.columns * self.channels

    def reader(self) -> PatchReader:
        return PatchReader(1, self.columns, self.channels)

    @property
    def cell(self) -> tuple[int, int]:
        return 1, self.columns

    def check(self, number: int, example: Tensor) -> None:
        super().check(number, example)
        if example.shape[1] > self.columns:
            raise UserError(
                f"example {number} is {example.shape[1]} pixels wide, and rows have {self.columns}; resize it, or read"
                " wider rows"
            )


@dataclass(frozen=True, kw_only=True)
class Convolved(Pictures):
    """The grid of vectors from a residual network, which is trained with the body (the annotation vectors of Xu et al.
    2015)."""

    widths: tuple[int, ...] = (32, 64, 128)
    blocks: int = 2
    stem_stride: int = 1
    groups: int = 8
    norm: str = "picture"

    @property
    def width(self) -> int:
        return self.widths[-1]

    def reader(self) -> ResNet:
        how: dict[str, Any] = {
            "blocks": self.blocks,
            "stem_stride": self.stem_stride,
            "groups": self.groups,
            "norm": self.norm,
        }
        return ResNet(self.channels, widths=self.widths, **how)

    @property
    def cell(self) -> tuple[int, int]:
        step = self.stem_stride * int(2 ** (len(self.widths) - 1))
        return step, step

    @property
    def before(self) -> int:
        """A convolution with stride s and one pixel of padding is centred on pixel s i; its pixels do not start
        there."""
        return self.cell[0] // 2


def moved(inputs: PictureInputs, shift: int, flip: bool) -> PictureInputs:
    """Shift and mirror each picture at random within its own size."""
    pixels, sizes = inputs.pixels, inputs.sizes
    batch, height, width = pixels.shape[:3]
    down, across = torch.randint(-shift, shift + 1, (2, batch, 1), device=pixels.device)
    mirrored = torch.rand(batch, 1, device=pixels.device) < (0.5 if flip else 0.0)
    rows, columns = (torch.arange(side, device=pixels.device)[None] for side in (height, width))
    columns = torch.where(mirrored, sizes[:, 1:] - 1 - columns, columns)
    rows, columns = (
        torch.minimum((places + by).clamp(min=0), sizes[:, side : side + 1] - 1)
        for side, (places, by) in enumerate(((rows, down), (columns, across)))
    )
    rows_of_batch = torch.arange(batch, device=pixels.device)[:, None, None]
    return inputs._replace(pixels=pixels[rows_of_batch, rows[:, :, None], columns[:, None, :]])
