"""Sound files as samples: WAV by `clew.data.sounds.wav_files`, others by the package soundfile.

Samples are float32, integers from -1 to below 1, and mono: the mean of the channels. A stretch of a long file is read
without the rest.
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
from clew.core.memory import check_fits
from clew.data.lines import check_file
from clew.data.sounds.wav_files import RIFF, read_frames, read_wave

AT_ONCE = 2**20
"""Samples that are decoded at a time, all channels counted."""
MOST_FRAMES = 2**62
"""Where a header does not tell how long a sound is, libsndfile says that it is at least so long."""
ENDINGS = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au")
"""Of the names of sound files, where a folder is looked through."""


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
    """An open sound: how many frames, how many a second, of how many channels, and any stretch of them (count,
    channels)."""

    frames: int
    rate: int
    channels: int

    def read(self, start: int, count: int) -> np.ndarray: ...

    def close(self) -> None: ...


def read_sound(path: Path | str, start: int | None = None, stop: int | None = None) -> Sound:
    """The samples of a file, or those from `start` up to `stop`. What is no sound is refused in a sentence with the
    file's name."""
    with opened(Path(path)) as file:
        return read_stream(file, str(path), start, stop)


def sound_length(path: Path | str) -> Length:
    """How many frames a file has, and how many a second, by its header; no sample is read."""
    with opened(Path(path)) as file:
        return stream_length(file, str(path))


def stream_length(file: BinaryIO, name: str) -> Length:
    """As `sound_length`, of an open file that sentences call `name`."""
    with closing(open_stream(file, name)) as stream:
        check_length(stream, name)
        return Length(stream.frames, stream.rate)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    try:
        check_file(path)
        with open_file(path) as file:
            yield file
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def read_stream(file: BinaryIO, name: str, start: int | None = None, stop: int | None = None) -> Sound:
    """As `read_sound`, of an open file that sentences call `name`."""
    with closing(open_stream(file, name, cut_short=stop is not None)) as stream:
        check_length(stream, name)
        first, last = 0 if start is None else start, stream.frames if stop is None else stop
        if not 0 <= first < last <= stream.frames:
            raise UserError(
                f"{name}: start ({first:,}) must be below stop ({last:,}), and both from 0 to its {stream.frames:,}"
                " frames"
            )
        check_fits(4 * (last - first), f"{name}: {last - first:,} samples", "read a part of it with start and stop")
        samples = read_mono(stream, name, first, last)
    is_finite = np.isfinite(samples)
    if not is_finite.all():
        raise UserError(
            f"{name}: sample {first + int(np.argmin(is_finite)):,} is no finite number; write the file anew, with"
            " integers"
        )
    return Sound(torch.from_numpy(samples), stream.rate)


def read_mono(stream: Stream, name: str, start: int, stop: int) -> np.ndarray:
    """The mean of the channels (stop - start,), a part of the frames at a time."""
    samples = np.empty(stop - start, np.float32)
    step = max(1, AT_ONCE // stream.channels)
    for place in range(start, stop, step):
        frames = stream.read(place, min(step, stop - place))
        there = place + len(frames)
        if there < min(place + step, stop):
            raise UserError(
                f"{name}: the header tells of {stream.frames:,} frames and the file has {there:,}; it was cut short;"
                " copy it again"
            )
        with np.errstate(all="ignore"):  # what is not finite is told of by the caller
            samples[place - start : there - start] = frames.mean(1, dtype=np.float64)
    return samples


def open_stream(file: BinaryIO, name: str, *, cut_short: bool = False) -> Stream:
    format = detect_format(file, name)
    return WaveStream(file, name, cut_short) if format == "WAV" else OtherStream(file, name, format)


def check_length(stream: Stream, name: str) -> None:
    if not stream.frames:
        raise UserError(f"{name}: there is no sound in it: it has 0 frames; give a file that has some")
    if stream.frames >= MOST_FRAMES:
        raise UserError(f"{name}: its header does not tell how long it is; write it anew, to a file and not to a pipe")


def detect_format(file: BinaryIO, name: str) -> str:
    """The format that a file's first bytes tell; one that is not read is refused."""
    file.seek(0)
    head = file.read(16)
    if not head:
        raise UserError(f"{name}: the file is empty; give one with sound in it")
    for format, (offset, marks) in FORMATS.items():
        if head[offset:].startswith(marks):
            return format
    if (
        head[0] == 0xFF and len(head) > 1 and head[1] & 0xE0 == 0xE0 and head[1] & 0x06
    ):  # a frame without a tag before it
        return "MP3"
    for format, (offset, marks) in REFUSED.items():
        if head[offset:].startswith(marks):
            raise UserError(f"{name}: this is {format}, which is not read; convert it, e.g. ffmpeg -i IN OUT.wav")
    raise UserError(
        f"{name}: this is no sound file that can be read: it begins with {shown(head)}; {', '.join(FORMATS)} are read"
    )


class WaveStream:
    def __init__(self, file: BinaryIO, name: str, cut_short: bool):
        self.file = file
        self.wave = read_wave(file, name, cut_short=cut_short)
        self.frames, self.rate, self.channels = self.wave.frames, self.wave.form.rate, self.wave.form.channels

    def read(self, start: int, count: int) -> np.ndarray:
        return read_frames(self.file, self.wave, start, count)

    def close(self) -> None:
        """The file is the caller's."""


class Reachable:
    """A file for libsndfile, which of a damaged one seeks places that no file has."""

    def __init__(self, file: BinaryIO):
        self.read, self.tell = file.read, file.tell
        self.file, self.size = file, file.seek(0, os.SEEK_END)
        file.seek(0)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self.file.tell(), os.SEEK_END: self.size}[whence]
        return self.file.seek(min(max(origin + offset, 0), self.size))


class OtherStream:
    """What libsndfile decodes."""

    def __init__(self, file: BinaryIO, name: str, format: str):
        self.name, self.format = name, format
        self.soundfile = load_soundfile(name, format)
        with self.told():
            self.sound = self.soundfile.SoundFile(Reachable(file))
            self.frames, self.rate, self.channels = self.sound.frames, self.sound.samplerate, self.sound.channels

    def read(self, start: int, count: int) -> np.ndarray:
        with self.told():
            self.sound.seek(start)
            frames: np.ndarray = self.sound.read(count, dtype="float32", always_2d=True)
            return frames

    def close(self) -> None:
        self.sound.close()  # before the file that it reads

    @contextmanager
    def told(self) -> Iterator[None]:
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
    """With nothing on standard error from libmpg123, which tells there of every damage that it passes over."""
    with MUTING:
        try:
            kept = os.dup(2)
        except OSError:  # there is no standard error
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def load_soundfile(name: str, format: str) -> Any:
    try:
        return import_module("soundfile")
    except (ModuleNotFoundError, OSError):  # the package, or the library that it loads
        raise UserError(
            f"{name}: {format} is read by soundfile, which is not installed; `pip install 'clew[sound]'`, or convert it"
            " to WAV"
        ) from None


FORMATS: dict[str, tuple[int, bytes | tuple[bytes, ...]]] = {
    "WAV": (0, RIFF),
    "FLAC": (0, b"fLaC"),
    "Ogg": (0, b"OggS"),
    "MP3": (0, b"ID3"),
    "AIFF": (0, b"FORM"),
    "AU": (0, b".snd"),
}
"""At which byte a format has which mark."""
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
