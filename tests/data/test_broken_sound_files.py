"""Sound files that are cut short, damaged, empty, enormous or something else: a sentence each, with the file's name."""

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
NO_SOUND = "this is no sound file that can be read: it begins with"
CUT = "it was cut short; copy it again"
BROKEN: dict[str, tuple[bytes, str]] = {
    # empty
    "nothing.wav": (b"", "the file is empty; give one with sound in it"),
    "nothing.mp3": (b"", "the file is empty; give one with sound in it"),
    "no-samples.wav": (riff(form(), chunk(b"data", b"")), "there is no sound in it: it has 0 frames"),
    "no-samples-then-list.wav": (
        riff(form(), chunk(b"data", b""), chunk(b"LIST", b"INFO")),
        "there is no sound in it: it has 0 frames",
    ),
    "half-a-sample.wav": (riff(form(), chunk(b"data", b"\1")), "there is no sound in it: it has 0 frames"),
    "half-a-frame.wav": (
        riff(form(channels=8), chunk(b"data", pcm(1, 2, 3))),
        "there is no sound in it: it has 0 frames",
    ),
    "streamed-nothing.wav": (
        riff(form(), chunk(b"data", b"", size=0xFFFFFFFF)),
        "there is no sound in it: it has 0 frames",
    ),
    "no-samples.aiff": (encoded("AIFF", length=0), "there is no sound in it: it has 0 frames"),
    "no-samples.ogg": (encoded("OGG", length=0), "there is no sound in it: it has 0 frames"),
    # cut short
    "r.wav": (WHOLE[:1], f"{NO_SOUND} b'R'"),
    "riff.wav": (WHOLE[:4], "this is no WAV file, which begins with RIFF, a size and WAVE; it begins with b'RIFF'"),
    "riff-size.wav": (WHOLE[:8], "this is no WAV file"),
    "riff-wave.wav": (WHOLE[:12], f"the file ends before the chunk that says how samples are written (fmt); {CUT}"),
    "in-an-id.wav": (WHOLE[:15], f"the file ends before the chunk that says how samples are written (fmt); {CUT}"),
    "in-the-form.wav": (
        WHOLE[:30],
        "the chunk that says how samples are written (fmt) has 10 bytes, and needs 16; it is damaged",
    ),
    "after-the-form.wav": (WHOLE[:36], f"the file ends before the chunk that has the samples (data); {CUT}"),
    "in-the-size.wav": (WHOLE[:41], f"the file ends before the chunk that has the samples (data); {CUT}"),
    "before-the-samples.wav": (WHOLE[:44], f"the header tells of 50 frames and the file has 0; {CUT}"),
    "in-the-samples.wav": (
        WHOLE[:77],
        f"the header tells of 50 frames and the file has 16; {CUT}, or read what is there with stop=16",
    ),
    "one-byte-less.wav": (WHOLE[:-1], "the header tells of 50 frames and the file has 49"),
    "in-a-list.wav": (
        riff(form(), chunk(b"LIST", b"INFO", size=900)),
        f"before the chunk that has the samples (data); {CUT}",
    ),
    "cut.flac": (FLAC[: len(FLAC) // 2], "cannot be read as FLAC: "),
    "head.flac": (FLAC[:4], "cannot be read as FLAC: "),
    "head.ogg": (OGG[:40], "cannot be read as Ogg: "),
    "cut.mp3": (MP3[: len(MP3) // 2], "the header tells of 6,000 frames and the file has "),
    "head.mp3": (b"ID3\x04\0\0\0\0\0\0", "cannot be read as MP3: "),
    "cut.aiff": (encoded("AIFF")[:20], "cannot be read as AIFF: "),
    # a header that cannot be
    "not-wave.wav": (riff(form(), PCM, kind=b"AVI "), "this is no WAV file"),
    "only-zeros.wav": (
        b"RIFF\0\0\0\0WAVE" + bytes(100_000),
        "there are more than 10,000 chunks and no samples in them",
    ),
    "data-first.wav": (
        riff(PCM, form()),
        "its samples stand before the chunk that says how they are written (fmt); convert it anew",
    ),
    "short-form.wav": (riff(chunk(b"fmt ", bytes(14)), PCM), "(fmt) has 14 bytes, and needs 16; it is damaged"),
    "no-channels.wav": (
        riff(form(channels=0, block=2), PCM),
        "the header tells of 0 channels, and there are 1 to 1,024",
    ),
    "channels.wav": (riff(form(channels=65_535), PCM), "the header tells of 65,535 channels, and there are 1 to 1,024"),
    "no-rate.wav": (riff(form(rate=0), PCM), "the header tells of 0 samples a second, and there are 1 to 10,000,000"),
    "rate.wav": (riff(form(rate=2**32 - 1), PCM), "the header tells of 4,294,967,295 samples a second"),
    "no-bits.wav": (
        riff(form(bits=0), PCM),
        "samples of 0 bits as pcm, in frames of 0 bytes with 1 of them, are not read",
    ),
    "bits.wav": (riff(form(bits=65_000), PCM), "samples of 65000 bits as pcm"),
    "more-bits-than-bytes.wav": (
        riff(form(bits=24, block=2), PCM),
        "samples of 24 bits as pcm, in frames of 2 bytes with 1 of them",
    ),
    "pcm-64.wav": (riff(form(bits=64), PCM), "samples of 64 bits as pcm, in frames of 8 bytes"),
    "float-16.wav": (riff(form(3, bits=16), PCM), "samples of 16 bits as float, in frames of 2 bytes"),
    "uneven-frames.wav": (
        riff(form(channels=2, block=5), PCM),
        "samples of 16 bits as pcm, in frames of 5 bytes with 2 of them",
    ),
    # codecs
    "adpcm.wav": (
        encoded("WAV", "IMA_ADPCM"),
        "its codec is IMA ADPCM (0x0011); PCM, floats and G.711 are read; convert it, e.g. ffmpeg",
    ),
    "ms-adpcm.wav": (encoded("WAV", "MS_ADPCM"), "its codec is Microsoft ADPCM (0x0002)"),
    "gsm.wav": (encoded("WAV", "GSM610"), "its codec is GSM 6.10 (0x0031)"),
    "mp3-in.wav": (riff(form(0x55), PCM), "its codec is MP3 (0x0055)"),
    "codec-0.wav": (riff(form(0), PCM), "its codec is unknown (0x0000)"),
    "guid.wav": (
        riff(extensible(guid=bytes(14)), PCM),
        "its codec is told by the GUID 01000000000000000000000000000000, which is not read",
    ),
    "short-guid.wav": (riff(form(0xFFFE, more=b"\x16\0"), PCM), "its codec is told by the GUID of no bytes"),
    "extensible-twice.wav": (riff(extensible(0xFFFE), PCM), "its codec is unknown (0xfffe)"),
    # enormous
    "gigantic.wav": (
        riff(form(), chunk(b"data", pcm(1, 2), size=4_000_000_000)),
        "tells of 2,000,000,000 frames and the file has 2",
    ),
    "trillion.wav": (
        riff(
            chunk(b"ds64", struct.pack("<QQQI", 0, 2 * 10**12, 10**12, 0)),
            form(),
            chunk(b"data", pcm(1, 2), size=0xFFFFFFFF),
            id=b"RF64",
        ),
        f"the header tells of 1,000,000,000,000 frames and the file has 2; {CUT}, or read what is there with stop=2",
    ),
    "billions.flac": (FLAC[:21] + b"\xff\xff\xff\xff\xff" + FLAC[26:], "68,719,476,735 samples would need "),
    "no-length.flac": (
        FLAC[:21] + bytes([FLAC[21] & 0xF0]) + bytes(4) + FLAC[26:],
        "its header does not tell how long it is",
    ),
    # samples that are none
    "nan.wav": (floats(0.5, float("nan"), 0.5), "sample 1 is no finite number; write the file anew, with integers"),
    "infinite.wav": (floats(0.5, 0.1, float("-inf")), "sample 2 is no finite number"),
    "too-large.wav": (floats(1e300, 0.0, kind="d"), "sample 0 is no finite number"),
    # something else
    "text.wav": (b"three one four\n", f"{NO_SOUND} b'three one four\\n'; WAV, FLAC, Ogg, MP3, AIFF, AU are read"),
    "page.wav": (b"<!DOCTYPE html><html>404 not found</html>", f"{NO_SOUND} b'<!DOCTYPE html><'"),
    "pointer.wav": (b"version https://git-lfs.github.com/spec/v1\n", f"{NO_SOUND} b'version https://'"),
    "json.mp3": (b'{"a": 1}', f"{NO_SOUND} b'" + '{"a": 1}'),
    "utf-16.mp3": ("\ufeffthree".encode("utf-16-le"), "cannot be read as MP3: "),
    "png.wav": (b"\x89PNG\r\n\x1a\n" + bytes(20), NO_SOUND),
    "zeros.mp3": (bytes(1000), NO_SOUND),
    "song.m4a": (
        b"\0\0\0 ftypM4A \0\0\0\0",
        "this is MPEG-4 audio, which is not read; convert it, e.g. ffmpeg -i IN OUT.wav",
    ),
    "video.wav": (b"\x1aE\xdf\xa3\x01\0\0\0\0\0\0\x1f", "this is Matroska or WebM, which is not read"),
    "windows.wma": (bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c"), "this is Windows Media, which is not read"),
    "big-endian.wav": (riff(form(), PCM, id=b"RIFX"), "this is big-endian WAV (RIFX), which is not read"),
    "notes.mid": (b"MThd\0\0\0\6\0\1\0\1\1\xe0", "this is MIDI (notes, no sound), which is not read"),
    "phone.amr": (b"#!AMR\n\x3c", "this is AMR, which is not read"),
    "packed.wav": (gzip.compress(WHOLE), "this is a gzip file, which is not read"),
    "archive.wav": (b"PK\x03\x04\x14\0\0\0\0\0", "this is a zip file, which is not read"),
    "shuffled.flac": (FLAC[:42] + bytes(reversed(FLAC[42:])), "cannot be read as FLAC: "),
    "mp3-noise.mp3": (b"\xff\xfb" + bytes(random.Random(1).randbytes(400)), "cannot be read as MP3: "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_in_a_sentence_with_its_name(name: str, tmp_path: Path) -> None:
    content, sentence = BROKEN[name]
    path = write(tmp_path / name, content)
    told = refusal(lambda: read_sound(path))
    assert told.startswith(f"{path}: ") and sentence in told and "\n" not in told and len(told) < 400
    try:
        assert sound_length(path).frames > 0, "only its samples are broken"
    except UserError as error:
        assert str(error).startswith(f"{path}: ")


def test_there_are_sixty_of_them() -> None:
    assert len(BROKEN) >= 60


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
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
            f"{tmp_path / 'pipe.wav'}: this is a pipe or a device; write what comes from it to a file, and name that",
        ),
        ("socket.wav", f"{tmp_path / 'socket.wav'}: this is a pipe or a device"),
        ("missing.wav", f"no such file: {tmp_path / 'missing.wav'}; "),
        ("loop.wav", f"{tmp_path / 'loop.wav'}"),
    ):
        for read in (read_sound, sound_length):
            done: list[str] = []
            thread = threading.Thread(
                target=lambda read=read, name=name, done=done: done.append(refusal(lambda: read(tmp_path / name)))
            )
            thread.start()
            thread.join(10)
            assert done and sentence in done[0], name
    server.close()
    assert (
        refusal(lambda: read_sound("/dev/zero"))
        == "/dev/zero: this is a pipe or a device; write what comes from it to a file, and name that"
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "closed.wav", WHOLE)
    path.chmod(0)
    assert refusal(lambda: read_sound(path)) == f"{path}: cannot be read: Permission denied"


@pytest.mark.parametrize("format", ["WAV", "WAVEX", "FLAC", "AIFF"])
def test_a_damaged_byte_gives_sound_or_a_sentence(format: str, tmp_path: Path) -> None:
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
