"""Sounds as inputs of a body: log-mel frames of files, of recordings in an archive, or of samples."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.layouts import Layout
from clew.data.files.file_bytes import FileBytes
from clew.data.sounds.resampling import resample
from clew.data.sounds.sound_files import Length, Sound, read_sound, sound_length
from clew.data.synthetic.sample_files import sample_digits
from clew.sources.canvases import Canvas, as_levels
from clew.sources.frames import Frames
from clew.sources.inputs import Input, InputReader
from clew.sources.log_mel import LogMel, centres
from clew.sources.spec_augment import SpecAugment
from clew.sources.vocal_tract import VocalTract


@dataclass(frozen=True, kw_only=True)
class LogMelReader(InputReader):
    """Resamples sounds to `rate` (default: that of the first training sound) and cuts them into log-mel frames, `stack`
    of them per place. Energies more than `range_db` below the loudest are silence. `cepstra` replaces a frame's bands
    by that many mel-frequency cepstral coefficients. `convolve` is the number of channels of two convolutions over
    frames and bands, below the body. In training, bands are warped by up to `vocal_tract`, and SpecAugment masks
    `time_masks` stretches and `frequency_masks` bands."""

    name: ClassVar[str] = "log_mel"
    unit: ClassVar[str] = "frame"
    media: ClassVar[Literal["picture", "sound"]] = "sound"
    added: ClassVar[tuple[str, ...]] = ("range_db", "cepstra", "convolve")
    rate: int = 0
    num_mels: int = 40
    window_ms: float = 25.0
    hop_ms: float = 10.0
    range_db: float = 0.0
    cepstra: int = 0
    stack: int = 1
    deltas: int = 0
    normalisation: Literal["utterance", "mean", "none"] = "utterance"
    time_masks: int = 0
    longest_mask: int = 20
    frequency_masks: int = 0
    widest_mask: int = 8
    vocal_tract: float = 0.0
    convolve: int = 0

    def __post_init__(self) -> None:
        self.check_between(rate=(0, 1_000_000), num_mels=(1, 1000), stack=(1, 100), deltas=(0, 4), time_masks=(0, 100))
        self.check_between(
            frequency_masks=(0, 100), longest_mask=(0, 100_000), widest_mask=(0, 1000), vocal_tract=(0, 0.9)
        )
        self.check_between(window_ms=(0.1, 10_000), hop_ms=(0.1, 10_000), range_db=(0, 200), cepstra=(0, self.num_mels))
        self.check_between(convolve=(0, 1024))
        for option in ("frequency_masks", "vocal_tract", "convolve"):
            if self.cepstra and getattr(self, option):
                raise UserError(
                    f"task.input.{option} is for bands, and with cepstra ({self.cepstra}) a frame has none; set it to 0"
                )

    def fitted(self, example: Any) -> Self:
        return self if self.rate else replace(self, rate=length_of(example).rate)

    @cached_property
    def frames(self) -> Frames:
        masks = SpecAugment(self.time_masks, self.longest_mask, 0.5, self.frequency_masks, self.widest_mask)
        return Frames(
            LogMel(self.rate, self.num_mels, self.window_ms, self.hop_ms, range_db=self.range_db, cepstra=self.cepstra),
            self.normalisation,
            self.deltas,
            self.stack,
            augmentation=masks if self.time_masks or self.frequency_masks else None,
            vocal_tract=VocalTract(self.vocal_tract) if self.vocal_tract else None,
            convolve=self.convolve,
        )

    def source(self) -> Frames:
        return self.frames

    def measured(self, example: Any) -> Input:
        frames, rate = length_of(example)
        if not frames:
            raise UserError(f"{example}: the sound is empty; leave it out")
        return Input(example, self.frames.num_positions(ceil(frames * self.rate / rate)))

    def samples(self) -> tuple[FileBytes, ...]:
        return sample_digits()

    def resampled(self, example: Any) -> Tensor:
        """The samples of a sound, resampled to the reader's rate."""
        sound = sound_of(example)
        return sound.samples if sound.rate == self.rate else resample(sound.samples, sound.rate, self.rate)

    def read(self, example: Any) -> Tensor:
        return self.frames.read(self.resampled(example))

    def collated(self, examples: Any) -> Any:
        return self.frames.collate_read(examples)

    def places(self, example: Any, length: int) -> list[str]:
        return [f"{time:.2f} s" for time in self.times(length, self.frames.step)]

    def times(self, count: int, step: int = 1) -> tuple[float, ...]:
        """The start times, in seconds, of `count` frames, `step` apart."""
        return tuple(round(number * step * self.hop_ms / 1000, 6) for number in range(count))

    def layout(self, example: Any, length: int) -> Layout:
        return Layout(
            tuple(self.places(example, length)), self.unit, axis="time (s)", at=self.times(length, self.frames.step)
        )

    def canvas(self, example: Any) -> Canvas:
        """The log-mel spectrogram: bands, or cepstral coefficients, from the highest down, by frames."""
        samples, features = self.resampled(example), self.frames.features
        assert isinstance(features, LogMel)
        bands = features(samples)  # (frames, bands)
        count, places = len(bands), self.frames.num_positions(len(samples))

        def by_band(entries: Tensor) -> Tensor:
            """The entries of each frame before stacking (frames, deltas, bands)."""
            return entries.reshape(-1, 1 + self.deltas, features.num_features)[:count]

        return Canvas(
            as_levels(bands.mT.flip(0)),
            spread=lambda entries: by_band(entries).sum(1).mT.flip(0),
            cells=torch.arange(places),
            grid=(1, places),
            rows=tuple(reversed(band_names(features))),
            columns=tuple(f"{time:.2f}" for time in self.times(count)),
            row_label="coefficient" if self.cepstra else "mel band",
            column_label="time (s)",
            length=len(samples) / self.rate,
            unit="seconds",
            name="log-mel",
        )


def band_names(features: LogMel) -> list[str]:
    """The name of each feature of a frame."""
    return (
        [f"c{number}" for number in range(features.cepstra)]
        if features.cepstra
        else [f"{hz:.0f} Hz" for hz in centres(features)]
    )


def sound_of(example: Any) -> Sound:
    """The samples of a file (by its path or its bytes), of a recording, or of a `Sound`."""
    if isinstance(example, Sound):
        return example
    if isinstance(example, (str, Path)):
        return read_sound(example)
    if not hasattr(example, "sound"):
        name = getattr(example, "id", type(example).__name__)
        raise UserError(f"{name}: this is not a sound; choose data of sounds, or another reader (task.input)")
    sound: Sound = example.sound()
    return sound


def length_of(example: Any) -> Length:
    """The length of a sound; of a file, read from its header."""
    if isinstance(example, (str, Path)):
        return sound_length(example)
    if hasattr(example, "length"):
        length: Length = example.length()
        return length
    sound = sound_of(example)
    return Length(len(sound.samples), sound.rate)
