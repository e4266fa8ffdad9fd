"""The bytes of a picture file as an array (height, width, channels), by Pillow, an extra; plain PNG files are read
without it.

A format is told by a file's first bytes, never by its name. The header is read first: a small file that would become a
picture of any size is refused before it is decoded. What is damaged, cut off or no picture is refused with a sentence.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from clew.core.errors import UserError, shown, unknown
from clew.core.files import LARGEST_WHOLE
from clew.data.pictures.png_files import PNG, is_plain, png_header, read_plain_png

Mode = Literal["rgb", "grey"]
CHANNELS = {"rgb": 3, "grey": 1}

LARGEST_PICTURE = 2**26
"""Pixels of a picture at most: 200 MB of RGB."""
ORIENTATION = 0x0112
"""EXIF's number for how a camera was held."""
GREYS = (19595, 38470, 7471)
"""Of red, green and blue in 65,536 parts of grey (ITU-R BT.601)."""

PLUGINS = {
    PNG: ("PngImagePlugin", "PngImageFile"),
    b"\xff\xd8\xff": ("JpegImagePlugin", "JpegImageFile"),
    b"GIF8": ("GifImagePlugin", "GifImageFile"),
    b"BM": ("BmpImagePlugin", "BmpImageFile"),
    b"II*\0": ("TiffImagePlugin", "TiffImageFile"),
    b"MM\0*": ("TiffImagePlugin", "TiffImageFile"),
    b"RIFF": ("WebPImagePlugin", "WebPImageFile"),
    b"P5": ("PpmImagePlugin", "PpmImageFile"),
    b"P6": ("PpmImagePlugin", "PpmImageFile"),
}
"""Pillow's readers by how files begin. Its others are left alone: some hand a file to other programs."""
KINDS = "PNG, JPEG, GIF, BMP, TIFF, WebP or PPM"
ENDINGS = (
    ".png",
    ".jpg",
    ".jpeg",
    ".jpe",
    ".jfif",
    ".gif",
    ".bmp",
    ".dib",
    ".tif",
    ".tiff",
    ".webp",
    ".ppm",
    ".pgm",
    ".pnm",
)
"""Of the names of picture files, where a folder is looked through."""


class Size(NamedTuple):
    height: int
    width: int


def decode_picture(data: bytes, name: str, mode: Mode = "rgb") -> np.ndarray:
    """The pixels (height, width, 3) of RGB, or (height, width, 1) of grey, from 0 to 255, upright; `name` is what a
    sentence calls it.

    Transparent pixels are laid on white; of an animation it is the first frame; 16 bits become 8.
    """
    if mode not in CHANNELS:
        raise unknown("mode of a picture", mode, CHANNELS)
    pixels = decoded_plain(data, name) if not has_pillow() else decoded(data, name)
    return np.array(in_mode(pixels, mode), order="C")  # a copy: Pillow's memory may not be written


def size_of(file: BinaryIO, name: str) -> Size:
    """Height and width as `decode_picture` gives them, from the header of an open file alone."""
    if not has_pillow():
        header = plain_header(file.read(LARGEST_WHOLE), name)
        return Size(header.height, header.width)
    image = opened(file, name)
    width, height = image.size
    return Size(width, height) if orientation_of(image) >= 5 else Size(height, width)


def decoded(data: bytes, name: str) -> np.ndarray:
    """Bytes (height, width, 1 or 3), by Pillow."""
    image = opened(io.BytesIO(data), name)
    orientation = orientation_of(image)
    try:
        with quiet():
            image.load()
            check_size(image.size, name)
            return upright(pixels_of(image, name), orientation)
    except (UserError, MemoryError):
        raise
    except Exception as error:  # whatever a damaged file makes Pillow raise
        raise damaged(name, error) from None


