"""Recordings of single digits in a tar, `{digit}_{speaker}_{take}.wav` as the Free Spoken Digit Dataset names them, and
strings of them.

Nothing but names and places is held until a sound is asked for.
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
from clew.data.sounds.sound_files import Length, Sound, opened, read_stream, stream_length

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NAME = re.compile(r"(\d)_([^_]+)_(\d+)\.wav")
SPEED_STEPS = 20
"""Speeds are multiples of 1/20: few different ratios of rates, which resampling is fast for."""


class Recording(NamedTuple):
    """One digit, spoken by someone."""

    digit: int
    speaker: str
    take: int
    archive: Path
    start: int  # byte of the archive
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
        """The file as the archive has it."""
        with opened(self.archive) as file:
            file.seek(self.start)
            return io.BytesIO(file.read(self.size))

    def sound(self) -> Sound:
        return read_stream(self.stored(), self.id)

    def length(self) -> Length:
        return recording_length(self)


class DigitString(NamedTuple):
    """Recordings of one speaker one after the other, with silence before, between and after them. They are played
    `speed` times as fast as they were spoken, which raises the pitch as much."""

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
        """That of its sound, by the headers of its recordings."""
        rate = self.rate
        spoken = sum(ceil(recording.length().frames / self.speed) for recording in self.recordings)
        return Length(spoken + sum(round(seconds * rate) for seconds in self.silences), rate)

    @property
    def rate(self) -> int:
        """Samples a second, which all its recordings share."""
        rates = sorted({recording.length().rate for recording in self.recordings})
        if len(rates) > 1:
            raise UserError(
                f"{self.id}: recordings of one string have one rate, and these have {rates}; resample them first"
            )
        return rates[0]


@lru_cache(maxsize=2**16)
def recording_length(recording: Recording) -> Length:
    return stream_length(recording.stored(), recording.id)


def read_recordings(path: Path, *, notes: Notes | None = None) -> Iterator[Recording]:
    """Those of a tar, in its order; a file in it that has another name is passed over where it is no WAV file."""
    notes = Notes() if notes is None else notes
    check_file(path)
    count = 0
    try:
        with open_file(path) as whole, tarfile.open(fileobj=whole, mode="r:") as archive:
            size = os.fstat(whole.fileno()).st_size
            for member in archive:
                name = member.name.rpartition("/")[2]
                found = NAME.fullmatch(name)
                if (
                    not member.isreg()
                    or member.issparse()
                    or name.startswith("._")
                    or not name.lower().endswith(".wav")
                ):
                    continue
                if found is None:
                    notes.fault(
                        "bad name", f"{path}:{name}", "expected a recording's name to be {digit}_{speaker}_{take}.wav"
                    )
                elif member.offset_data + member.size > size:
                    notes.fault("cut short", f"{path}:{name}", "the archive ends before the recording does")
                else:
                    count += 1
                    yield Recording(int(found[1]), found[2], int(found[3]), path, member.offset_data, member.size)
            whole.seek(archive.offset)
            if whole.read(tarfile.BLOCKSIZE) != bytes(
                tarfile.BLOCKSIZE
            ):  # at a damaged header tarfile ends as at the end
                raise UserError(
                    f"{path}: the archive is damaged or cut short at byte {archive.offset:,}; copy it again"
                )
    except (tarfile.TarError, EOFError, OverflowError) as error:
        raise UserError(f"{path}: cannot be read as a tar of recordings: {error}; copy it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not count:
        raise UserError(
            f"{path}: there is no recording in it; put files named {{digit}}_{{speaker}}_{{take}}.wav into the tar"
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
    """So many strings of `shortest` to `longest` digits, each of one speaker, the same for the same seed.

    A speaker, each digit and each take of it are drawn with equal probabilities, and silences of seconds between the
    two of `silence`. Each string is played at a speed between 1 - speed and 1 + speed (speed perturbation, Ko et al.
    2015), which makes other speakers of those that there are.
    """
    if not recordings:
        raise UserError("there are no recordings to make strings of; give at least one")
    if not 1 <= shortest <= longest:
        raise UserError(
            f"strings have from shortest ({shortest}) to longest ({longest}) digits; the first must be 1 or more and"
            " not above"
        )
    if not 0 <= silence[0] <= silence[1]:
        raise UserError(
            f"silences last from {silence[0]} to {silence[1]} seconds; the first must be 0 or more and not above"
        )
    takes: dict[str, dict[int, list[Recording]]] = {}
    for recording in sorted(recordings, key=lambda each: (each.speaker, each.digit, each.take)):
        takes.setdefault(recording.speaker, {}).setdefault(recording.digit, []).append(recording)
    draw = random.Random(f"digit strings {seed}")
    found = []
    for _ in range(count):
        of_speaker = takes[draw.choice(list(takes))]
        digits = draw.choices(list(of_speaker), k=draw.randint(shortest, longest))
        silences = tuple(draw.uniform(*silence) for _ in range(len(digits) + 1))
        spoken = tuple(draw.choice(of_speaker[digit]) for digit in digits)
        steps = draw.randint(-round(speed * SPEED_STEPS), round(speed * SPEED_STEPS)) if speed else 0
        found.append(DigitString(spoken, silences, 1 + Fraction(steps, SPEED_STEPS)))
    return found
