"""Sound files that are truncated, damaged, empty, enormous or not sound: one sentence each, with the file's name."""

import gzip
import io
import os
import random
import socket
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

from clew.core.errors import UserError
from clew.data.sounds.sound_files import read_sound, sound_length
from tests.data.riff import chunk, extensible, form, pcm, riff
from tests.data.written import refusal, write

PCM = chunk(b"data", pcm(*range(50)))


def encoded(format: str, codec: str | None = None, length: int = 6000) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, 0.5 * np.sin(np.arange(length) / 9), 16_000, format=format, subtype=codec)
    return buffer.getvalue()


def floats(*values: float, kind: str = "f") -> bytes:
    return riff(form(3, bits=32 if kind == "f" else 64), chunk(b"data", struct.pack(f"<{len(values)}{kind}", *values)))


FLAC, OGG, MP3 = encoded("FLAC"), encoded("OGG"), encoded("MP3")
WHOLE = riff(form(), PCM)
NO_SOUND = "this is not a sound file in a known format (WAV, FLAC, Ogg, MP3, AIFF, AU); it begins with"
BROKEN: dict[str, tuple[bytes, str]] = {
    # empty
    "nothing.wav": (b"", "the file is empty; use a sound file"),
    "nothing.mp3": (b"", "the file is empty; use a sound file"),
    "no-samples.wav": (riff(form(), chunk(b"data", b"")), "the sound has no samples; use a file with at least one"),
    "no-samples-then-list.wav": (
        riff(form(), chunk(b"data", b""), chunk(b"LIST", b"INFO")),
        "the sound has no samples",
    ),
    "half-a-sample.wav": (riff(form(), chunk(b"data", b"\1")), "the sound has no samples"),
    "half-a-frame.wav": (
        riff(form(channels=8), chunk(b"data", pcm(1, 2, 3))),
        "the sound has no samples",
    ),
    "streamed-nothing.wav": (
        riff(form(), chunk(b"data", b"", size=0xFFFFFFFF)),
        "the sound has no samples",
    ),
    "no-samples.aiff": (encoded("AIFF", length=0), "the sound has no samples"),
    "no-samples.ogg": (encoded("OGG", length=0), "the sound has no samples"),
    # truncated
    "r.wav": (WHOLE[:1], f"{NO_SOUND} b'R'"),
    "riff.wav": (WHOLE[:4], "this is not a WAV file, which begins with RIFF, a size and WAVE; it begins with b'RIFF'"),
    "riff-size.wav": (WHOLE[:8], "this is not a WAV file"),
    "riff-wave.wav": (
        WHOLE[:12],
        "the file is truncated: it ends before the chunk with the encoding (fmt); copy it again",
    ),
    "in-an-id.wav": (
        WHOLE[:15],
        "the file is truncated: it ends before the chunk with the encoding (fmt); copy it again",
    ),
    "in-the-form.wav": (
        WHOLE[:30],
        "the chunk with the encoding (fmt) has 10 bytes, but needs 16, so the file is damaged",
    ),
    "after-the-form.wav": (
        WHOLE[:36],
        "the file is truncated: it ends before the chunk with the samples (data); copy it again",
    ),
    "in-the-size.wav": (
        WHOLE[:41],
        "the file is truncated: it ends before the chunk with the samples (data); copy it again",
    ),
    "before-the-samples.wav": (
        WHOLE[:44],
        "the file is truncated: its header says 50 frames, but it has 0; copy it again",
    ),
    "in-the-samples.wav": (
        WHOLE[:77],
        "its header says 50 frames, but it has 16; copy it again, or read these with stop=16",
    ),
    "one-byte-less.wav": (WHOLE[:-1], "its header says 50 frames, but it has 49"),
    "in-a-list.wav": (
        riff(form(), chunk(b"LIST", b"INFO", size=900)),
        "before the chunk with the samples (data); copy it again",
    ),
    "cut.flac": (FLAC[: len(FLAC) // 2], "cannot be read as FLAC: "),
    "head.flac": (FLAC[:4], "cannot be read as FLAC: "),
    "head.ogg": (OGG[:40], "cannot be read as Ogg: "),
    "cut.mp3": (MP3[: len(MP3) // 2], "its header says 6,000 frames, but it has "),
    "head.mp3": (b"ID3\x04\0\0\0\0\0\0", "cannot be read as MP3: "),
    "cut.aiff": (encoded("AIFF")[:20], "cannot be read as AIFF: "),
    # impossible headers
    "not-wave.wav": (riff(form(), PCM, kind=b"AVI "), "this is not a WAV file"),
    "only-zeros.wav": (
        b"RIFF\0\0\0\0WAVE" + bytes(100_000),
        "the file has more than 10,000 chunks without samples, so it is damaged or not a WAV file; copy it again",
    ),
    "data-first.wav": (
        riff(PCM, form()),
        "its samples come before the chunk with their encoding (fmt); convert it again",
    ),
    "short-form.wav": (
        riff(chunk(b"fmt ", bytes(14)), PCM),
        "(fmt) has 14 bytes, but needs 16, so the file is damaged",
    ),
    "no-channels.wav": (
        riff(form(channels=0, block=2), PCM),
        "the header says 0 channels, but only 1 to 1,024 are possible",
    ),
    "channels.wav": (riff(form(channels=65_535), PCM), "the header says 65,535 channels, but only 1 to 1,024"),
    "no-rate.wav": (riff(form(rate=0), PCM), "the header says 0 samples per second, but only 1 to 10,000,000"),
    "rate.wav": (riff(form(rate=2**32 - 1), PCM), "the header says 4,294,967,295 samples per second"),
    "no-bits.wav": (
        riff(form(bits=0), PCM),
        "pcm samples of 0 bits, 1 in a frame of 0 bytes, are not supported",
    ),
    "bits.wav": (riff(form(bits=65_000), PCM), "pcm samples of 65000 bits"),
    "more-bits-than-bytes.wav": (
        riff(form(bits=24, block=2), PCM),
        "pcm samples of 24 bits, 1 in a frame of 2 bytes",
    ),
    "pcm-64.wav": (riff(form(bits=64), PCM), "pcm samples of 64 bits, 1 in a frame of 8 bytes"),
    "float-16.wav": (riff(form(3, bits=16), PCM), "float samples of 16 bits, 1 in a frame of 2 bytes"),
    "uneven-frames.wav": (
        riff(form(channels=2, block=5), PCM),
        "pcm samples of 16 bits, 2 in a frame of 5 bytes",
    ),
    # codecs
    "adpcm.wav": (
        encoded("WAV", "IMA_ADPCM"),
        "its codec is IMA ADPCM (0x0011); only PCM, floats and G.711 are supported; convert it, e.g. ffmpeg",
    ),
    "ms-adpcm.wav": (encoded("WAV", "MS_ADPCM"), "its codec is Microsoft ADPCM (0x0002)"),
    "gsm.wav": (encoded("WAV", "GSM610"), "its codec is GSM 6.10 (0x0031)"),
    "mp3-in.wav": (riff(form(0x55), PCM), "its codec is MP3 (0x0055)"),
    "codec-0.wav": (riff(form(0), PCM), "its codec is unknown (0x0000)"),
    "guid.wav": (
        riff(extensible(guid=bytes(14)), PCM),
        "its codec has the GUID 01000000000000000000000000000000, which is not supported",
    ),
    "short-guid.wav": (riff(form(0xFFFE, more=b"\x16\0"), PCM), "its codec has the GUID of no bytes"),
    "extensible-twice.wav": (riff(extensible(0xFFFE), PCM), "its codec is unknown (0xfffe)"),
    # enormous
    "gigantic.wav": (
        riff(form(), chunk(b"data", pcm(1, 2), size=4_000_000_000)),
        "says 2,000,000,000 frames, but it has 2",
    ),
    "trillion.wav": (
        riff(
            chunk(b"ds64", struct.pack("<QQQI", 0, 2 * 10**12, 10**12, 0)),
            form(),
            chunk(b"data", pcm(1, 2), size=0xFFFFFFFF),
            id=b"RF64",
        ),
        "its header says 1,000,000,000,000 frames, but it has 2; copy it again, or read these with stop=2",
    ),
    "billions.flac": (FLAC[:21] + b"\xff\xff\xff\xff\xff" + FLAC[26:], "68,719,476,735 samples would need "),
    "no-length.flac": (
        FLAC[:21] + bytes([FLAC[21] & 0xF0]) + bytes(4) + FLAC[26:],
        "its header does not contain its length; write it again, to a file instead of a pipe",
    ),
    # missing or invalid samples
    "nan.wav": (floats(0.5, float("nan"), 0.5), "sample 1 is not a finite number; save the file again with"),
    "infinite.wav": (floats(0.5, 0.1, float("-inf")), "sample 2 is not a finite number"),
    "too-large.wav": (floats(1e300, 0.0, kind="d"), "sample 0 is not a finite number"),
    # other kinds of files
    "text.wav": (b"three one four\n", f"{NO_SOUND} b'three one four\\n'"),
    "page.wav": (b"<!DOCTYPE html><html>404 not found</html>", f"{NO_SOUND} b'<!DOCTYPE html><'"),
    "pointer.wav": (b"version https://git-lfs.github.com/spec/v1\n", f"{NO_SOUND} b'version https://'"),
    "json.mp3": (b'{"a": 1}', f"{NO_SOUND} b'" + '{"a": 1}'),
    "utf-16.mp3": ("\ufeffthree".encode("utf-16-le"), "cannot be read as MP3: "),
    "png.wav": (b"\x89PNG\r\n\x1a\n" + bytes(20), NO_SOUND),
    "zeros.mp3": (bytes(1000), NO_SOUND),
    "song.m4a": (
        b"\0\0\0 ftypM4A \0\0\0\0",
        "this is MPEG-4 audio, which is not supported; convert it, e.g. ffmpeg -i IN OUT.wav",
    ),
    "video.wav": (b"\x1aE\xdf\xa3\x01\0\0\0\0\0\0\x1f", "this is Matroska or WebM, which is not supported"),
    "windows.wma": (bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"), "this is Windows Media, which is not supported"),
    "big-endian.wav": (riff(form(), PCM, id=b"RIFX"), "this is big-endian WAV (RIFX), which is not supported"),
    "notes.mid": (b"MThd\0\0\0\6\0\1\0\1\1\xe0", "this is MIDI (notes, no sound), which is not supported"),
    "phone.amr": (b"#!AMR\n\x3c", "this is AMR, which is not supported"),
    "packed.wav": (gzip.compress(WHOLE), "this is a gzip file, which is not supported"),
    "archive.wav": (b"PK\x03\x04\x14\0\0\0\0\0", "this is a zip file, which is not supported"),
    "shuffled.flac": (FLAC[:42] + bytes(reversed(FLAC[42:])), "cannot be read as FLAC: "),
    "mp3-noise.mp3": (b"\xff\xfb" + bytes(random.Random(1).randbytes(400)), "cannot be read as MP3: "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_in_a_sentence_with_its_name(name: str, tmp_path: Path) -> None:
    content, sentence = BROKEN[name]
    path = write(tmp_path / name, content)
    message = refusal(lambda: read_sound(path))
    assert message.startswith(f"{path}: ") and sentence in message and "\n" not in message and len(message) < 400
    try:
        assert sound_length(path).frames > 0, "only its samples are broken"
    except UserError as error:
        assert str(error).startswith(f"{path}: ")


def test_there_are_sixty_broken_files() -> None:
    assert len(BROKEN) >= 60


def test_paths_that_are_not_files_are_rejected_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "folder.wav").mkdir()
    assert refusal(lambda: read_sound(tmp_path / "folder.wav")).startswith(
        f"{tmp_path / 'folder.wav'}: this is a folder; name a file in it"
    )
    os.mkfifo(tmp_path / "pipe.wav")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "socket.wav"))
    (tmp_path / "loop.wav").symlink_to(tmp_path / "loop.wav")
    for name, sentence in (
        (
            "pipe.wav",
            f"{tmp_path / 'pipe.wav'}: this is a pipe or a device; save its output to a file, and give that file",
        ),
        ("socket.wav", f"{tmp_path / 'socket.wav'}: this is a pipe or a device"),
        ("missing.wav", f"no such file: {tmp_path / 'missing.wav'}; "),
        ("loop.wav", f"{tmp_path / 'loop.wav'}"),
    ):
        for reader in (read_sound, sound_length):
            done: list[str] = []
            thread = threading.Thread(
                target=lambda reader=reader, name=name, done=done: done.append(refusal(lambda: reader(tmp_path / name)))
            )
            thread.start()
            thread.join(10)
            assert done and sentence in done[0], name
    server.close()
    assert (
        refusal(lambda: read_sound("/dev/zero"))
        == "/dev/zero: this is a pipe or a device; save its output to a file, and give that file"
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read anything")
def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "closed.wav", WHOLE)
    path.chmod(0)
    assert refusal(lambda: read_sound(path)) == f"{path}: cannot be read: Permission denied"


@pytest.mark.parametrize("format", ["WAV", "WAVEX", "FLAC", "AIFF"])
def test_damaged_bytes_give_sound_or_a_sentence_with_the_file_name(format: str, tmp_path: Path) -> None:
    whole, draw = encoded(format, length=500), random.Random(format)
    for _ in range(80):
        content = bytearray(whole)
        for _ in range(draw.choice([1, 1, 4])):
            content[draw.randrange(min(len(content), draw.choice([60, len(content)])))] = draw.choice(
                [0, 255, draw.randrange(256)]
            )
        if draw.random() < 0.3:
            content = content[: draw.randrange(len(content))]
        path = write(tmp_path / "a.wav", bytes(content))
        try:
            assert read_sound(path).samples.isfinite().all()
        except UserError as error:
            assert str(error).startswith(f"{path}: ")
