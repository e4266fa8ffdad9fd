"""Label pictures: PNG files whose grey levels or palette indices are the labels of the pixels. Read without Pillow,
which would return a palette's colours instead of its indices."""

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clew.core.errors import UserError
from clew.core.files import read_bytes
from clew.data.lines import check_file
from clew.data.pictures.png_files import PNG, chunks, png_header, unfiltered

GREY, PALETTE = 0, 3
"""PNG colour types whose pixels are single numbers."""


class LabelFile(NamedTuple):
    """The label picture at a path, a `PixelLabels`."""

    path: str

    def levels(self) -> np.ndarray:
        path = Path(self.path).expanduser()
        check_file(path)
        try:
            return read_levels(read_bytes(path), self.path)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_levels(data: bytes, place: str) -> np.ndarray:
    """Return the stored number of each pixel (height, width): its grey level or palette index."""
    if not data.startswith(PNG):
        raise UserError(f"{place}: a label picture must be a PNG file, but this is not; save it as PNG")
    try:
        header = png_header(data)
        if header.colour not in (GREY, PALETTE) or header.bits > 8 or header.interlaced:
            raise UserError(
                f"{place}: a label picture must be a grey or palette PNG of at most 8 bits, not interlaced, but this"
                f" one has colour type {header.colour} with {header.bits}"
                f" bits{', interlaced' if header.interlaced else ''}; convert it"
            )
        return unpacked(data, header.width, header.height, header.bits)
    except (ValueError, zlib.error) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{place}: the PNG file is damaged: {error}; copy it again") from None


def unpacked(data: bytes, width: int, height: int, bits: int) -> np.ndarray:
    """Unpack pixels of `bits` bits each. A byte holds several, the first in the highest bits."""
    length = -(-width * bits // 8)
    packed = b"".join(content for kind, content in chunks(data) if kind == b"IDAT")
    filtered = zlib.decompressobj().decompress(packed, height * (1 + length) + 1)
    if len(filtered) != height * (1 + length):
        raise ValueError(f"{len(filtered):,} bytes of pixels instead of {height * (1 + length):,}")
    lines = np.frombuffer(filtered, np.uint8).reshape(height, 1 + length)
    above, rows = np.zeros((length, 1), np.uint8), np.zeros((height, length), np.uint8)
    for row, line in enumerate(lines):
        above = unfiltered(int(line[0]), line[1:, None], above)
        rows[row] = above[:, 0]
    shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    numbers: np.ndarray = (rows[:, :, None] >> shifts & (2**bits - 1)).reshape(height, -1)[:, :width]
    return numbers


def cell_levels(levels: np.ndarray, size: int, ignored: int | None = None) -> np.ndarray:
    """Return the most frequent number in each square of `size` x `size` pixels (rows, columns).

    Of equally frequent numbers, take the lowest; -1 if all pixels of a square are `ignored`.
    """
    rows, columns = (-(-side // size) for side in levels.shape)
    whole = np.full((rows * size, columns * size), -1, np.int64)
    whole[: levels.shape[0], : levels.shape[1]] = (
        levels if ignored is None else np.where(levels == ignored, -1, levels.astype(np.int64))
    )
    squares = whole.reshape(rows, size, columns, size).swapaxes(1, 2).reshape(rows, columns, -1)
    present = np.unique(whole)
    present = present[present >= 0]
    if not len(present):
        return np.full((rows, columns), -1)
    counts = np.stack([(squares == level).sum(-1) for level in present], -1)
    most_frequent: np.ndarray = np.where(counts.any(-1), present[counts.argmax(-1)], -1)
    return most_frequent
