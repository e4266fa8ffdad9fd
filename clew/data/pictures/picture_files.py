"""Pictures as tensors of bytes (height, width, channels): files, members of archives, drawn ones. Knows no format: see
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
    """The pixels (height, width, 3) of RGB, or (height, width, 1) of grey, from 0 to 255, upright; resized to a
    `shape`.

    Transparent pixels are laid on white; of an animation it is the first frame; 16 bits become 8.
    """
    pixels = torch.from_numpy(as_picture(picture).pixels(mode))
    return pixels if shape is None else resized(pixels, *shape)


@runtime_checkable
class HasHeader(Picture, Protocol):
    """A picture whose size is known before it is decoded: a file's."""

    def size(self) -> Size: ...


def has_header(picture: Picture | Path | str) -> bool:
    return isinstance(as_picture(picture), HasHeader)


def picture_size(picture: Picture | Path | str) -> Size:
    """A picture's height and width as `read_picture` gives it: from its header alone, or of one that is drawn from its
    pixels."""
    found = as_picture(picture)
    return found.size() if isinstance(found, HasHeader) else Size(*found.pixels().shape[:2])


def as_picture(picture: Picture | Path | str) -> Picture:
    if isinstance(picture, (Path, str)):
        return PictureRef(str(picture))
    if not hasattr(picture, "pixels"):
        name = getattr(picture, "id", type(picture).__name__)
        raise UserError(f"{name}: this is no picture; choose data of pictures, or another reader (task.input)")
    return picture
