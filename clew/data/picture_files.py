"""Pictures as tensors of bytes (height, width, channels): files, members of archives, drawn ones. Knows no format: see picture_decoding."""

from pathlib import Path

import torch
from torch import Tensor

from clew.data.examples import Picture
from clew.data.picture_decoding import Mode, Size
from clew.data.pictures import PictureRef
from clew.data.resizing import resized


def read_picture(picture: Picture | Path | str, *, shape: tuple[int, int] | None = None, mode: Mode = "rgb") -> Tensor:
    """The pixels (height, width, 3) of RGB, or (height, width, 1) of grey, from 0 to 255, upright; resized to a `shape`.

    Transparent pixels are laid on white; of an animation it is the first frame; 16 bits become 8.
    """
    pixels = torch.from_numpy(as_picture(picture).pixels(mode))
    return pixels if shape is None else resized(pixels, *shape)


def picture_size(picture: PictureRef | Path | str) -> Size:
    """A picture's height and width as `read_picture` gives it, from its header alone."""
    return (PictureRef(str(picture)) if isinstance(picture, (Path, str)) else picture).size()


def as_picture(picture: Picture | Path | str) -> Picture:
    return PictureRef(str(picture)) if isinstance(picture, (Path, str)) else picture
