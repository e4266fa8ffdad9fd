"""Broken, truncated, gigantic and mislabelled pictures and sounds, for readers and, beside good files, for commands.

Each must be read, or rejected with a message that names it. They must not change the answers for the good files.
"""

import io
import math
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import soundfile
from PIL import Image

from benchmarks.faults.children import temporary_folder
from benchmarks.faults.commands import by_call
from benchmarks.faults.trials import (
    LONGEST_MESSAGE,
    REJECTED,
    Fault,
    Result,
    in_this_process,
    message_problem,
    run_trials,
)
from clew.core.errors import UserError
from clew.data.pictures.picture_files import picture_size, read_picture
from clew.data.sounds.sound_files import read_sound, sound_length

FROZEN = Path(__file__).parents[2] / "tests" / "runs" / "frozen" / "format-3"


class Case(NamedTuple):
    """The name and the content of a file."""

    name: str
    content: bytes


def run(count: int, seed: int, with_commands: bool = True) -> Result:
    """Try `count` files with the readers, and all of them together with `clew caption` and `clew transcribe`."""
    cases, began = make_cases(count, seed), time.perf_counter()
    with temporary_folder("inputs") as folder:
        numbers = iter(range(count))
        fault = Fault(
            "broken pictures and sounds",
            lambda _: cases[next(numbers)],
            lambda case: attempt(case, folder),
            describe,
            smaller,
        )
        result = run_trials(fault, count, seed, in_this_process)
        for verb, inputs in COMMANDS.items() if with_commands else ():
            result.outcomes[f"rejected by clew {verb}"] = try_command(verb, inputs, cases, folder)
    result.seconds = time.perf_counter() - began
    return result


def attempt(case: Case, folder: Path) -> str:
    """Read a file as a picture and as a sound, whatever its name."""
    path = folder / case.name
    path.write_bytes(case.content)
    outcomes = {kind: read_or_reject(path, *readers) for kind, readers in READERS.items()}
    path.unlink()
    read = [kind for kind, outcome in outcomes.items() if outcome != REJECTED]
    return f"read as a {read[0]}" if read else REJECTED


def read_or_reject(
    path: Path, read: Callable[[Path], Any], measure: Callable[[Path], Any], size: Callable[[Any], Any]
) -> str:
    """Check that the header agrees with the content, and that an error message begins with the file's name."""
    try:
        content = read(path)
    except UserError as error:
        message = str(error)
        assert message.startswith(message_prefix(path)), f"no file name: {message}"
        assert not (problem := message_problem(message.removeprefix(message_prefix(path)))), problem
        try:
            measure(path)
        except UserError as error:
            assert str(error).startswith(message_prefix(path)), f"no file name: {error}"
        return REJECTED
    assert measure(path) == size(content), "the header has another size"
    return "read"


def message_prefix(path: Path) -> str:
    """Return the start of an error message about a file."""
    return str(UserError(f"{path}: "))


READERS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any], Callable[[Any], Any]]] = {
    "picture": (read_picture, picture_size, lambda pixels: tuple(pixels.shape[:2])),
    "sound": (read_sound, lambda path: sound_length(path).frames, lambda sound: len(sound.samples)),
}


class FrozenInputs(NamedTuple):
    """A frozen run, and two files that it can read."""

    run: str
    good: tuple[str, str]


COMMANDS = {
    "caption": FrozenInputs("captioning", ("0.png", "5.png")),
    "transcribe": FrozenInputs("transcription", ("0.wav", "3.wav")),
}


def try_command(verb: str, inputs: FrozenInputs, cases: list[Case], folder: Path) -> int:
    """Run one command on all files, with a good file before and after them, and return the number of rejected files.

    The answers for the good files must equal those without other files, and each other file must have an answer or one
    message. If all files are broken, an existing output file must not change.
    """
    run = FROZEN / inputs.run
    good = [run / name for name in inputs.good]
    files = [folder / case.name for case in cases]
    for path, case in zip(files, cases, strict=True):
        path.write_bytes(case.content)

    def clew(*paths: Path, out: str | None = None) -> tuple[int, list[str], list[str]]:
        options = ["--device", "cpu", *([] if out is None else ["--out", out])]
        arguments = [verb, str(run / "run"), *map(str, paths), *options]
        process = by_call([argument.encode() for argument in arguments], folder)
        return process.status, process.out.decode().splitlines(), process.err.decode().splitlines()

    status, alone, err = clew(*good)
    assert (status, err) == (0, []), err
    status, answers, messages = clew(good[0], *files, good[1])
    assert [answers[0], answers[-1]] == alone, "the answers for the good files changed"
    assert status == (2 if messages else 0), f"status {status}"
    rejected = {
        next((path for path in files if message.startswith(f"clew: {message_prefix(path)}")), None)
        for message in messages
    }
    assert None not in rejected and len(rejected) == len(messages), (
        "a message about no file, or two about the same file"
    )
    answered = {line.split("\t")[0] for line in answers[1:-1]}
    assert answered == {str(path) for path in files} - {str(path) for path in rejected}, (
        "a file with neither an answer nor a message"
    )
    for message in messages:
        problem = message_problem(message[: LONGEST_MESSAGE + len(str(folder))].replace(str(folder), ""))
        assert not problem, f"{problem}: {message}"
    broken = next(path for path in files if path in rejected)
    (folder / "answers.txt").write_text("old answers\n")
    status, _, err = clew(broken, out="answers.txt")
    assert status == 2 and len(err) == 1 and (folder / "answers.txt").read_text() == "old answers\n", (
        "old answers were overwritten"
    )
    for path in files:
        path.unlink()
    return len(rejected)


