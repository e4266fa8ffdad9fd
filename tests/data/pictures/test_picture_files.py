"""Pictures of every kind are read like Pillow's own conversions; unreadable files are rejected with their name."""

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from clew.core.errors import UserError
from clew.data.pictures import picture_decoding
from clew.data.pictures.picture_decoding import decode_picture
from clew.data.pictures.picture_files import picture_size, read_picture
from tests.data.pictures.written_pictures import encoded, pixels, png_of, write_picture
from tests.data.written import refusal, write

LOSSLESS = ["PNG", "BMP", "TIFF", "WEBP", "PPM"]


@pytest.mark.parametrize("format", LOSSLESS)
def test_lossless_formats_are_read_exactly(format: str, tmp_path: Path) -> None:
    array = pixels(5, 9)
    picture = read_picture(write_picture(tmp_path / "a", array, format))
    assert picture.dtype == torch.uint8 and np.array_equal(picture.numpy(), array)


@pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_from_a_turned_camera_is_read_upright(format: str, orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = write_picture(tmp_path / "a", pixels(5, 9), format, exif=exif)
    picture = read_picture(path)
    assert np.array_equal(picture.numpy(), np.asarray(ImageOps.exif_transpose(Image.open(path))))
    assert tuple(picture.shape[:2]) == picture_size(path) == ((9, 5) if orientation >= 5 else (5, 9))


def test_damaged_camera_metadata_are_ignored(tmp_path: Path) -> None:
    array = pixels(4, 6)
    path = write_picture(tmp_path / "a.png", array, exif=b"Exif\0\0II*\0\xff\xff\xff\xff broken")
    assert np.array_equal(read_picture(path).numpy(), array) and picture_size(path) == (4, 6)


@pytest.mark.parametrize(
    ("format", "mode"),
    [
        *(("TIFF", mode) for mode in ("1", "L", "P", "RGB", "CMYK", "YCbCr")),
        *(("JPEG", mode) for mode in ("1", "L", "RGB", "CMYK", "YCbCr")),
        *((format, mode) for format in ("PNG", "GIF") for mode in ("1", "L", "P", "RGB")),
    ],
)
def test_every_colour_mode_is_converted_to_rgb_and_grey(format: str, mode: str) -> None:
    data = encoded(pixels(5, 9), format, mode=mode)
    expected = Image.open(io.BytesIO(data)).convert("RGB")
    assert np.array_equal(decode_picture(data, "a"), np.asarray(expected))
    grey = decode_picture(data, "a", mode="grey")
    assert np.array_equal(grey, np.asarray(expected.convert("L"))[..., None])


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
def test_transparent_pixels_are_blended_with_white(mode: str) -> None:
    layers = pixels(6, 7, 4)
    image = Image.fromarray(layers).convert(mode)
    data = encoded(layers, "TIFF" if mode == "PA" else "PNG", mode=mode)
    colours = np.asarray(image.convert("RGBA")).astype(float)
    alpha = colours[..., 3:] / 255
    expected = colours[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(decode_picture(data, "a") - expected).max() <= 0.5 + 1e-9


def test_a_transparent_palette_colour_is_white() -> None:
    image = Image.new("P", (2, 2))
    image.putdata([0, 1, 1, 0])
    image.putpalette([10, 20, 30, 40, 50, 60])
    file = io.BytesIO()
    image.save(file, "GIF", transparency=1)
    assert decode_picture(file.getvalue(), "a").tolist() == [[[10, 20, 30], [255] * 3], [[255] * 3, [10, 20, 30]]]


def test_sixteen_bit_levels_are_reduced_to_eight() -> None:
    levels = np.array([[0, 1, 128, 129], [257, 32767, 32768, 65535]], np.uint16)
    for format in ("PNG", "TIFF"):
        levels_read = decode_picture(encoded(levels, format), "a", mode="grey")[..., 0]
        assert np.array_equal(levels_read, np.rint(levels / 257).astype(np.uint8))
    colours = decode_picture(png_of((1, 1, 16, 2, 0, 0, 0), b"\0\x12\x34\xff\xff\0\0"), "a")
    assert colours.tolist() == [[[0x12, 255, 0]]]


def test_pixels_without_a_defined_white_are_rejected() -> None:
    assert refusal(lambda: decode_picture(encoded(np.full((2, 2), 70000, np.int32), "TIFF"), "a.tif")) == (
        "a.tif: its pixels are 32-bit integers, whose value for white is not defined; save it with 8 or 16 bits"
    )
    assert refusal(lambda: decode_picture(encoded(np.ones((2, 2), np.float32), "TIFF"), "a.tif")).startswith(
        "a.tif: its pixels are floats, whose value for white is not defined"
    )


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_frame_of_an_animation_is_read(format: str, tmp_path: Path) -> None:
    first, second = np.full((3, 4, 3), 255, np.uint8), np.zeros((3, 4, 3), np.uint8)
    path = write_picture(tmp_path / "a", first, format, save_all=True, append_images=[Image.fromarray(second)])
    assert np.array_equal(read_picture(path).numpy(), first)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 5000), (5000, 1), (2, 3)])
