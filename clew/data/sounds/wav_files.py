"""Reads WAV files without other packages: PCM of 8 to 32 bits, IEEE floats of 32 and 64 bits, A-law and mu-law. Knows
no path.

A file is a list of chunks: an id of four bytes, a size, that many bytes, and a padding byte if the size is odd. The
chunk `fmt ` describes the encoding of the samples, and `data` has the samples; all others are skipped. A program that
writes to a pipe cannot go back and fill in the size of `data`: it leaves 0 or an impossibly large number, and the
samples continue to the end of the file.
"""

import os
import struct
from typing import BinaryIO, NamedTuple

import numpy as np

from clew.core.errors import UserError, shown

RIFF = (b"RIFF", b"RF64", b"BW64")
"""The first bytes of a file. The last two have 64-bit sizes, in a chunk `ds64`."""
STREAMED = (0, 0x7FFFF000, 0x7FFFFFFF, 0xFFFFFFFF)
"""Sizes of `data` that mean: up to the end of the file."""
MOST_CHUNKS = 10_000
"""The most chunks before the samples; a file of zeros would have one every eight bytes."""
MOST_CHANNELS, HIGHEST_RATE = 1024, 10_000_000

EXTENSIBLE = 0xFFFE
GUID = bytes.fromhex("000000001000800000aa00389b71")
"""The bytes after the codec's code in WAVE_FORMAT_EXTENSIBLE."""
CODECS = {1: "pcm", 3: "float", 6: "a-law", 7: "mu-law"}
WIDTHS = {"pcm": (1, 2, 3, 4), "float": (4, 8), "a-law": (1,), "mu-law": (1,)}
"""Allowed bytes per sample."""
REFUSED_CODECS = {
    0x02: "Microsoft ADPCM",
    0x11: "IMA ADPCM",
    0x31: "GSM 6.10",
    0x50: "MPEG layer 2",
    0x55: "MP3",
    0xFF: "AAC",
    0x161: "Windows Media Audio",
    0x2000: "AC-3",
}
"""Names of codecs that are not supported, for error messages."""
CONVERT = "convert it, e.g. ffmpeg -i IN.wav -c:a pcm_s16le OUT.wav"


class Form(NamedTuple):
    """The encoding of samples. A frame is one sample of each channel."""

    codec: str
    width: int  # bytes per sample
    channels: int
    rate: int

    @property
    def frame_bytes(self) -> int:
        return self.width * self.channels


class Wave(NamedTuple):
    """A file's samples: their encoding, the byte where they begin, and the number of frames."""

    form: Form
    start: int
    frames: int


class Chunk(NamedTuple):
    id: bytes
    size: int
    start: int  # the first byte after the id and the size

    @property
    def end(self) -> int:
        return self.start + self.size


