"""Plain PNG files are read without Pillow exactly as Pillow reads them, with any line filter."""

import io

import numpy as np
import pytest
from PIL import Image

from clew.data.pictures.png_files import is_plain, read_plain_png
from clew.drawing.png import png
from tests.data.pictures.written_pictures import encoded, pixels, png_of


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize("channels", [1, 3])
def test_every_line_filter_is_read_as_pillow_reads_it(kind: int, channels: int) -> None:
    random = np.random.default_rng(kind)
    lines = random.integers(0, 256, (11, 1 + 13 * channels), dtype=np.uint8)
    lines[:, 0] = [kind, *random.integers(0, 5, 9), kind]
    data = png_of((13, 11, 8, 0 if channels == 1 else 2, 0, 0, 0), lines.tobytes())
    assert is_plain(data)
    expected = np.asarray(Image.open(io.BytesIO(data))).reshape(11, 13, channels)
    assert np.array_equal(read_plain_png(data), expected)


def test_files_written_by_clew_and_pillow_are_read_back() -> None:
    levels = pixels(6, 9, 1)
    assert np.array_equal(read_plain_png(png(levels))[..., 0], levels)
    photograph = np.cumsum(np.cumsum(pixels(40, 30), 0, np.uint8), 1, np.uint8)
    assert np.array_equal(read_plain_png(encoded(photograph, "PNG", optimize=True)), photograph)


def test_other_kinds_of_png_are_not_plain() -> None:
    layers = pixels(3, 4, 4)
    assert not is_plain(encoded(layers, "PNG"))
    assert not is_plain(encoded(layers[..., 0], "PNG", mode="P"))
    assert not is_plain(encoded(np.zeros((2, 2), np.uint16), "PNG"))
    assert not is_plain(png_of((2, 1, 8, 0, 0, 0, 1), bytes(3)))
    assert not is_plain(png_of((2, 1, 8, 0, 0, 0, 0), bytes(3), (b"tRNS", b"\0\0")))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (png_of((2, 2, 8, 0, 0, 0, 0), bytes(5)), "5 bytes of pixels instead of 6"),
        (png_of((2, 2, 8, 0, 0, 0, 0), bytes(10**6)), "7 bytes of pixels instead of 6"),
        (png_of((2, 2, 8, 0, 0, 0, 0), b"\7\0\0\0\0\0"), "unknown filter 7"),
        (encoded(pixels(3, 3), "PNG")[:-12], "the end is missing"),
        (encoded(pixels(3, 3), "PNG")[:-14], "the chunk at byte .* is truncated or damaged"),
        (b"\x89PNG\r\n\x1a\n", "the end is missing"),
    ],
)
def test_a_damaged_file_is_reported(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_plain_png(data)
