"""Sound files against the standard library and libsndfile, and unusual RIFF files."""

import io
import math
import struct
import sys
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from clew.data.sounds.sound_files import Length, Sound, read_sound, sound_length
from tests.data.riff import chunk, extensible, form, pcm, riff
from tests.data.written import refusal, write

SAMPLES = (1, -2, 300, -32768, 32767)
EXPECTED = [sample / 32768 for sample in SAMPLES]


def noise(length: int = 1001, channels: int = 2) -> np.ndarray:
    return np.random.default_rng(0).uniform(-0.9, 0.9, (length, channels))


def test_pcm_is_read_like_the_standard_library(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((2, 2, 11_025, 0, "NONE", ""))
        file.writeframes((32767 * noise()).astype("<i2").tobytes())
    with wave.open(str(path)) as file:
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2)
    sound = read_sound(path)
    assert sound.rate == 11_025 and sound.samples.dtype == torch.float32
    np.testing.assert_allclose(sound.samples.numpy(), (frames / 32768).mean(1), atol=1e-7)
    assert sound_length(str(path)) == (1001, 11_025) and sound.seconds == sound_length(path).seconds == 1001 / 11_025


@pytest.mark.parametrize(
    ("format", "codec", "ending"),
    [
        ("WAV", "PCM_U8", "wav"),
        ("WAV", "PCM_16", "wav"),
        ("WAV", "PCM_24", "wav"),
        ("WAV", "PCM_32", "wav"),
        ("WAV", "FLOAT", "wav"),
        ("WAV", "DOUBLE", "wav"),
        ("WAV", "ALAW", "wav"),
        ("WAV", "ULAW", "wav"),
        ("WAVEX", "PCM_24", "wav"),
        ("WAVEX", "FLOAT", "wav"),
        ("WAVEX", "ALAW", "wav"),
        ("RF64", "PCM_16", "wav"),
        ("FLAC", "PCM_16", "flac"),
        ("FLAC", "PCM_24", "wav"),  # a format is detected by content
        ("OGG", "VORBIS", "ogg"),
        ("MP3", "MPEG_LAYER_III", "mp3"),
        ("AIFF", "PCM_16", "aiff"),
        ("AU", "PCM_16", "au"),
    ],
)
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_every_format_is_read_like_libsndfile(
    format: str, codec: str, ending: str, channels: int, tmp_path: Path
) -> None:
    if format == "MP3" and channels > 2:
        channels = 1
    path = tmp_path / f"a.{ending}"
    soundfile.write(path, noise(channels=channels), 16_000, format=format, subtype=codec)
    expected, rate = soundfile.read(path, dtype="float32", always_2d=True)
    sound = read_sound(path)
    np.testing.assert_allclose(sound.samples.numpy(), expected.mean(1, dtype=np.float64), atol=1e-7)
    assert sound.rate == rate == 16_000 and sound_length(path) == Length(len(expected), 16_000)
    part = read_sound(path, 333, 444)
    torch.testing.assert_close(part.samples, sound.samples[333:444], atol=2e-7, rtol=0)
    torch.testing.assert_close(read_sound(path, start=900).samples, sound.samples[900:], atol=2e-7, rtol=0)