def read_wave(file: BinaryIO, name: str, *, may_be_truncated: bool = False) -> Wave:
    """Read the header of a file; `name` stands for it in error messages. A file with fewer frames than its header says
    is refused, unless `may_be_truncated`."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(12)
    if head[:4] not in RIFF or head[8:] != b"WAVE":
        raise UserError(
            f"{name}: this is not a WAV file, which begins with RIFF, a size and WAVE; it begins with {shown(head)}"
        )
    form, wide, position, is_odd = None, 0, 12, False
    for _ in range(MOST_CHUNKS):
        chunk = chunk_at(file, position, is_odd)
        if chunk is None:
            missing = "the chunk with the encoding (fmt)" if form is None else "the chunk with the samples (data)"
            raise UserError(f"{name}: the file is truncated: it ends before {missing}; copy it again")
        if chunk.id == b"ds64":
            wide = int.from_bytes(file.read(16)[8:], "little")
        if chunk.id == b"fmt ":
            form = read_form(file.read(min(chunk.size, 40)), name)
        if chunk.id == b"data":
            if form is None:
                raise UserError(
                    f"{name}: its samples come before the chunk with their encoding (fmt); convert it again"
                )
            claimed = wide if wide and chunk.size == 0xFFFFFFFF else chunk.size
            return find_frames(file, name, form, chunk._replace(size=claimed), size, may_be_truncated)
        position, is_odd = chunk.end + chunk.size % 2, chunk.size % 2 == 1
    raise UserError(
        f"{name}: the file has more than {MOST_CHUNKS:,} chunks without samples, so it is damaged or not a WAV file;"
        " copy it again"
    )


def chunk_at(file: BinaryIO, position: int, is_odd: bool) -> Chunk | None:
    """Return the chunk at a position, or None at the end of the file. With `is_odd`, the chunk before has an odd size,
    after which some programs omit the padding byte."""
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
            f"{name}: the chunk with the encoding (fmt) has {len(body)} bytes, but needs 16, so the file is damaged;"
            " copy it again"
        )
    code, channels, rate, _, block, bits = struct.unpack("<HHIIHH", body[:16])
    if code == EXTENSIBLE:
        if len(body) < 40 or body[26:40] != GUID:
            raise UserError(
                f"{name}: its codec has the GUID {body[24:40].hex() or 'of no bytes'}, which is not supported;"
                f" {CONVERT}"
            )
        code = int.from_bytes(body[24:26], "little")
    if code not in CODECS:
        raise UserError(
            f"{name}: its codec is {REFUSED_CODECS.get(code, 'unknown')} (0x{code:04x}); only PCM, floats and G.711 are"
            f" supported; {CONVERT}"
        )
    if not 1 <= channels <= MOST_CHANNELS:
        raise UserError(
            f"{name}: the header says {channels:,} channels, but only 1 to {MOST_CHANNELS:,} are possible, so the file"
            " is damaged; copy it again"
        )
    if not 1 <= rate <= HIGHEST_RATE:
        raise UserError(
            f"{name}: the header says {rate:,} samples per second, but only 1 to {HIGHEST_RATE:,} are possible, so the"
            " file is damaged; copy it again"
        )
    width, rest = divmod(block, channels)
    if rest or width not in WIDTHS[CODECS[code]] or not 8 * (width - 1) < bits <= 8 * width:
        raise UserError(
            f"{name}: {CODECS[code]} samples of {bits} bits, {channels} in a frame of {block} bytes, are not supported;"
            f" {CONVERT}"
        )
    return Form(CODECS[code], width, channels, rate)


def find_frames(file: BinaryIO, name: str, form: Form, data: Chunk, size: int, may_be_truncated: bool) -> Wave:
    """Return the samples with the number of whole frames in the file."""
    num_bytes = size - data.start
    if data.size in STREAMED and not (data.size == 0 and is_chunks(file, data.start, size)):
        data = data._replace(size=num_bytes)
    if data.size > num_bytes and not may_be_truncated:
        claimed, available = data.size // form.frame_bytes, num_bytes // form.frame_bytes
        raise UserError(
            f"{name}: the file is truncated: its header says {claimed:,} frames, but it has {available:,}; copy it"
            " again" + (f", or read these with stop={available}" if available else "")
        )
    return Wave(form, data.start, min(data.size, num_bytes) // form.frame_bytes)


def is_chunks(file: BinaryIO, position: int, size: int) -> bool:
    """Return whether only whole chunks follow. Then a `data` size of 0 means no samples, not a file written to a
    pipe."""
    for _ in range(MOST_CHUNKS):
        if position >= size:
            return True
        chunk = chunk_at(file, position, is_odd=False)
        if chunk is None or not is_id(chunk.id) or chunk.end > size:
            return False
        position = chunk.end + chunk.size % 2
    return False


def read_frames(file: BinaryIO, wave: Wave, start: int, count: int) -> np.ndarray:
    """Read up to `count` frames (frames, channels) in float32; integers are scaled to -1 up to, but not including,
    1."""
    form = wave.form
    file.seek(wave.start + start * form.frame_bytes)
    data = file.read(count * form.frame_bytes)
    whole = len(data) // form.frame_bytes * form.frame_bytes
    return decode(data[:whole], form).reshape(-1, form.channels)


def decode(data: bytes, form: Form) -> np.ndarray:
    """Decode samples to float32. PCM samples with fewer bits than their bytes use the upper bits, so only the number of
    bytes matters."""
    if form.codec == "float":
        with np.errstate(over="ignore"):  # values beyond float32 become infinite, which the caller refuses
            return np.frombuffer(data, f"<f{form.width}").astype(np.float32)
    if form.codec in LAWS:
        return LAWS[form.codec][np.frombuffer(data, np.uint8)]
    if form.width == 1:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - 128) / 128  # only 8-bit samples are unsigned
    if form.width == 3:
        samples = np.zeros((len(data) // 3, 4), np.uint8)
        samples[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return samples.view("<i4")[:, 0].astype(np.float32) / 2**31
    return np.frombuffer(data, f"<i{form.width}").astype(np.float32) / 2 ** (8 * form.width - 1)


def a_law() -> np.ndarray:
    """Return the value of each byte in A-law (ITU-T G.711): a sign, an exponent e of 3 bits and a mantissa m of 4, with
    every other bit inverted.

    |x| = (2 m + 1) 2^-12 where e = 0, else (2 m + 33) 2^(e - 13)
    """
    byte = np.arange(256) ^ 0x55
    exponent, mantissa = byte >> 4 & 7, byte & 15
    size = np.where(exponent == 0, 2 * mantissa + 1, (2 * mantissa + 33) * 2.0 ** (exponent - 1)) / 2**12
    return np.where(byte & 0x80, size, -size).astype(np.float32)


def mu_law() -> np.ndarray:
    """Return the value of each byte in mu-law (ITU-T G.711): |x| = ((2 m + 33) 2^e - 33) 2^-13, with all bits
    inverted."""
    byte = np.arange(256) ^ 0xFF
    exponent, mantissa = byte >> 4 & 7, byte & 15
    size = ((2 * mantissa + 33) * 2.0**exponent - 33) / 2**13
    return np.where(byte & 0x80, -size, size).astype(np.float32)


LAWS = {"a-law": a_law(), "mu-law": mu_law()}
