"""Reads plain PNG files without Pillow: 8-bit grey or RGB, not interlaced (PNG specification, third edition, W3C)."""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

PNG = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3}
"""Number of channels by PNG colour type: grey and RGB."""


class Header(NamedTuple):
    width: int
    height: int
    bits: int
    colour: int
    compression: int
    filtering: int
    interlaced: int


def png_header(data: bytes) -> Header:
    """Read the header; raise ValueError if the file is damaged."""
    kind, content = next(chunks(data), (b"", b""))
    if kind != b"IHDR" or len(content) != 13:
        raise ValueError("no header")
    return Header(*struct.unpack(">IIBBBBB", content))


def is_plain(data: bytes) -> bool:
    header = png_header(data)
    return (
        header.bits == 8
        and header.colour in CHANNELS
        and header.interlaced == 0
        and all(kind != b"tRNS" for kind, _ in chunks(data))
    )


def read_plain_png(data: bytes) -> np.ndarray:
    """Return the bytes (height, width, channels) of a plain file; raise ValueError if it is damaged."""
    header = png_header(data)
    channels = CHANNELS[header.colour]
    length = 1 + header.width * channels
    packed = b"".join(content for kind, content in chunks(data) if kind == b"IDAT")
    try:
        filtered = zlib.decompressobj().decompress(packed, header.height * length + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(filtered) != header.height * length:
        raise ValueError(f"{len(filtered):,} bytes of pixels instead of {header.height * length:,}")
    lines = np.frombuffer(filtered, np.uint8).reshape(header.height, length)
    pixels = np.zeros((header.height, header.width, channels), np.uint8)
    above = np.zeros((header.width, channels), np.uint8)
    for row, line in enumerate(lines):
        above = pixels[row] = unfiltered(int(line[0]), line[1:].reshape(-1, channels), above)
    return pixels


def chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the type and content of every chunk up to the last, IEND."""
    place = len(PNG)
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8].ljust(8, b"\0"))
        content, checksum = data[place + 8 : place + 8 + length], data[place + 8 + length : place + 12 + length]
        if len(checksum) != 4 or struct.unpack(">I", checksum)[0] != zlib.crc32(kind + content):
            raise ValueError(f"the chunk at byte {place:,} is truncated or damaged")
        yield kind, content
        if kind == b"IEND":
            return
        place += 12 + length
    raise ValueError("the end is missing")


def unfiltered(kind: int, line: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Reverse a line's PNG filter: add the prediction that was subtracted from each pixel (width, channels), modulo
    256."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if kind == 2:
        return line + above
    if kind not in (3, 4):
        raise ValueError(f"unknown filter {kind}")
    pixels = np.zeros_like(line)
    for channel in range(line.shape[1]):
        left = corner = 0
        for place, (value, up) in enumerate(zip(line[:, channel].tolist(), above[:, channel].tolist(), strict=True)):
            left = (value + ((left + up) // 2 if kind == 3 else paeth(left, up, corner))) % 256
            pixels[place, channel], corner = left, up
    return pixels


def paeth(left: int, above: int, corner: int) -> int:
    """Return the neighbour nearest to left + above - corner; ties go to left, then above."""
    guess = left + above - corner
    return min((left, above, corner), key=lambda value: abs(guess - value))