GOOD = {
    "plain": riff(form(), chunk(b"data", pcm(*SAMPLES))),
    "a size of 0 in front, as of a stream": riff(form(), chunk(b"data", pcm(*SAMPLES)), size=0),
    "a list before": riff(chunk(b"LIST", b"INFOISFT\x04\0\0\0clew"), form(), chunk(b"data", pcm(*SAMPLES))),
    "a list between": riff(
        form(), chunk(b"LIST", b"INFO"), chunk(b"fact", b"\x05\0\0\0"), chunk(b"data", pcm(*SAMPLES))
    ),
    "a list behind": riff(form(), chunk(b"data", pcm(*SAMPLES)), chunk(b"LIST", b"INFOx")),
    "an odd chunk with its byte": riff(form(), chunk(b"note", b"odd"), chunk(b"data", pcm(*SAMPLES))),
    "an odd chunk without its byte": riff(form(), chunk(b"note", b"odd", padded=False), chunk(b"data", pcm(*SAMPLES))),
    "an odd chunk of strange bytes": riff(form(), chunk(b"\xff\x00\x01\x02", b"odd"), chunk(b"data", pcm(*SAMPLES))),
    "an odd number of bytes": riff(form(), chunk(b"data", pcm(*SAMPLES) + b"\1")),
    "streamed, 0": riff(form(), chunk(b"data", pcm(*SAMPLES), size=0), size=0),
    "streamed, 0xffffffff": riff(form(), chunk(b"data", pcm(*SAMPLES), size=0xFFFFFFFF), size=0xFFFFFFFF),
    "streamed by sox": riff(form(), chunk(b"data", pcm(*SAMPLES), size=0x7FFFF000)),
    "streamed, with an odd byte": riff(form(), chunk(b"data", pcm(*SAMPLES) + b"\1", size=0xFFFFFFFF, padded=False)),
    "a longer form": riff(form(more=b"\0\0"), chunk(b"data", pcm(*SAMPLES))),
    "extensible": riff(extensible(), chunk(b"data", pcm(*SAMPLES))),
    "64-bit sizes": riff(
        chunk(b"ds64", struct.pack("<QQQI", 99, 10, 5, 0)), form(),
        chunk(b"data", pcm(*SAMPLES), size=0xFFFFFFFF), chunk(b"LIST", b"x"),
        id=b"RF64", size=0xFFFFFFFF,
    ),
    "12 bits in 16": riff(form(bits=12, block=2), chunk(b"data", pcm(*SAMPLES))),
    "16 bits in 24": riff(form(bits=24), chunk(b"data", b"".join(b"\0" + pcm(sample) for sample in SAMPLES))),
    "20 bits in 24": riff(form(bits=20, block=3), chunk(b"data", b"".join(b"\0" + pcm(sample) for sample in SAMPLES))),
    "24 bits in 32": riff(form(bits=32), chunk(b"data", b"".join(b"\0\0" + pcm(sample) for sample in SAMPLES))),
    "floats": riff(form(3, bits=32), chunk(b"data", struct.pack("<5f", *EXPECTED))),
    "long floats, extensible": riff(extensible(3, bits=64), chunk(b"data", struct.pack("<5d", *EXPECTED))),
    "two channels": riff(form(channels=2), chunk(b"data", pcm(*(sample for one in SAMPLES for sample in (one, one))))),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_an_unusual_file_is_read(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", GOOD[name])
    assert read_sound(path).samples.tolist() == EXPECTED
    assert sound_length(path) == (5, 8000)
    assert read_sound(path, 1, 3).samples.tolist() == EXPECTED[1:3]


def test_g711_codes_decode_to_their_known_values(tmp_path: Path) -> None:
    """The ends and the middle of each curve, as 16-bit integers."""
    for code, expected in (
        (7, {0x00: -32124, 0x7F: 0, 0x80: 32124, 0xFF: 0, 0xFE: 8}),
        (6, {0x2A: -32256, 0xAA: 32256, 0xD5: 8, 0x55: -8, 0x80: 5504}),
    ):
        path = write(tmp_path / "a.wav", riff(form(code, bits=8), chunk(b"data", bytes(expected))))
        assert (32768 * read_sound(path).samples).tolist() == list(expected.values())


def test_channels_are_averaged_without_overflow(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", riff(form(channels=3), chunk(b"data", pcm(32767, 32767, 32767, -3, 0, 6))))
    assert (32768 * read_sound(path).samples).tolist() == [32767, 1]
    loud = struct.pack("<2f", 3e38, 3e38)
    path = write(tmp_path / "b.wav", riff(form(3, channels=2, bits=32), chunk(b"data", loud)))
    assert read_sound(path).samples.tolist() == pytest.approx([3e38])


def test_a_part_of_a_file_larger_than_memory_is_read(tmp_path: Path) -> None:
    """A sparse file of a hundred billion frames, which takes no disk space."""
    frames, path = 10**11, tmp_path / "long.wav"
    head = riff(
        chunk(b"ds64", struct.pack("<QQQI", 0, 2 * frames, frames, 0)),
        form(),
        chunk(b"data", b"", size=0xFFFFFFFF),
        id=b"RF64",
    )
    write(path, head)
    with path.open("r+b") as file:
        file.truncate(len(head) + 2 * frames)
        file.seek(len(head) + 2 * 77_777_777_777)
        file.write(pcm(*SAMPLES))
    assert sound_length(path) == (frames, 8000)
    assert read_sound(path, 77_777_777_777, 77_777_777_782).samples.tolist() == EXPECTED
    sentence = refusal(lambda: read_sound(path))
    assert sentence.startswith(f"{path}: 100,000,000,000 samples would need 400.0 GB, and this machine has ")
    assert sentence.endswith("; read a piece of it with start and stop")


def test_the_rest_of_a_truncated_file_is_read_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "cut.wav", riff(form(), chunk(b"data", pcm(*SAMPLES), size=2000)))
    assert (
        refusal(lambda: read_sound(path))
        == f"{path}: the file is truncated: its header says 1,000 frames, but it has 5; copy it again, or read these"
        " with stop=5"
    )
    assert read_sound(path, stop=5).samples.tolist() == EXPECTED
    assert refusal(lambda: read_sound(path, stop=6)).endswith(
        "start (0) must be below stop (6), and both must be from 0 to 5, its number of frames"
    )


@pytest.mark.parametrize(("start", "stop"), [(5, None), (3, 3), (4, 2), (-1, 3), (0, 6), (9, 12)])
def test_a_range_outside_the_file_is_rejected(start: int, stop: int | None, tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", GOOD["plain"])
    sentence = (
        f"start ({start}) must be below stop ({5 if stop is None else stop}), and both must be from 0 to 5, its number"
        " of frames"
    )
    assert refusal(lambda: read_sound(path, start, stop)) == f"{path}: {sentence}"


def test_without_soundfile_wav_is_read_and_others_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soundfile.write(tmp_path / "a.flac", noise(), 8000)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert len(read_sound(write(tmp_path / "a.wav", GOOD["plain"])).samples) == 5
    assert (
        refusal(lambda: read_sound(tmp_path / "a.flac"))
        == f"{tmp_path / 'a.flac'}: reading FLAC needs soundfile, which is not installed; run `pip install"
        " 'clew[sound]'`, or convert the file to WAV"
    )


def test_a_sound_read_in_parts_equals_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(5000, 3), 8000, subtype="PCM_24")
    whole = read_sound(path)
    monkeypatch.setattr("clew.data.sounds.sound_files.AT_ONCE", 1000)
    assert torch.equal(read_sound(path).samples, whole.samples)
    assert torch.equal(read_sound(path, 1234, 4321).samples, whole.samples[1234:4321])


def test_a_tone_is_read_with_its_amplitude(tmp_path: Path) -> None:
    tone = 0.5 * np.sin(2 * math.pi * 440 * np.arange(8000) / 8000)
    buffer = io.BytesIO()
    soundfile.write(buffer, tone, 8000, format="WAV", subtype="PCM_16")
    sound = read_sound(write(tmp_path / "tone.wav", buffer.getvalue()))
    assert isinstance(sound, Sound)
    np.testing.assert_allclose(sound.samples.numpy(), tone, atol=2 / 32768)