def describe(case: Case) -> str:
    return f"{case.name}: {len(case.content):,} bytes, {case.content[:24]!r}"


def smaller(case: Case) -> Iterator[Case]:
    return iter(())


def make_cases(count: int, seed: int) -> list[Case]:
    """Return the listed files, then randomly damaged ones."""
    listed = [Case(f"{number}-{name}", content) for number, (name, content) in enumerate(listed_files().items())][
        :count
    ]
    rng = Random(f"inputs {seed}")
    return [*listed, *(draw_case(rng, number) for number in range(len(listed), count))]


def draw_case(rng: Random, number: int) -> Case:
    """Draw a file of any kind with one or more damages, sometimes with a wrong suffix."""
    name = rng.choice(sorted(valid_files()))
    content = valid_files()[name]
    for _ in range(rng.choice([1, 1, 2])):
        content = rng.choice(DAMAGES)(content, rng)
    suffix = rng.choice(["png", "jpg", "wav", "mp3", "txt"]) if rng.random() < 0.2 else name
    return Case(f"{number}-{name}.{suffix}", content)


def cut(content: bytes, rng: Random) -> bytes:
    return content[: int(rng.random() * len(content))]


def flip(content: bytes, rng: Random) -> bytes:
    """Flip up to ten bits, most of them in the header."""
    damaged = bytearray(content or b"\0")
    for _ in range(rng.choice([1, 3, 10])):
        damaged[rng.randrange(min(len(damaged), rng.choice([64, len(damaged)])))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def overwrite(content: bytes, rng: Random) -> bytes:
    """Overwrite four of the first hundred bytes with a number that may be gigantic."""
    offset = rng.randrange(max(1, min(len(content), 100)))
    value = rng.choice([0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, rng.randrange(2**32)])
    return content[:offset] + struct.pack(rng.choice("<>") + "I", value) + content[offset + 4 :]


def leave_out(content: bytes, rng: Random) -> bytes:
    first, last = sorted(int(rng.random() * len(content)) for _ in range(2))
    return content[:first] + content[last:]


def insert(content: bytes, rng: Random) -> bytes:
    offset = int(rng.random() * len(content))
    return content[:offset] + rng.choice([bytes(200), rng.randbytes(200), b"<html>404</html>"]) + content[offset:]


DAMAGES: list[Callable[[bytes, Random], bytes]] = [cut, flip, overwrite, leave_out, insert]


@cache
def valid_files() -> dict[str, bytes]:
    """Return a small picture or sound of every format, by suffix."""
    pictures = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "bmp": "BMP", "tif": "TIFF", "webp": "WEBP", "ppm": "PPM"}
    sounds = {"wav": "WAV", "flac": "FLAC", "ogg": "OGG", "mp3": "MP3", "aiff": "AIFF", "au": "AU"}
    return {
        **{suffix: picture(format=format) for suffix, format in pictures.items()},
        **{suffix: sound(format) for suffix, format in sounds.items()},
    }


def picture(height: int = 12, width: int = 17, *, format: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, format, **options)
    return file.getvalue()


def sound(format: str = "WAV", codec: str | None = None, *, length: int = 1600, rate: int = 8000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, 0.5 * np.sin(np.arange(length) / 3), rate, format=format, subtype=codec)
    return file.getvalue()


def png(width: int, height: int, lines: bytes, *, bits: int = 8, colour: int = 2) -> bytes:
    """Encode lines of pixels with an arbitrary header."""
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in parts
    )


def wav(
    code: int = 1,
    *,
    channels: int = 1,
    rate: int = 8000,
    bits: int = 16,
    samples: bytes = bytes(400),
    size: int | None = None,
) -> bytes:
    """Encode samples with an arbitrary header; `size` is the number of bytes of samples that it claims."""
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", code, channels, rate, rate * block % 2**32, block % 2**16, bits)
    data = b"data" + struct.pack("<I", len(samples) if size is None else size) + samples
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def animated(format: str, frames: int = 3) -> bytes:
    first, *rest = [Image.new("RGB", (9, 7), (40 * number, 0, 0)) for number in range(frames)]
    file = io.BytesIO()
    first.save(file, format, save_all=True, append_images=rest)
    return file.getvalue()


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return picture(format="JPEG", exif=exif)


