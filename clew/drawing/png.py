"""PNG files from arrays, with zlib alone (PNG specification, third edition, W3C)."""

import struct
import zlib

import numpy as np

GREY, COLOURS, GREY_AND_CLEAR = 0, 2, 4
"""Types of pixels, by the specification's numbers."""


def png(levels: np.ndarray, shown: np.ndarray | None = None) -> bytes:
    """An 8-bit picture of (rows, columns) levels, or of colours (rows, columns, 3); where `shown` is False, levels are clear."""
    rows, columns = levels.shape[:2]
    grey = np.asarray(levels, dtype=np.uint8)
    if levels.ndim == 3:
        return written(grey.reshape(rows, -1), columns, COLOURS)
    pixels = grey if shown is None else np.stack([grey, np.where(shown, 255, 0).astype(np.uint8)], axis=-1).reshape(rows, -1)
    return written(pixels, columns, GREY if shown is None else GREY_AND_CLEAR)


def written(pixels: np.ndarray, columns: int, kind: int) -> bytes:
    rows = len(pixels)
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), pixels], axis=1)  # filter 0 before every line
    header = struct.pack(">IIBBBBB", columns, rows, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)) + chunk(b"IEND", b"")


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