def test_the_smallest_and_the_longest_are_read_and_resized(height: int, width: int, tmp_path: Path) -> None:
    array = pixels(height, width)
    path = write_picture(tmp_path / "a.png", array)
    assert np.array_equal(read_picture(path).numpy(), array) and picture_size(path) == (height, width)
    mean = read_picture(path, shape=(1, 1), mode="grey")
    expected = decode_picture(path.read_bytes(), "a", mode="grey").mean()
    assert mean.shape == (1, 1, 1) and abs(float(mean) - expected) <= (1 if min(height, width) == 1 else 20)


def test_the_format_is_detected_from_the_content_not_the_name(tmp_path: Path) -> None:
    array = pixels(4, 5)
    for format in LOSSLESS:
        assert np.array_equal(read_picture(write_picture(tmp_path / f"{format}.jpg", array, format)).numpy(), array)


TEXT = "this is not a picture in a known format (PNG, JPEG, GIF, BMP, TIFF, WebP or PPM); it begins with b'"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the file is empty; use a picture file"),
        (b"Hello, world\n", TEXT + "Hello, world'"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', TEXT + "<svg xmlns=\"'"),
        (b"RIFF\x24\0\0\0WAVEfmt ", TEXT + "RIFF$\\x00\\x00\\x00WAVE'"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", TEXT + "%!PS-Adobe-3'"),
        (b"\x89PNG\r\n\x1a\n", "the picture is damaged or truncated ("),
        (png_of((0, 4, 8, 0, 0, 0, 0), b""), "the picture is damaged or truncated ("),
    ],
    ids=["empty", "text", "drawing", "sound", "PostScript", "beginning", "without pixels"],
)
def test_files_that_are_not_pictures_are_rejected(content: bytes, sentence: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jpg", content)
    for reader in (read_picture, picture_size):
        assert refusal(lambda reader=reader: reader(path)).startswith(f"{path}: {sentence}")  # type: ignore[misc]


@pytest.mark.parametrize("format", ["PNG", "GIF", "BMP", "TIFF", "JPEG", "PPM"])
def test_a_gigantic_picture_is_refused_before_it_is_decoded(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if format == "PNG":
        data = png_of((60_000, 50_000, 8, 2, 0, 0, 0), b"\0" * 100)
    elif format == "PPM":
        data = b"P6\n60000 50000\n255\n"
    elif format == "BMP":
        data = bytearray(encoded(pixels(2, 2), "BMP"))
        data[18:26] = (60_000).to_bytes(4, "little") + (50_000).to_bytes(4, "little")
    elif format == "GIF":
        data = bytearray(encoded(pixels(2, 2), "GIF"))
        data[6:10] = (60_000).to_bytes(2, "little") + (50_000).to_bytes(2, "little")
    else:  # as large as the limit allows, and the limit one lower
        data = encoded(np.zeros((50, 60, 3), np.uint8), format)
        monkeypatch.setattr(picture_decoding, "LARGEST_PICTURE", 2999)
        assert refusal(lambda: decode_picture(bytes(data), "a")) == (
            "a: the picture has 50 x 60 pixels, more than the limit of 2,999; scale it down first"
        )
        return
    assert refusal(lambda: decode_picture(bytes(data), "a")) == (
        "a: the picture has 50,000 x 60,000 pixels, more than the limit of 67,108,864; scale it down first"
    )


def test_a_folder_a_pipe_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pipe.jpg").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "pipe.jpg")
    for reader in (read_picture, picture_size):
        assert refusal(lambda reader=reader: reader(tmp_path)).startswith(
            f"{tmp_path}: this is a folder; name a file in it"
        )  # type: ignore[misc]
        assert refusal(lambda reader=reader: reader(tmp_path / "pipe.jpg")).startswith(  # type: ignore[misc]
            f"{tmp_path / 'pipe.jpg'}: this is a pipe or a device"
        )
        assert refusal(lambda reader=reader: reader(tmp_path / "b.jpg")).startswith(
            f"no such file: {tmp_path / 'b.jpg'}"
        )  # type: ignore[misc]


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UserError, match="unknown picture mode 'gray'; did you mean 'grey'\\? known: grey, rgb"):
        decode_picture(encoded(pixels(2, 2), "PNG"), "a", mode="gray")  # type: ignore[arg-type]


def without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "PIL" or name.startswith("PIL.")]:
        monkeypatch.setitem(sys.modules, name, None)


