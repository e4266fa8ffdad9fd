"""Recordings of single digits in a tar archive, named `{digit}_{speaker}_{take}.wav` as in the Free Spoken Digit
Dataset, and strings of them.

Only names and byte offsets are in memory until a sound is read.
"""

import io
import os
import random
import re
import tarfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import NamedTuple

import torch

from clew.core.errors import UserError
from clew.core.files import open_file
from clew.data.lines import check_file
from clew.data.notes import Notes
from clew.data.sounds.resampling import resample
from clew.data.sounds.sound_files import Length, Sound, open_sound, read_stream, stream_length

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NAME = re.compile(r"(\d)_([^_]+)_(\d+)\.wav")
SPEED_STEPS = 20
"""Speeds are multiples of 1/20: with few different ratios of rates, resampling is fast."""


class Recording(NamedTuple):
    """A recording of one digit."""

    digit: int
    speaker: str
    take: int
    archive: Path
    start: int  # byte offset in the archive
    size: int

    @property
    def text(self) -> str:
        return WORDS[self.digit]

    @property
    def key(self) -> str:
        return f"{self.digit}_{self.speaker}_{self.take}"

    @property
    def id(self) -> str:
        return f"{self.archive}:{self.key}"

    def stored(self) -> io.BytesIO:
        """Return the file's bytes from the archive."""
        with open_sound(self.archive) as file:
            file.seek(self.start)
            return io.BytesIO(file.read(self.size))

    def sound(self) -> Sound:
        return read_stream(self.stored(), self.id)

    def length(self) -> Length:
        return recording_length(self)


class DigitString(NamedTuple):
    """Consecutive recordings of one speaker, with silence before, between and after them. They are played `speed` times
    as fast as they were spoken, which raises the pitch by the same factor."""

    recordings: tuple[Recording, ...]
    silences: tuple[float, ...]  # seconds; one more than there are recordings
    speed: Fraction = Fraction(1)

    @property
    def text(self) -> str:
        return " ".join(recording.text for recording in self.recordings)

    @property
    def speaker(self) -> str:
        return self.recordings[0].speaker

    @property
    def key(self) -> str:
        return " ".join(recording.key for recording in self.recordings)

    @property
    def id(self) -> str:
        faster = "" if self.speed == 1 else f" x {float(self.speed):g}"
        return f"{self.recordings[0].archive}:{self.key.replace(' ', '+')}{faster}"

    def sound(self) -> Sound:
        rate = self.rate
        spoken = [resample(recording.sound().samples, rate * self.speed, rate) for recording in self.recordings]
        silences = [torch.zeros(round(seconds * rate)) for seconds in self.silences]
        parts = [part for pair in zip(silences, spoken, strict=False) for part in pair]
        return Sound(torch.cat([*parts, silences[-1]]), rate)

    def length(self) -> Length:
        """Return the length of the sound, from the headers of its recordings."""
        rate = self.rate
        spoken = sum(ceil(recording.length().frames / self.speed) for recording in self.recordings)
        return Length(spoken + sum(round(seconds * rate) for seconds in self.silences), rate)

    @property
    def rate(self) -> int:
        """Samples per second, the same for all its recordings."""
        rates = sorted({recording.length().rate for recording in self.recordings})
        if len(rates) > 1:
            raise UserError(
                f"{self.id}: recordings in a string must have the same rate, but these have {rates}; resample them"
                " first"
            )
        return rates[0]


@lru_cache(maxsize=2**16)
def recording_length(recording: Recording) -> Length:
    return stream_length(recording.stored(), recording.id)


def read_recordings(path: Path, *, notes: Notes | None = None) -> Iterator[Recording]:
    """Yield the recordings in a tar archive, in order. Files that are not WAV are skipped; a WAV file with another name
    is an error."""
    notes = Notes() if notes is None else notes
    check_file(path)
    count = 0
    try:
        with open_file(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            size = os.fstat(file.fileno()).st_size
            for member in archive:
                name = member.name.rpartition("/")[2]
                match = NAME.fullmatch(name)
                if (
                    not member.isreg()
                    or member.issparse()
                    or name.startswith("._")
                    or not name.lower().endswith(".wav")
                ):
                    continue
                if match is None:
                    notes.fault("bad name", f"{path}:{name}", "a recording must be named {digit}_{speaker}_{take}.wav")
                elif member.offset_data + member.size > size:
                    notes.fault("truncated", f"{path}:{name}", "the archive ends before the recording does")
                else:
                    count += 1
                    yield Recording(int(match[1]), match[2], int(match[3]), path, member.offset_data, member.size)
            file.seek(archive.offset)
            if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # tarfile stops silently at a damaged header
                raise UserError(
                    f"{path}: the archive is damaged or truncated at byte {archive.offset:,}; copy it again"
                )
    except (tarfile.TarError, EOFError, OverflowError) as error:
        raise UserError(f"{path}: cannot be read as a tar of recordings: {error}; copy it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not count:
        raise UserError(
            f"{path}: there are no recordings in it; add files named {{digit}}_{{speaker}}_{{take}}.wav to the archive"
        )


def digit_strings(
    recordings: Sequence[Recording],
    count: int,
    shortest: int,
    longest: int,
    seed: int,
    *,
    silence: tuple[float, float] = (0.05, 0.3),
    speed: float = 0.0,
) -> list[DigitString]:
    """Draw `count` strings of `shortest` to `longest` digits, each by one speaker, determined by the seed.

    The speaker, each digit and each take are drawn with equal probabilities. Silences last between the two numbers of
    seconds in `silence`. Each string is played at a speed between 1 - speed and 1 + speed (speed perturbation, Ko et
    al. 2015), which simulates further speakers.
    """
    if not recordings:
        raise UserError("there are no recordings to build strings from; give at least one")
    if not 1 <= shortest <= longest:
        raise UserError(
            f"the shortest string ({shortest} digits) must have at least 1 digit and not be longer than the longest"
            f" ({longest})"
        )
    if not 0 <= silence[0] <= silence[1]:
        raise UserError(
            f"the shortest silence ({silence[0]} seconds) must be at least 0 and not be longer than the longest"
            f" ({silence[1]})"
        )
    takes: dict[str, dict[int, list[Recording]]] = {}
    for recording in sorted(recordings, key=lambda each: (each.speaker, each.digit, each.take)):
        takes.setdefault(recording.speaker, {}).setdefault(recording.digit, []).append(recording)
    draw = random.Random(f"digit strings {seed}")
    strings = []
    for _ in range(count):
        of_speaker = takes[draw.choice(list(takes))]
        digits = draw.choices(list(of_speaker), k=draw.randint(shortest, longest))
        silences = tuple(draw.uniform(*silence) for _ in range(len(digits) + 1))
        spoken = tuple(draw.choice(of_speaker[digit]) for digit in digits)
        steps = draw.randint(-round(speed * SPEED_STEPS), round(speed * SPEED_STEPS)) if speed else 0
        strings.append(DigitString(spoken, silences, 1 + Fraction(steps, SPEED_STEPS)))
    return strings
