"""Write picture files for tests."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.data.written import write


def pixels(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """Random pixels; with one channel, (height, width)."""
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    return noise[..., 0] if channels == 1 else noise


def encoded(array: np.ndarray, format: str, *, mode: str | None = None, **options: Any) -> bytes:
    """The bytes of an array as a picture file, in any format that Pillow writes."""
    image = Image.fromarray(array)
    file = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(
        file, format, **({"lossless": True} if format == "WEBP" else {}), **options
    )
    return file.getvalue()


def write_picture(path: Path, array: np.ndarray, format: str = "PNG", **options: Any) -> Path:
    return write(path, encoded(array, format, **options))


def png_of(header: tuple[int, ...], lines: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """The bytes of a PNG file with any header, lines and further chunks."""
    parts = [(b"IHDR", struct.pack(">IIBBBBB", *header)), *more, (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
