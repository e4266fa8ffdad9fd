"""Writes arrays as PNG files, using only zlib (PNG specification, third edition, W3C)."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np


def png(levels: np.ndarray, shown: np.ndarray | None = None) -> bytes:
    """An 8-bit picture of levels (rows, columns), grey, or (rows, columns, 3), in colour; transparent where `shown` is
    False."""
    rows, columns = levels.shape[:2]
    kind = (0 if levels.ndim == 2 else 2) + (0 if shown is None else 4)  # 2: colour, 4: with an alpha channel
    channels = np.asarray(levels, dtype=np.uint8).reshape(rows, columns, -1)
    if shown is not None:
        channels = np.concatenate([channels, np.where(shown, 255, 0).astype(np.uint8)[..., None]], axis=-1)
    pixels = channels.reshape(rows, -1)
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), pixels], axis=1)  # filter type 0 before every line
    header = struct.pack(">IIBBBBB", columns, rows, 8, kind, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


def palette_png(numbers: np.ndarray, colours: Sequence[str]) -> bytes:
    """A picture of numbers (rows, columns) below 256, each in its colour (#rrggbb); colours repeat if there are too
    few."""
    rows, columns = numbers.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), np.asarray(numbers, dtype=np.uint8)], axis=1)
    palette = b"".join(
        bytes.fromhex(colours[number % len(colours)][1:]) for number in range(int(numbers.max(initial=0)) + 1)
    )
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
