"""Reads sound files: WAV with `clew.data.sounds.wav_files`, other formats with the package soundfile.

Samples are mono, the mean of the channels, in float32; integers are scaled to -1 up to, but not including, 1. A piece
of a long file is read without the rest.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from clew.core.errors import UserError, shown
from clew.core.files import open_file
from clew.core.memory import check_memory
from clew.data.lines import check_file
from clew.data.sounds.wav_files import RIFF, read_frames, read_wave

AT_ONCE = 2**20
"""Samples that are decoded at a time, over all channels."""
MOST_FRAMES = 2**62
"""libsndfile reports at least this length if the header does not contain it."""
ENDINGS = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au")
"""Endings of sound file names, for searching a folder."""


class Sound(NamedTuple):
    samples: Tensor  # (length,) float32
    rate: int  # samples a second

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


class Length(NamedTuple):
    frames: int
    rate: int

    @property
    def seconds(self) -> float:
        return self.frames / self.rate


class Stream(Protocol):
    """An open sound: the number of frames, the frames per second, and the number of channels. `read` returns any piece
    of it (count, channels)."""

    frames: int
    rate: int
    channels: int

    def read(self, start: int, count: int) -> np.ndarray: ...

    def close(self) -> None: ...


def read_sound(path: Path | str, start: int | None = None, stop: int | None = None) -> Sound:
    """Read the samples of a file, or those from `start` up to, but not including, `stop`. A file that is not a sound
    raises a UserError with its name."""
    with open_sound(Path(path)) as file:
        return read_stream(file, str(path), start, stop)


def sound_length(path: Path | str) -> Length:
    """Return the number of frames and the rate of a file, from its header; no sample is read."""
    with open_sound(Path(path)) as file:
        return stream_length(file, str(path))


def stream_length(file: BinaryIO, name: str) -> Length:
    """Like `sound_length`, for an open file; `name` stands for it in error messages."""
    with closing(open_stream(file, name)) as stream:
        check_length(stream, name)
        return Length(stream.frames, stream.rate)


@contextmanager
def open_sound(path: Path) -> Iterator[BinaryIO]:
    try:
        check_file(path)
        with open_file(path) as file:
            yield file
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_stream(file: BinaryIO, name: str, start: int | None = None, stop: int | None = None) -> Sound:
    """Like `read_sound`, for an open file; `name` stands for it in error messages."""
    with closing(open_stream(file, name, may_be_truncated=stop is not None)) as stream:
        check_length(stream, name)
        first, last = 0 if start is None else start, stream.frames if stop is None else stop
        if not 0 <= first < last <= stream.frames:
            raise UserError(
                f"{name}: start ({first:,}) must be below stop ({last:,}), and both must be from 0 to"
                f" {stream.frames:,}, its number of frames"
            )
        check_memory(4 * (last - first), f"{name}: {last - first:,} samples", "read a piece of it with start and stop")
        samples = read_mono(stream, name, first, last)
    is_finite = np.isfinite(samples)
    if not is_finite.all():
        raise UserError(
            f"{name}: sample {first + int(np.argmin(is_finite)):,} is not a finite number; save the file again with"
            " integer samples"
        )
    return Sound(torch.from_numpy(samples), stream.rate)


def read_mono(stream: Stream, name: str, start: int, stop: int) -> np.ndarray:
    """Return the mean of the channels (stop - start,), reading some frames at a time."""
    samples = np.empty(stop - start, np.float32)
    step = max(1, AT_ONCE // stream.channels)
    for place in range(start, stop, step):
        frames = stream.read(place, min(step, stop - place))
        num_available = place + len(frames)
        if num_available < min(place + step, stop):
            raise UserError(
                f"{name}: the file is truncated: its header says {stream.frames:,} frames, but it has"
                f" {num_available:,}; copy it again"
            )
        with np.errstate(all="ignore"):  # the caller reports samples that are not finite
            samples[place - start : num_available - start] = frames.mean(1, dtype=np.float64)
    return samples


def open_stream(file: BinaryIO, name: str, *, may_be_truncated: bool = False) -> Stream:
    format = detect_format(file, name)
    return WaveStream(file, name, may_be_truncated) if format == "WAV" else LibsndfileStream(file, name, format)


def check_length(stream: Stream, name: str) -> None:
    if not stream.frames:
        raise UserError(f"{name}: the sound has no samples; use a file with at least one")
    if stream.frames >= MOST_FRAMES:
        raise UserError(f"{name}: its header does not contain its length; write it again, to a file instead of a pipe")


def detect_format(file: BinaryIO, name: str) -> str:
    """Detect a file's format by its first bytes; raise a UserError if it is not supported."""
    file.seek(0)
    head = file.read(16)
    if not head:
        raise UserError(f"{name}: the file is empty; use a sound file")
    for format, (offset, marks) in FORMATS.items():
        if head[offset:].startswith(marks):
            return format
    if head[0] == 0xFF and len(head) > 1 and head[1] & 0xE0 == 0xE0 and head[1] & 0x06:
        return "MP3"  # which begins with a frame instead of an ID3 tag
    for format, (offset, marks) in REFUSED.items():
        if head[offset:].startswith(marks):
            raise UserError(f"{name}: this is {format}, which is not supported; convert it, e.g. ffmpeg -i IN OUT.wav")
    raise UserError(
        f"{name}: this is not a sound file in a known format ({', '.join(FORMATS)}); it begins with {shown(head)}"
    )