def opened(file: BinaryIO, name: str) -> Any:
    """Pillow's image of a file whose header is right; nothing is decoded yet."""
    start = file.read(12)
    file.seek(0)
    if not start:
        raise UserError(f"{name}: the file is empty; give a picture")
    plugin = next((plugin for beginning, plugin in PLUGINS.items() if start.startswith(beginning)), None)
    if plugin is None or (start.startswith(b"RIFF") and start[8:] != b"WEBP"):
        raise UserError(f"{name}: this is no picture that can be read, which is {KINDS}; it begins with {shown(start)}")
    module, reader = plugin
    try:
        with quiet():
            image = getattr(import_module(f"PIL.{module}"), reader)(file)
    except MemoryError:
        raise
    except Exception as error:
        raise damaged(name, error) from None
    check_size(image.size, name)
    return image


def pixels_of(image: Any, name: str) -> np.ndarray:
    """Bytes (height, width, channels) of what Pillow has decoded."""
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise UserError(
                f"{name}: its pixels are numbers of 32 bits, which have no white; save it with 8 or 16 bits"
            )
        return ((values * 255 + 32767) // 65535).astype(np.uint8)[..., None]
    if image.mode == "F":
        raise UserError(f"{name}: its pixels are fractions, which have no white; save it with 8 or 16 bits")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        layers = np.asarray(image.convert("RGBA")).astype(np.int32)
        alpha = layers[..., 3:]
        return ((layers[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    return np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB")).reshape(image.height, image.width, -1)


def in_mode(pixels: np.ndarray, mode: Mode) -> np.ndarray:
    if pixels.shape[-1] == CHANNELS[mode]:
        return pixels
    if mode == "rgb":
        return np.repeat(pixels, 3, axis=-1)
    return ((pixels.astype(np.uint32) @ np.array(GREYS, np.uint32) + 2**15) >> 16).astype(np.uint8)[..., None]


def orientation_of(image: Any) -> int:
    """From 1, upright, to 8. TIFF files are turned by Pillow itself; where the note on it is damaged, a picture is
    taken as it is."""
    if image.format == "TIFF":
        return 1
    try:
        with quiet():  # not image.getexif(), which of a PNG decodes everything to look behind the pixels
            found = import_module("PIL.Image").Image.getexif(image).get(ORIENTATION, 1)
    except Exception:
        return 1
    return found if isinstance(found, int) and 1 <= found <= 8 else 1


def upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """A picture turned and mirrored as EXIF says: from 5 on rows are columns."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


@contextmanager
def quiet() -> Iterator[None]:
    """Without Pillow's own warnings on notes in a file that are damaged: the pixels are read all the same, or
    refused."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def has_pillow() -> bool:
    try:
        import_module("PIL.Image")
    except ModuleNotFoundError:
        return False
    return True


def plain_header(data: bytes, name: str) -> Any:
    """Of a file that is read without Pillow."""
    try:
        is_read = data.startswith(PNG) and is_plain(data)
    except ValueError as error:
        raise damaged(name, error) from None
    if not is_read:
        raise UserError(
            f"{name}: pictures are read with Pillow, which is not installed; `pip install 'clew[pictures]'`"
        )
    header = png_header(data)
    check_size((header.width, header.height), name)
    return header


def decoded_plain(data: bytes, name: str) -> np.ndarray:
    plain_header(data, name)
    try:
        return read_plain_png(data)
    except ValueError as error:
        raise damaged(name, error) from None


def check_size(size: tuple[int, int], name: str) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise UserError(
            f"{name}: a picture of {height} x {width} pixels has none; it is damaged, so copy it again, or leave it out"
        )
    if width * height > LARGEST_PICTURE:
        raise UserError(
            f"{name}: a picture of {height:,} x {width:,} pixels, and {LARGEST_PICTURE:,} in all are read at most;"
            " scale it down first"
        )


def damaged(name: str, error: Exception) -> UserError:
    reason = str(error).strip() or type(error).__name__
    return UserError(f"{name}: the picture is damaged or cut off ({reason:.200}); copy it again, or leave it out")
