"""Pictures as tensors of bytes (height, width, channels), from files, archive members or drawings. Knows no format: see
picture_decoding."""

from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.data.examples import Picture
from clew.data.pictures.picture_decoding import Mode, Size
from clew.data.pictures.references import PictureRef
from clew.data.pictures.resizing import resized


def read_picture(picture: Picture | Path | str, *, shape: tuple[int, int] | None = None, mode: Mode = "rgb") -> Tensor:
    """Return the pixels (height, width, 3) in RGB, or (height, width, 1) in grey, from 0 to 255, upright; resized to
    `shape` if given.

    Transparent pixels are blended with white; an animation gives its first frame; 16 bits become 8.
    """
    pixels = torch.from_numpy(as_picture(picture).pixels(mode))
    return pixels if shape is None else resized(pixels, *shape)


@runtime_checkable
class HasHeader(Picture, Protocol):
    """A picture whose size is known before it is decoded, such as a file."""

    def size(self) -> Size: ...


def has_header(picture: Picture | Path | str) -> bool:
    return isinstance(as_picture(picture), HasHeader)


def picture_size(picture: Picture | Path | str) -> Size:
    """Return the height and width that `read_picture` gives, from the header alone or, of a drawing, from the
    pixels."""
    picture = as_picture(picture)
    return picture.size() if isinstance(picture, HasHeader) else Size(*picture.pixels().shape[:2])


def as_picture(picture: Picture | Path | str) -> Picture:
    if isinstance(picture, (Path, str)):
        return PictureRef(str(picture))
    if not hasattr(picture, "pixels"):
        name = getattr(picture, "id", type(picture).__name__)
        raise UserError(f"{name}: this is not a picture; use data with pictures, or another reader (task.input)")
    return picture
