"""Decodes picture files to arrays (height, width, channels), with Pillow, an optional dependency; plain PNG files are
read without it.

A format is detected by a file's first bytes, never by its name. The header is read first, so that a small file that
would expand to a huge picture is refused before it is decoded. Damaged or truncated files, and files that are not
pictures, raise a UserError.
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
"""The most pixels of a picture: 200 MB of RGB."""
ORIENTATION = 0x0112
"""EXIF's tag for the orientation of the camera."""
GREYS = (19595, 38470, 7471)
"""Weights of red, green and blue in grey, in units of 1 / 65,536 (ITU-R BT.601)."""

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
"""Pillow's readers by the first bytes of files. Its other readers are not used: some pass the file to other
programs."""
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
"""Endings of picture file names, for searching a folder."""


class Size(NamedTuple):
    height: int
    width: int


def decode_picture(data: bytes, name: str, mode: Mode = "rgb") -> np.ndarray:
    """Decode a picture to pixels (height, width, 3) in RGB, or (height, width, 1) in grey, from 0 to 255, upright.

    Transparent pixels are blended with white; an animation gives its first frame; 16 bits become 8. `name` stands for
    the picture in error messages.
    """
    if mode not in CHANNELS:
        raise unknown("picture mode", mode, CHANNELS)
    pixels = decoded_plain(data, name) if not has_pillow() else decoded(data, name)
    return np.array(in_mode(pixels, mode), order="C")  # a copy, since Pillow's memory is read-only


def size_of(file: BinaryIO, name: str) -> Size:
    """Return the height and width that `decode_picture` gives, reading only the header of an open file."""
    if not has_pillow():
        header = plain_header(file.read(LARGEST_WHOLE), name)
        return Size(header.height, header.width)
    image = opened(file, name)
    width, height = image.size
    return Size(width, height) if orientation_of(image) >= 5 else Size(height, width)


def decoded(data: bytes, name: str) -> np.ndarray:
    """Decode a picture with Pillow to bytes (height, width, 1 or 3)."""
    image = opened(io.BytesIO(data), name)
    orientation = orientation_of(image)
    try:
        with quiet():
            image.load()
            check_size(image.size, name)
            return upright(pixels_of(image, name), orientation)
    except (UserError, MemoryError):
        raise
    except Exception as error:  # Pillow raises many kinds of exceptions for damaged files
        raise damaged(name, error) from None


def opened(file: BinaryIO, name: str) -> Any:
    """Open a file with Pillow and check its header; nothing is decoded yet."""
    start = file.read(12)
    file.seek(0)
    if not start:
        raise UserError(f"{name}: the file is empty; use a picture file")
    plugin = next((plugin for beginning, plugin in PLUGINS.items() if start.startswith(beginning)), None)
    if plugin is None or (start.startswith(b"RIFF") and start[8:] != b"WEBP"):
        raise UserError(f"{name}: this is not a picture in a known format ({KINDS}); it begins with {shown(start)}")
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
    """Return the bytes (height, width, channels) of an image that Pillow has decoded."""
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise UserError(
                f"{name}: its pixels are 32-bit integers, whose value for white is not defined; save it with 8 or 16"
                " bits"
            )
        return ((values * 255 + 32767) // 65535).astype(np.uint8)[..., None]
    if image.mode == "F":
        raise UserError(
            f"{name}: its pixels are floats, whose value for white is not defined; save it with 8 or 16 bits"
        )
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
    """Return a picture's EXIF orientation, from 1 (upright) to 8; 1 if the tag is damaged, and for TIFF files, which
    Pillow turns itself."""
    if image.format == "TIFF":
        return 1
    try:
        with quiet():  # not image.getexif(), which decodes a whole PNG to search behind its pixels
            orientation = import_module("PIL.Image").Image.getexif(image).get(ORIENTATION, 1)
    except Exception:
        return 1
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


def upright(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Turn and mirror a picture by its EXIF orientation; from 5 on, rows and columns are swapped."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return pixels


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress Pillow's warnings about damaged metadata: the pixels are read anyway, or the file is refused."""
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
    """Return the header of a file that can be read without Pillow."""
    try:
        is_readable = data.startswith(PNG) and is_plain(data)
    except ValueError as error:
        raise damaged(name, error) from None
    if not is_readable:
        raise UserError(
            f"{name}: reading this picture needs Pillow, which is not installed; run `pip install 'clew[pictures]'`"
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
            f"{name}: the picture has no pixels ({height} x {width}), so it is damaged; copy it again, or leave it out"
        )
    if width * height > LARGEST_PICTURE:
        raise UserError(
            f"{name}: the picture has {height:,} x {width:,} pixels, more than the limit of {LARGEST_PICTURE:,}; scale"
            " it down first"
        )


def damaged(name: str, error: Exception) -> UserError:
    reason = str(error).strip() or type(error).__name__
    return UserError(f"{name}: the picture is damaged or truncated ({reason:.200}); copy it again, or leave it out")
