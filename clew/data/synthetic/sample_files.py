"""Sample files to try a model on: drawn scenes, lines of writing, and spoken digits of the embedded recordings."""

import io
import wave
from dataclasses import replace
from functools import lru_cache

import numpy as np

from clew.data.corpora.samples import sample_path
from clew.data.examples import Picture
from clew.data.files.file_bytes import FileBytes
from clew.data.sounds.sound_files import Sound
from clew.data.sounds.spoken_digits import digit_strings, read_recordings
from clew.data.synthetic.drawn_lines import drawn_lines
from clew.data.synthetic.scenes import boxes_across, scenes
from clew.drawing.png import png

SEED = 3


@lru_cache(maxsize=1)
def sample_scenes() -> tuple[FileBytes, ...]:
    """Pictures with the boxes of their objects, from left to right."""
    drawn = enumerate(scenes(3, SEED, "valid", fewest=2), start=1)
    return tuple(replace(as_png(scene, f"scene {number}"), boxes=boxes_across(scene)) for number, scene in drawn)


@lru_cache(maxsize=1)
def sample_lines() -> tuple[FileBytes, ...]:
    return tuple(as_png(line, line.text) for line in drawn_lines(3, 2, 4, SEED))


@lru_cache(maxsize=1)
def sample_digits() -> tuple[FileBytes, ...]:
    """Recordings of a speaker that is not in training."""
    recordings = list(read_recordings(sample_path("digits") / "test.tar"))
    strings = [*digit_strings(recordings, 2, 3, 3, SEED), *digit_strings(recordings, 1, 1, 1, SEED)]
    return tuple(as_wav(string.sound(), string.text) for string in strings)


def as_png(picture: Picture, name: str) -> FileBytes:
    return FileBytes(f"{name}.png", png(picture.pixels("rgb")))


def as_wav(sound: Sound, name: str) -> FileBytes:
    """Return a sound as a WAV file of 16 bits."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(sound.rate)
        written.writeframes((sound.samples.numpy().clip(-1, 1) * 32767).round().astype(np.dtype("<i2")).tobytes())
    return FileBytes(f"{name}.wav", file.getvalue())
