import struct
import zlib

import numpy as np
import pytest

from clew.drawing.png import png


def decoded(content: bytes) -> tuple[np.ndarray, int]:
    """Pixels and colour type of a picture whose lines have no filter, read as the specification has it."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert depth == 8 and not lines[:, 0].any() and list(chunks)[-1] == b"IEND"
    return lines[:, 1:].reshape(height, width, -1), colour


def test_pixels_are_the_levels() -> None:
    levels = np.arange(6, dtype=np.uint8).reshape(2, 3) * 50
    pixels, colour = decoded(png(levels))
    assert colour == 0 and (pixels[..., 0] == levels).all()


def test_what_has_no_value_is_clear() -> None:
    shown = np.array([[True, False], [False, True]])
    pixels, colour = decoded(png(np.full((2, 2), 9), shown))
    assert colour == 4 and (pixels[..., 1] == np.where(shown, 255, 0)).all() and (pixels[..., 0] == 9).all()


def test_colours_are_kept() -> None:
    colours = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
    pixels, colour = decoded(png(colours))
    assert colour == 2 and (pixels == colours).all()


def test_another_reader_sees_the_same() -> None:
    image = pytest.importorskip("PIL.Image")
    from io import BytesIO

    levels = np.random.default_rng(0).integers(0, 256, (40, 70), dtype=np.uint8)
    assert (np.asarray(image.open(BytesIO(png(levels)))) == levels).all()
    colours = np.random.default_rng(1).integers(0, 256, (4, 7, 3), dtype=np.uint8)
    assert (np.asarray(image.open(BytesIO(png(colours)))) == colours).all()
