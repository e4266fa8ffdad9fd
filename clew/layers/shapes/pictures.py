"""Pictures as inputs of a body: each is a grid of vectors in raster order, row by row from the top left."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.taps import Tap
from clew.layers.embeddings import Embedding
from clew.layers.shapes.patches import GridPosition
from clew.layers.shapes.resnet import real_pixels


class PictureInputs(NamedTuple):
    """A batch of pictures, each padded on the right and below.

    `tokens` (batch, length) are the places of each picture's grid within the padded grid, counted row by row, and 0 as
    padding. `pixels` (batch, height, width, channels) are bytes; `sizes` (batch, 2) are each picture's height and
    width. To a body this is a sequence with a mask; only the embedding knows rows and columns.
    """

    tokens: Tensor
    pixels: Tensor
    sizes: Tensor


def grid_places(grids: Tensor, width: int) -> tuple[Tensor, Tensor | None]:
    """The places (batch, length) of grids of these heights and widths (batch, 2), row by row, in a padded grid of the
    given width; and which are real, None if all are."""
    lengths = grids.prod(1)
    steps = torch.arange(int(lengths.max()), device=grids.device)[None]
    mask = steps < lengths[:, None]
    own = grids[:, 1:]
    places = torch.where(mask, steps // own * width + steps % own, 0)
    return places, None if bool(mask.all()) else mask


def unless_whole(pictures: PictureInputs) -> Tensor | None:
    """The pictures' sizes, or None if none is padded, which is twice as fast. On a GPU always the sizes: asking would
    synchronise."""
    sizes = pictures.sizes
    if sizes.device.type != "cpu" or torch.compiler.is_compiling():
        return sizes
    return None if bool((sizes == torch.tensor(pictures.pixels.shape[1:3])).all()) else sizes


class PictureEmbedding(Embedding):
    """read(pictures)_i = W g[i] + b + p(row_i, column_i),   g = reader((pixels / 255 - mean) / std)

    The `reader` turns pictures into grids of vectors: patches, or the output of a residual network. p is one of
    GRID_POSITIONS; the family's own position encoding, norm and dropout are added as in any embedding. In training it
    reads `augment(pictures)`. The tap `given` shows the normalised pixels.
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
                raise UserError(
                    f"{name} ({levels}) must be one number, or one for each of {reader.channels} channels; std is"
                    " above 0"
                )
            self.register_buffer(name, torch.tensor(levels, dtype=torch.float32), persistent=False)
        self.augment = augment
        self.given = Tap()
        self.surround(**around)

    @property
    def like(self) -> Tensor:
        return self.map.weight

    def blank(self, batch: int, length: int) -> PictureInputs:
        """Black pictures whose grid is one row of `length`; one column if a cell is as wide as a picture."""
        height, width = self.reader.cell
        shape = (height * length, width) if height == 1 and width > 1 else (height, width * length)
        pixels = torch.zeros(batch, *shape, self.reader.channels, dtype=torch.uint8, device=self.like.device)
        sizes = torch.tensor([shape] * batch, device=self.like.device)
        places = torch.arange(length, device=self.like.device).expand(batch, length)
        return PictureInputs(places, pixels, sizes)

    def normalized(self, pictures: PictureInputs) -> Tensor:
        """(pixels / 255 - mean) / std, and 0 on padding."""
        pixels = pictures.pixels.to(self.like.dtype)
        real = real_pixels(pictures.sizes, *pixels.shape[1:3])
        return torch.where(real[..., None], (pixels / 255 - self.mean.to(pixels)) / self.std.to(pixels), 0.0)

    def read(self, inputs: PictureInputs) -> Tensor:
        if (
            not isinstance(inputs, PictureInputs)
            or inputs.pixels.dim() != 4
            or inputs.pixels.shape[-1] != self.reader.channels
        ):
            raise UserError(
                f"this body reads pictures (batch, height, width, {self.reader.channels}), as its source's collate"
                " makes them"
            )
        pictures = self.augment(inputs) if self.training else inputs
        # (batch, height', width', width)
        grid = self.reader(self.given(self.normalized(pictures)), unless_whole(pictures))
        rows, columns = pictures.tokens // grid.shape[2], pictures.tokens % grid.shape[2]
        index = pictures.tokens[..., None].expand(-1, -1, grid.shape[-1])
        x = self.map(grid.flatten(1, 2).gather(1, index))
        # Divided by `scale`, since `forward` multiplies the sum by it: the scale is meant for table vectors.
        vectors: Tensor = x + self.places(rows, columns, x) / self.scale
        return vectors