class WaveStream:
    def __init__(self, file: BinaryIO, name: str, may_be_truncated: bool):
        self.file = file
        self.wave = read_wave(file, name, may_be_truncated=may_be_truncated)
        self.frames, self.rate, self.channels = self.wave.frames, self.wave.form.rate, self.wave.form.channels

    def read(self, start: int, count: int) -> np.ndarray:
        return read_frames(self.file, self.wave, start, count)

    def close(self) -> None:
        """Do nothing: the caller closes the file."""


class BoundedFile:
    """A file that clips seeks to its bounds: in damaged files, libsndfile seeks to impossible positions."""

    def __init__(self, file: BinaryIO):
        self.read, self.tell = file.read, file.tell
        self.file, self.size = file, file.seek(0, os.SEEK_END)
        file.seek(0)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self.file.tell(), os.SEEK_END: self.size}[whence]
        return self.file.seek(min(max(origin + offset, 0), self.size))


class LibsndfileStream:
    """A sound that libsndfile decodes."""

    def __init__(self, file: BinaryIO, name: str, format: str):
        self.name, self.format = name, format
        self.soundfile = load_soundfile(name, format)
        with self.errors_reported():
            self.sound = self.soundfile.SoundFile(BoundedFile(file))
            self.frames, self.rate, self.channels = self.sound.frames, self.sound.samplerate, self.sound.channels

    def read(self, start: int, count: int) -> np.ndarray:
        with self.errors_reported():
            self.sound.seek(start)
            frames: np.ndarray = self.sound.read(count, dtype="float32", always_2d=True)
            return frames

    def close(self) -> None:
        self.sound.close()  # before the file that it reads

    @contextmanager
    def errors_reported(self) -> Iterator[None]:
        """Turn the context's decoding errors into a UserError."""
        try:
            with muted() if self.format == "MP3" else nullcontext():
                yield
        except (self.soundfile.LibsndfileError, RuntimeError, ValueError, OSError) as error:
            reason = str(getattr(error, "error_string", error)).rstrip(".")
            raise UserError(
                f"{self.name}: cannot be read as {self.format}: {reason}; copy it again, or convert it to WAV"
            ) from None


MUTING = Lock()


@contextmanager
def muted() -> Iterator[None]:
    """Silence libmpg123, which reports on standard error all damage that it ignores."""
    with MUTING:
        try:
            saved_stderr = os.dup(2)
        except OSError:  # the process has no standard error
            yield
            return
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        os.close(null)
        try:
            yield
        finally:
            os.dup2(saved_stderr, 2)
            os.close(saved_stderr)


def load_soundfile(name: str, format: str) -> Any:
    try:
        return import_module("soundfile")
    except (ModuleNotFoundError, OSError):  # the package or the library that it loads is missing
        raise UserError(
            f"{name}: reading {format} needs soundfile, which is not installed; run `pip install 'clew[sound]'`, or"
            " convert the file to WAV"
        ) from None


FORMATS: dict[str, tuple[int, bytes | tuple[bytes, ...]]] = {
    "WAV": (0, RIFF),
    "FLAC": (0, b"fLaC"),
    "Ogg": (0, b"OggS"),
    "MP3": (0, b"ID3"),
    "AIFF": (0, b"FORM"),
    "AU": (0, b".snd"),
}
"""The signature of each format and the byte where it is."""
REFUSED: dict[str, tuple[int, bytes | tuple[bytes, ...]]] = {
    "MPEG-4 audio": (4, b"ftyp"),
    "Matroska or WebM": (0, b"\x1aE\xdf\xa3"),
    "Windows Media": (0, b"0&\xb2u"),
    "big-endian WAV (RIFX)": (0, b"RIFX"),
    "MIDI (notes, no sound)": (0, b"MThd"),
    "AMR": (0, b"#!AMR"),
    "a gzip file": (0, b"\x1f\x8b"),
    "a zip file": (0, b"PK"),
}
