"""Pictures (height, width, channels) in another size: resized, cropped, and cropped or mirrored at random for training.

Randomness is torch's own, or a generator's where one is given, so that a loop which seeds torch decides it.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from clew.core.errors import UserError


def resized(picture: Tensor, height: int, width: int) -> Tensor:
    """A picture of that size, with bilinear interpolation over all pixels that a new one covers (antialias): none is
    skipped where a picture becomes smaller. Bytes are rounded to bytes."""
    check_sides(height, width)
    if picture.shape[:2] == (height, width):
        return picture
    planes = picture.movedim(-1, 0)[None].to(picture.dtype if picture.is_floating_point() else torch.float32)
    found = F.interpolate(planes, (height, width), mode="bilinear", antialias=True, align_corners=False)[0].movedim(
        0, -1
    )
    return found if picture.is_floating_point() else found.round().clamp(0, 255).to(picture.dtype)


def fitted(picture: Tensor, height: int, width: int) -> Tensor:
    """Resized until it covers that size, its sides in proportion, then cropped around the middle."""
    check_sides(height, width)
    rows, columns = picture.shape[:2]
    scale = max(height / rows, width / columns)
    return centre_crop(
        resized(picture, max(height, round(rows * scale)), max(width, round(columns * scale))), height, width
    )


def bounded(picture: Tensor, longest: int) -> Tensor:
    """A picture whose sides are `longest` pixels at most, in proportion; a smaller one as it is."""
    check_sides(longest, longest)
    rows, columns = picture.shape[:2]
    scale = longest / max(rows, columns)
    return picture if scale >= 1 else resized(picture, max(1, round(rows * scale)), max(1, round(columns * scale)))


def centre_crop(picture: Tensor, height: int, width: int) -> Tensor:
    """The middle; of an odd remainder the smaller half lies above and to the left."""
    rows, columns = spare_of(picture, height, width)
    return picture[rows // 2 : rows // 2 + height, columns // 2 : columns // 2 + width]


def random_crop(picture: Tensor, height: int, width: int, *, generator: Generator | None = None) -> Tensor:
    """A part of that size, each place of it as likely as the others."""
    top, left = (int(torch.randint(spare + 1, (), generator=generator)) for spare in spare_of(picture, height, width))
    return picture[top : top + height, left : left + width]


def random_flip(picture: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Left and right exchanged in every second case."""
    return picture.flip(1) if float(torch.rand((), generator=generator)) < 0.5 else picture


def random_part(
    picture: Tensor, height: int, width: int, *, smallest: float = 0.5, generator: Generator | None = None
) -> Tensor:
    """A random part with a share from `smallest` to 1 of the picture's area, its sides in proportion, resized (Szegedy
    et al. 2015, whose parts also have other proportions)."""
    if not 0 < smallest <= 1:
        raise UserError(f"smallest ({smallest}) is a share of the picture's area, above 0 and at most 1")
    share = smallest + (1 - smallest) * float(torch.rand((), generator=generator))
    rows, columns = (max(1, round(side * share**0.5)) for side in picture.shape[:2])
    return resized(random_crop(picture, rows, columns, generator=generator), height, width)


def spare_of(picture: Tensor, height: int, width: int) -> tuple[int, int]:
    """How many rows and columns a crop leaves out."""
    check_sides(height, width)
    rows, columns = picture.shape[:2]
    if rows < height or columns < width:
        raise UserError(
            f"a picture of {rows} x {columns} pixels has no part of {height} x {width}; resize it first, or crop less"
        )
    return rows - height, columns - width


def check_sides(height: int, width: int) -> None:
    if height < 1 or width < 1:
        raise UserError(f"a picture has 1 x 1 pixel at least, not {height} x {width}")