@cache
def listed_files() -> dict[str, bytes]:
    """Return rare, wrong and dangerous files by name, and every format truncated at several places."""
    valid = valid_files()
    floats = struct.pack("<4f", 0.5, math.nan, math.inf, 0.1)
    files = {
        # not what the name says
        "text.png": b"a picture of a door\n",
        "text.wav": b"three one four\n",
        "page.jpg": b"<!DOCTYPE html><html>404 not found</html>",
        "drawing.png": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
        "picture.wav": valid["png"],
        "picture.mp3": valid["jpg"],
        "sound.png": valid["wav"],
        "sound.jpg": valid["mp3"],
        "png.jpg": valid["png"],
        "flac.wav": valid["flac"],
        "archive.png": b"PK\x03\x04\x14\0\0\0\0\0",
        "video.wav": b"\x1aE\xdf\xa3\x01\0\0\0\0\0\0\x1f",
        "postscript.png": b"%!PS-Adobe-3.0 EPSF-3.0\n",
        # empty
        **{f"nothing.{suffix}": b"" for suffix in ("png", "jpg", "wav", "mp3")},
        **{f"zeros.{suffix}": bytes(1000) for suffix in ("png", "wav", "mp3")},
        "no-samples.wav": wav(samples=b""),
        "no-pixels.png": png(0, 4, b""),
        # gigantic
        "bomb.png": png(60_000, 50_000, bytes(10_000_000)),
        "bomb-within-the-limit.png": png(60_000, 50_000, b"\0" * 100),
        "claims-gigabytes.png": png(2**31 - 1, 2**31 - 1, b"\0"),
        "claims-gigabytes.wav": wav(size=4_000_000_000),
        "claims-gigabytes.flac": valid["flac"][:21] + b"\xff\xff\xff\xff\xff" + valid["flac"][26:],
        "claims-gigabytes.bmp": valid["bmp"][:18] + struct.pack("<ii", 2**31 - 1, 2**31 - 1) + valid["bmp"][26:],
        "claims-gigabytes.gif": valid["gif"][:6] + b"\xff\xff\xff\xff" + valid["gif"][10:],
        "claims-gigabytes.ppm": b"P6 999999999 999999999 255\n" + bytes(100),
        "one-pixel.png": picture(1, 1),
        "wide.png": picture(1, 60_000),
        "high.png": picture(60_000, 1),
        # rare, but valid
        "cmyk.jpg": picture(format="JPEG", mode="CMYK"),
        "grey.jpg": picture(format="JPEG", mode="L"),
        "palette.png": picture(mode="P"),
        "one-bit.png": picture(mode="1"),
        "clear.png": picture(mode="RGBA"),
        "grey-16-bits.png": png(2, 2, b"\0\1\2\3\4\0\5\6\7\xff", bits=16, colour=0),
        "pixels-of-32-bits.tif": picture(format="TIFF", mode="I"),
        "fractions.tif": picture(format="TIFF", mode="F"),
        "progressive.jpg": picture(format="JPEG", progressive=True),
        **{f"turned-{orientation}.jpg": turned(orientation) for orientation in (0, 3, 6, 9)},
        **{f"animated.{format.lower()}": animated(format) for format in ("GIF", "PNG", "WEBP", "TIFF")},
        **{
            f"{codec.lower()}.wav": sound("WAV", codec)
            for codec in ("PCM_U8", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW")
        },
        **{f"{codec.lower()}.wav": sound("WAV", codec) for codec in ("IMA_ADPCM", "MS_ADPCM", "GSM610")},
        "one-sample.wav": wav(samples=b"\1\2"),
        "stereo.wav": wav(channels=2),
        "many-channels.wav": wav(channels=64),
        "high-rate.wav": sound(rate=384_000),
        "low-rate.wav": wav(rate=1),
        # wrong
        "nan.wav": wav(3, bits=32, samples=floats),
        "infinite.wav": wav(3, bits=32, samples=floats[8:]),
        "rate-0.wav": wav(rate=0),
        "rate-gigantic.wav": wav(rate=2**32 - 1),
        "channels-0.wav": wav(channels=0),
        "channels-gigantic.wav": wav(channels=65_535),
        "bits-0.wav": wav(bits=0),
        "bits-odd.wav": wav(bits=13),
        "codec-unknown.wav": wav(0x1234),
        "bits-3.png": png(2, 2, bytes(20), bits=3),
        "colour-9.png": png(2, 2, bytes(20), colour=9),
        "too-few-lines.png": png(20, 20, bytes(100)),
        "too-many-lines.png": png(2, 2, bytes(100_000)),
        "line\x1b[31mred\n.png": b"no picture",
    }
    cuts = {
        f"cut-at-{share}.{name}": valid[name][: len(valid[name]) * share // 100]
        for name in valid
        for share in (3, 20, 55, 97)
    }
    return files | cuts
