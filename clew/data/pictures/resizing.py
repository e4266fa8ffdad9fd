"""Resizes and crops pictures (height, width, channels); crops and mirrors them at random for training.

Random numbers come from torch's global generator unless a generator is given, so that a training loop that seeds torch
controls them.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from clew.core.errors import UserError


def resized(picture: Tensor, height: int, width: int) -> Tensor:
    """Resize a picture by bilinear interpolation with antialiasing: when shrinking, a new pixel averages all pixels
    that it covers. Bytes are rounded to bytes."""
    check_sides(height, width)
    if picture.shape[:2] == (height, width):
        return picture
    planes = picture.movedim(-1, 0)[None].to(picture.dtype if picture.is_floating_point() else torch.float32)
    planes = F.interpolate(planes, (height, width), mode="bilinear", antialias=True, align_corners=False)
    pixels = planes[0].movedim(0, -1)
    return pixels if picture.is_floating_point() else pixels.round().clamp(0, 255).to(picture.dtype)


def fitted(picture: Tensor, height: int, width: int) -> Tensor:
    """Resize a picture, keeping its aspect ratio, until it covers the size, then crop its centre."""
    check_sides(height, width)
    rows, columns = picture.shape[:2]
    scale = max(height / rows, width / columns)
    return centre_crop(
        resized(picture, max(height, round(rows * scale)), max(width, round(columns * scale))), height, width
    )


def bounded(picture: Tensor, longest: int) -> Tensor:
    """Shrink a picture, keeping its aspect ratio, until no side is above `longest` pixels."""
    check_sides(longest, longest)
    rows, columns = picture.shape[:2]
    scale = longest / max(rows, columns)
    return picture if scale >= 1 else resized(picture, max(1, round(rows * scale)), max(1, round(columns * scale)))


def centre_crop(picture: Tensor, height: int, width: int) -> Tensor:
    """Crop the centre. If the margin is odd, the smaller half is at the top and left."""
    rows, columns = spare_of(picture, height, width)
    return picture[rows // 2 : rows // 2 + height, columns // 2 : columns // 2 + width]


def random_crop(picture: Tensor, height: int, width: int, *, generator: Generator | None = None) -> Tensor:
    """Crop at a random place, all places being equally likely."""
    top, left = (int(torch.randint(spare + 1, (), generator=generator)) for spare in spare_of(picture, height, width))
    return picture[top : top + height, left : left + width]


def random_flip(picture: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Mirror left and right with probability 1 / 2."""
    return picture.flip(1) if float(torch.rand((), generator=generator)) < 0.5 else picture


def random_part(
    picture: Tensor, height: int, width: int, *, smallest: float = 0.5, generator: Generator | None = None
) -> Tensor:
    """Crop a random part of the picture and resize it. Its area is a random fraction, from `smallest` to 1, of the
    picture's area, with the same aspect ratio (Szegedy et al. 2015, who also vary the aspect ratio)."""
    if not 0 < smallest <= 1:
        raise UserError(f"smallest ({smallest}) must be a fraction of the picture's area, above 0 and at most 1")
    share = smallest + (1 - smallest) * float(torch.rand((), generator=generator))
    rows, columns = (max(1, round(side * share**0.5)) for side in picture.shape[:2])
    return resized(random_crop(picture, rows, columns, generator=generator), height, width)


def spare_of(picture: Tensor, height: int, width: int) -> tuple[int, int]:
    """Return how many rows and columns a crop removes."""
    check_sides(height, width)
    rows, columns = picture.shape[:2]
    if rows < height or columns < width:
        raise UserError(
            f"a picture of {rows} x {columns} pixels is too small for a crop of {height} x {width}; resize it first, or"
            " use a smaller crop"
        )
    return rows - height, columns - width


def check_sides(height: int, width: int) -> None:
    if height < 1 or width < 1:
        raise UserError(f"a picture must have at least 1 x 1 pixels, not {height} x {width}")
