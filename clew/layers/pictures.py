"""Pictures as what a body reads: a grid of vectors for each, in raster order, row by row from the top left."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.taps import Tap
from clew.layers.embeddings import Embedding
from clew.layers.patches import GridPosition
from clew.layers.resnet import real_pixels


class PictureInputs(NamedTuple):
    """Pictures side by side, each padded on the right and below.

    `tokens` (batch, length) are the places of each picture's own grid among those of the padded one, counted row by row; behind the last
    they are 0. `pixels` (batch, height, width, channels) are bytes; `sizes` (batch, 2) are each picture's own height and width.
    """

    tokens: Tensor
    pixels: Tensor
    sizes: Tensor


def grid_places(grids: Tensor, width: int) -> tuple[Tensor, Tensor | None]:
    """The places (batch, length) of grids of these heights and widths (batch, 2), row by row, in a padded grid that is `width` wide; and
    which are real, None where all are."""
    lengths = grids.prod(1)
    steps = torch.arange(int(lengths.max()), device=grids.device)[None]
    mask = steps < lengths[:, None]
    own = grids[:, 1:]
    places = torch.where(mask, steps // own * width + steps % own, 0)
    return places, None if bool(mask.all()) else mask


def unless_whole(pictures: PictureInputs) -> Tensor | None:
    """The sizes of pictures; None where none is padded, which takes half the time. A GPU is not asked, since that would wait for it."""
    sizes = pictures.sizes
    if sizes.device.type != "cpu" or torch.compiler.is_compiling():
        return sizes
    return None if bool((sizes == torch.tensor(pictures.pixels.shape[1:3])).all()) else sizes


class PictureEmbedding(Embedding):
    """read(pictures)_i = W g[i] + b + p(row_i, column_i),   g = reader((pixels / 255 - mean) / std)

    The `reader` makes of pictures a grid of vectors: patches, or what a residual network gives. p is one of GRID_POSITIONS; what a family
    puts around, its position encoding included, comes on top. In training `augment(pictures)` is read in their place. The tap
    `given` shows the normalised pixels.
    """

    vocabulary = 0
    tokens = None
    parts = ()
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        reader: Any,
        dim: int,
        *,
        places: GridPosition,
        mean: float | Sequence[float] = 0.5,
        std: float | Sequence[float] = 0.5,
        augment: Callable[[PictureInputs], PictureInputs] = lambda pictures: pictures,
        **around: Any,
    ):
        super().__init__()
        self.reader = reader
        self.dim, self.width = dim, reader.width
        self.map = nn.Linear(reader.width, dim)
        self.places = places
        for name, level in (("mean", mean), ("std", std)):
            levels = [level] * reader.channels if isinstance(level, (int, float)) else list(level)
            if len(levels) != reader.channels or (name == "std" and min(levels) <= 0):
                raise UserError(f"{name} ({levels}) must be one number, or one for each of {reader.channels} channels; std is above 0")
            self.register_buffer(name, torch.tensor(levels, dtype=torch.float32), persistent=False)
        self.augment = augment
        self.given = Tap()
        self.surround(**around)

    @property
    def like(self) -> Tensor:
        return self.map.weight

    def blank(self, batch: int, length: int) -> PictureInputs:
        """Black pictures whose grid is one row of `length`; one column where a cell is as wide as a picture."""
        height, width = self.reader.cell
        shape = (height * length, width) if height == 1 and width > 1 else (height, width * length)
        pixels = torch.zeros(batch, *shape, self.reader.channels, dtype=torch.uint8, device=self.like.device)
        sizes = torch.tensor([shape] * batch, device=self.like.device)
        places = torch.arange(length, device=self.like.device).expand(batch, length)
        return PictureInputs(places, pixels, sizes)

    def normalized(self, pictures: PictureInputs) -> Tensor:
        """(pixels / 255 - mean) / std, and 0 beyond each picture."""
        pixels = pictures.pixels.to(self.like.dtype)
        real = real_pixels(pictures.sizes, *pixels.shape[1:3])
        return torch.where(real[..., None], (pixels / 255 - self.mean.to(pixels)) / self.std.to(pixels), 0.0)

    def read(self, inputs: PictureInputs) -> Tensor:
        if not isinstance(inputs, PictureInputs) or inputs.pixels.dim() != 4 or inputs.pixels.shape[-1] != self.reader.channels:
            raise UserError(
                f"this body reads pictures (batch, height, width, {self.reader.channels}) as its source's collate gives them; give it those"
            )
        pictures = self.augment(inputs) if self.training else inputs
        grid = self.reader(self.given(self.normalized(pictures)), unless_whole(pictures))  # (batch, height', width', width)
        rows, columns = pictures.tokens // grid.shape[2], pictures.tokens % grid.shape[2]
        index = pictures.tokens[..., None].expand(-1, -1, grid.shape[-1])
        x = self.map(grid.flatten(1, 2).gather(1, index))
        # a family may multiply all of it by a scale, which is for vectors of a table
        found: Tensor = x + self.places(rows, columns, x) / self.scale
        return found
