"""WAV files, read without any other package: PCM of 8 to 32 bits, IEEE floats of 32 and 64, A-law and mu-law. Knows no
path.

A file is a list of chunks: an id of four bytes, a size, so many bytes, and one more where the size is odd. The chunk
`fmt ` says how samples are written, `data` has them; all others are passed over. A program that writes to a pipe cannot
go back and fill in the size of `data`: it leaves 0 or a number that no such file reaches, and the samples go on to the
end of the file.
"""

import os
import struct
from typing import BinaryIO, NamedTuple

import numpy as np

from clew.core.errors import UserError, shown

RIFF = (b"RIFF", b"RF64", b"BW64")
"""How a file may begin. The last two have sizes of 64 bits, in a chunk `ds64`."""
STREAMED = (0, 0x7FFFF000, 0x7FFFFFFF, 0xFFFFFFFF)
"""Sizes of `data` that stand for: to the end of the file."""
MOST_CHUNKS = 10_000
"""Before the samples; a file of zeros would have one every eight bytes."""
MOST_CHANNELS, HIGHEST_RATE = 1024, 10_000_000

EXTENSIBLE = 0xFFFE
GUID = bytes.fromhex("000000001000800000aa00389b71")
"""What stands behind the code of a codec in WAVE_FORMAT_EXTENSIBLE."""
CODECS = {1: "pcm", 3: "float", 6: "a-law", 7: "mu-law"}
WIDTHS = {"pcm": (1, 2, 3, 4), "float": (4, 8), "a-law": (1,), "mu-law": (1,)}
"""Bytes of a sample."""
OTHERS = {
    0x02: "Microsoft ADPCM",
    0x11: "IMA ADPCM",
    0x31: "GSM 6.10",
    0x50: "MPEG layer 2",
    0x55: "MP3",
    0xFF: "AAC",
    0x161: "Windows Media Audio",
    0x2000: "AC-3",
}
"""Codecs that are refused by name."""
CONVERT = "convert it, e.g. ffmpeg -i IN.wav -c:a pcm_s16le OUT.wav"


class Form(NamedTuple):
    """How samples are written. A frame is a sample of each channel."""

    codec: str
    width: int  # bytes of a sample
    channels: int
    rate: int

    @property
    def frame_bytes(self) -> int:
        return self.width * self.channels


class Wave(NamedTuple):
    """A file's samples: how they are written, the byte where they begin, and how many frames there are."""

    form: Form
    start: int
    frames: int


class Chunk(NamedTuple):
    id: bytes
    size: int
    start: int  # its first byte behind the id and the size

    @property
    def end(self) -> int:
        return self.start + self.size


