"""Arrays of bytes in the IDX format of MNIST (LeCun): two zero bytes, the type, the number of axes, the length of each
axis, then the values."""

import struct
from functools import lru_cache
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clew.core.errors import UserError
from clew.core.memory import check_memory
from clew.data.lines import naming_errors, open_bytes
from clew.data.pictures.picture_decoding import Mode, in_mode

BYTES = 8
"""The code of the only type that is read: unsigned bytes."""


def read_idx(path: Path) -> np.ndarray:
    """Read the array of a file, which may be gzipped."""
    with naming_errors(path), open_bytes(path) as file:
        start = file.read(4)
        if len(start) < 4 or start[:2] != b"\0\0" or not 1 <= start[3] <= 4:
            raise UserError(
                f"{path}: not an IDX file, which begins with two zero bytes, a type and a number of axes; give another"
                " file"
            )
        if start[2] != BYTES:
            raise UserError(
                f"{path}: its values have the type 0x{start[2]:02x}, and only bytes (0x08) are read; give another file"
            )
        lengths = file.read(4 * start[3])
        if len(lengths) < 4 * start[3]:
            raise UserError(f"{path}: the file ends within its header; copy it again")
        shape = struct.unpack(f">{start[3]}I", lengths)
        check_memory(prod(shape), f"{path}: an array of {' x '.join(map(str, shape))} bytes", "give another file")
        content = file.read(prod(shape) + 1)
    if len(content) != prod(shape):
        size = "more" if len(content) > prod(shape) else f"{len(content):,}"
        raise UserError(
            f"{path}: the header says {' x '.join(map(str, shape))} bytes, but the file has {size}; copy it again"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


@lru_cache(maxsize=4)
def cached_idx(path: str) -> np.ndarray:
    return read_idx(Path(path))


class IdxPicture(NamedTuple):
    """Picture `number` of an IDX file (pictures, height, width); `digest` is the hash of its pixels."""

    path: str
    number: int
    digest: str

    @property
    def key(self) -> str:
        return self.digest

    def pixels(self, mode: Mode = "rgb") -> np.ndarray:
        return in_mode(cached_idx(self.path)[self.number][..., None], mode).copy()


def idx_pictures(path: Path) -> list[IdxPicture]:
    """Return the greyscale pictures of a file."""
    array = cached_idx(str(path))
    if array.ndim != 3 or 0 in array.shape:
        raise UserError(
            f"{path}: expected pictures (pictures, height, width), found {' x '.join(map(str, array.shape))} bytes;"
            " give another file"
        )
    return [
        IdxPicture(str(path), number, blake2b(pixels.tobytes(), digest_size=12).hexdigest())
        for number, pixels in enumerate(array)
    ]