def test_without_pillow_plain_png_files_are_read_and_others_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    array = pixels(7, 5)
    plain, grey = write_picture(tmp_path / "a.png", array), write_picture(tmp_path / "g.png", pixels(7, 5, 1))
    paths = [write_picture(tmp_path / "a.jpg", array, "JPEG"), write_picture(tmp_path / "b.png", pixels(7, 5, 4))]
    broken = write(tmp_path / "c.png", plain.read_bytes()[:-20])
    huge = write(tmp_path / "d.png", png_of((60_000, 50_000, 8, 2, 0, 0, 0), b"\0" * 100))
    empty = write(tmp_path / "e.png", png_of((0, 4, 8, 0, 0, 0, 0), b""))
    without_pillow(monkeypatch)
    assert np.array_equal(read_picture(plain).numpy(), array) and picture_size(plain) == (7, 5)
    assert np.array_equal(read_picture(grey, mode="grey").numpy()[..., 0], pixels(7, 5, 1))
    for path in paths:
        for reader in (read_picture, picture_size):
            assert refusal(lambda reader=reader, path=path: reader(path)) == (  # type: ignore[misc]
                f"{path}: reading this picture needs Pillow, which is not installed; run `pip install 'clew[pictures]'`"
            )
    assert refusal(lambda: read_picture(broken)).startswith(f"{broken}: the picture is damaged or truncated (")
    assert "more than the limit of 67,108,864" in refusal(lambda: read_picture(huge))
    assert refusal(lambda: read_picture(empty)).startswith(
        f"{empty}: the picture has no pixels (4 x 0), so it is damaged; copy it again, or leave it out"
    )


CORRUPTIONS: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    **{
        f"cut at {share} %": lambda data, _, share=share: data[: len(data) * share // 100]
        for share in (1, 5, 10, 25, 40, 50, 60, 75)
    },  # type: ignore[misc]
    "without its last byte": lambda data, _: data[:-1],
    "with a flipped bit": lambda data, random: flipped(data, random, 1),
    "with ten flipped bits": lambda data, random: flipped(data, random, 10),
    "with flipped bits everywhere": lambda data, random: flipped(data, random, len(data) // 8),
    "with a hole": lambda data, _: data[: len(data) // 3] + data[len(data) // 2 :],
    "with zeros in the middle": lambda data, _: data[: len(data) // 3] + bytes(len(data) // 6) + data[len(data) // 2 :],
    "with a header of nines": lambda data, _: data[:8] + b"\x99" * 24 + data[32:],
    "of its first bytes and noise": lambda data, random: data[:40] + random.bytes(2000),
    "behind another's beginning": lambda data, _: b"\x89PNG\r\n\x1a\n" + data,
    "with text behind it": lambda data, _: data + b"and so on\n" * 20,
    "twice": lambda data, _: data + data,
    "backwards": lambda data, _: data[::-1],
}


def flipped(data: bytes, random: np.random.Generator, count: int) -> bytes:
    content = bytearray(data)
    for place in random.integers(4, len(content), count):
        content[place] ^= 1 << int(random.integers(8))
    return bytes(content)


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("format", [*LOSSLESS, "JPEG", "GIF"])
def test_a_corrupted_picture_is_read_or_refused_with_a_sentence(format: str, corruption: str, tmp_path: Path) -> None:
    whole = encoded(pixels(24, 31), format)
    data = CORRUPTIONS[corruption](whole, np.random.default_rng(len(corruption)))
    path = write(tmp_path / "a.jpg", data)
    try:
        picture = read_picture(path)
    except UserError as error:
        sentence = str(error)
        assert sentence.startswith(f"{path}: ") and "\n" not in sentence and len(sentence) < len(str(path)) + 350
        assert corruption not in ("with text behind it", "twice")
    else:
        assert picture.dtype == torch.uint8 and picture.dim() == 3 and picture.shape[-1] == 3
        assert not corruption.startswith("cut at") and corruption not in ("behind another's beginning", "backwards")
        if corruption in ("with text behind it", "twice"):
            assert np.array_equal(picture.numpy(), decode_picture(whole, "whole"))
        assert tuple(picture.shape[:2]) == picture_size(path)