def read_wave(file: BinaryIO, name: str, *, cut_short: bool = False) -> Wave:
    """The header of a file, which sentences call `name`. One that tells of more frames than there are is refused unless
    `cut_short`."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(12)
    if head[:4] not in RIFF or head[8:] != b"WAVE":
        raise UserError(
            f"{name}: this is no WAV file, which begins with RIFF, a size and WAVE; it begins with {shown(head)}"
        )
    form, wide, position, is_odd = None, 0, 12, False
    for _ in range(MOST_CHUNKS):
        chunk = chunk_at(file, position, is_odd)
        if chunk is None:
            missing = "says how samples are written (fmt)" if form is None else "has the samples (data)"
            raise UserError(f"{name}: the file ends before the chunk that {missing}; it was cut short; copy it again")
        if chunk.id == b"ds64":
            wide = int.from_bytes(file.read(16)[8:], "little")
        if chunk.id == b"fmt ":
            form = read_form(file.read(min(chunk.size, 40)), name)
        if chunk.id == b"data":
            if form is None:
                raise UserError(
                    f"{name}: its samples stand before the chunk that says how they are written (fmt); convert it anew"
                )
            claimed = wide if wide and chunk.size == 0xFFFFFFFF else chunk.size
            return measured(file, name, form, chunk._replace(size=claimed), size, cut_short)
        position, is_odd = chunk.end + chunk.size % 2, chunk.size % 2 == 1
    raise UserError(
        f"{name}: there are more than {MOST_CHUNKS:,} chunks and no samples in them; it is damaged, or another file"
    )


def chunk_at(file: BinaryIO, position: int, is_odd: bool) -> Chunk | None:
    """The chunk that begins there; None at the end of the file. Some programs leave out the byte behind an odd
    chunk."""
    file.seek(position)
    head = file.read(8)
    if is_odd and not is_id(head[:4]):
        file.seek(position - 1)
        earlier = file.read(8)
        if is_id(earlier[:4]):
            position, head = position - 1, earlier
        else:
            file.seek(position + 8)
    if len(head) < 8:
        return None
    return Chunk(head[:4], int.from_bytes(head[4:], "little"), position + 8)


def is_id(four: bytes) -> bool:
    return len(four) == 4 and all(32 <= byte < 127 for byte in four)


def read_form(body: bytes, name: str) -> Form:
    if len(body) < 16:
        raise UserError(
            f"{name}: the chunk that says how samples are written (fmt) has {len(body)} bytes, and needs 16; it is"
            " damaged"
        )
    code, channels, rate, _, block, bits = struct.unpack("<HHIIHH", body[:16])
    if code == EXTENSIBLE:
        if len(body) < 40 or body[26:40] != GUID:
            raise UserError(
                f"{name}: its codec is told by the GUID {body[24:40].hex() or 'of no bytes'}, which is not read;"
                f" {CONVERT}"
            )
        code = int.from_bytes(body[24:26], "little")
    if code not in CODECS:
        raise UserError(
            f"{name}: its codec is {OTHERS.get(code, 'unknown')} (0x{code:04x}); PCM, floats and G.711 are read;"
            f" {CONVERT}"
        )
    if not 1 <= channels <= MOST_CHANNELS:
        raise UserError(
            f"{name}: the header tells of {channels:,} channels, and there are 1 to {MOST_CHANNELS:,}; it is damaged"
        )
    if not 1 <= rate <= HIGHEST_RATE:
        raise UserError(
            f"{name}: the header tells of {rate:,} samples a second, and there are 1 to {HIGHEST_RATE:,}; it is damaged"
        )
    width, rest = divmod(block, channels)
    if rest or width not in WIDTHS[CODECS[code]] or not 8 * (width - 1) < bits <= 8 * width:
        raise UserError(
            f"{name}: samples of {bits} bits as {CODECS[code]}, in frames of {block} bytes with {channels} of them, are"
            f" not read; {CONVERT}"
        )
    return Form(CODECS[code], width, channels, rate)


def measured(file: BinaryIO, name: str, form: Form, data: Chunk, size: int, cut_short: bool) -> Wave:
    """How many frames there are; a last part of one is none."""
    there = size - data.start
    if data.size in STREAMED and not (data.size == 0 and is_chunks(file, data.start, size)):
        data = data._replace(size=there)
    if data.size > there and not cut_short:
        claimed, found = data.size // form.frame_bytes, there // form.frame_bytes
        raise UserError(
            f"{name}: the header tells of {claimed:,} frames and the file has {found:,}; it was cut short; copy it"
            " again" + (f", or read what is there with stop={found}" if found else "")
        )
    return Wave(form, data.start, min(data.size, there) // form.frame_bytes)


def is_chunks(file: BinaryIO, position: int, size: int) -> bool:
    """Whether nothing but whole chunks follows: then samples of 0 bytes are none, and not written to a pipe."""
    for _ in range(MOST_CHUNKS):
        if position >= size:
            return True
        chunk = chunk_at(file, position, is_odd=False)
        if chunk is None or not is_id(chunk.id) or chunk.end > size:
            return False
        position = chunk.end + chunk.size % 2
    return False


def read_frames(file: BinaryIO, wave: Wave, start: int, count: int) -> np.ndarray:
    """Frames (count, channels) from one on, in float32; integers become numbers from -1 to below 1. Fewer where the
    file has fewer."""
    form = wave.form
    file.seek(wave.start + start * form.frame_bytes)
    data = file.read(count * form.frame_bytes)
    whole = len(data) // form.frame_bytes * form.frame_bytes
    return decode(data[:whole], form).reshape(-1, form.channels)


def decode(data: bytes, form: Form) -> np.ndarray:
    """Every sample, in float32. PCM with fewer bits than its bytes have holds them in the upper ones, so that only
    bytes count."""
    if form.codec == "float":
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused as that
            return np.frombuffer(data, f"<f{form.width}").astype(np.float32)
    if form.codec in LAWS:
        return LAWS[form.codec][np.frombuffer(data, np.uint8)]
    if form.width == 1:
        return (
            np.frombuffer(data, np.uint8).astype(np.float32) - 128
        ) / 128  # 8 bits are without a sign, all others have one
    if form.width == 3:
        samples = np.zeros((len(data) // 3, 4), np.uint8)
        samples[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return samples.view("<i4")[:, 0].astype(np.float32) / 2**31
    return np.frombuffer(data, f"<i{form.width}").astype(np.float32) / 2 ** (8 * form.width - 1)


def a_law() -> np.ndarray:
    """What each byte stands for (ITU-T G.711): a sign, an exponent e of 3 bits and a mantissa m of 4, every other bit
    turned over.

    |x| = (2 m + 1) 2^-12 where e = 0, else (2 m + 33) 2^(e - 13)
    """
    byte = np.arange(256) ^ 0x55
    exponent, mantissa = byte >> 4 & 7, byte & 15
    size = np.where(exponent == 0, 2 * mantissa + 1, (2 * mantissa + 33) * 2.0 ** (exponent - 1)) / 2**12
    return np.where(byte & 0x80, size, -size).astype(np.float32)


def mu_law() -> np.ndarray:
    """What each byte stands for (ITU-T G.711): |x| = ((2 m + 33) 2^e - 33) 2^-13, all bits turned over."""
    byte = np.arange(256) ^ 0xFF
    exponent, mantissa = byte >> 4 & 7, byte & 15
    size = ((2 * mantissa + 33) * 2.0**exponent - 33) / 2**13
    return np.where(byte & 0x80, -size, size).astype(np.float32)


LAWS = {"a-law": a_law(), "mu-law": mu_law()}
