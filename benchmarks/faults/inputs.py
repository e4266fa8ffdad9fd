"""Pictures and sounds that are broken, cut short, gigantic or something else, given to their readers and, beside good
ones, to commands.

Each is read, or refused in one sentence with its name. A command answers the good files as if the others were not
there.
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

from benchmarks.faults.children import own_folder
from benchmarks.faults.commands import by_call
from benchmarks.faults.trials import LONGEST, REFUSED, Fault, Result, fault_in_sentence, in_this_process, put_through
from clew.core.errors import UserError
from clew.data.pictures.picture_files import picture_size, read_picture
from clew.data.sounds.sound_files import read_sound, sound_length

FROZEN = Path(__file__).parents[2] / "tests" / "runs" / "frozen" / "format-3"


class Case(NamedTuple):
    """A file by its name, and its content."""

    name: str
    content: bytes


def run(count: int, seed: int, with_commands: bool = True) -> Result:
    """So many files through the readers, and all of them together through `clew caption` and `clew transcribe`."""
    cases, began = made(count, seed), time.perf_counter()
    with own_folder("inputs") as folder:
        numbers = iter(range(count))
        fault = Fault(
            "broken pictures and sounds",
            lambda _: cases[next(numbers)],
            lambda case: attempt(case, folder),
            describe,
            smaller,
        )
        result = put_through(fault, count, seed, in_this_process)
        for verb, asked in COMMANDS.items() if with_commands else ():
            result.outcomes[f"passed over by clew {verb}"] = through_command(verb, asked, cases, folder)
    result.seconds = time.perf_counter() - began
    return result


def attempt(case: Case, folder: Path) -> str:
    """By the readers of pictures and of sounds, whatever it is called."""
    path = folder / case.name
    path.write_bytes(case.content)
    outcomes = {what: read_or_refused(path, *readers) for what, readers in READERS.items()}
    path.unlink()
    read = [what for what, outcome in outcomes.items() if outcome != REFUSED]
    return f"read as a {read[0]}" if read else REFUSED


def read_or_refused(
    path: Path, read: Callable[[Path], Any], measure: Callable[[Path], Any], size: Callable[[Any], Any]
) -> str:
    """The header says what is read; a sentence begins with the file's name."""
    try:
        found = read(path)
    except UserError as error:
        sentence = str(error)
        assert sentence.startswith(told(path)), f"no name: {sentence}"
        assert not (complaint := fault_in_sentence(sentence.removeprefix(told(path)))), complaint
        try:
            measure(path)
        except UserError as error:
            assert str(error).startswith(told(path)), f"no name: {error}"
        return REFUSED
    assert measure(path) == size(found), "the header tells another size"
    return "read"


def told(path: Path) -> str:
    """A file's name, as a sentence begins with it."""
    return str(UserError(f"{path}: "))


READERS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any], Callable[[Any], Any]]] = {
    "picture": (read_picture, picture_size, lambda found: tuple(found.shape[:2])),
    "sound": (read_sound, lambda path: sound_length(path).frames, lambda found: len(found.samples)),
}


class Asked(NamedTuple):
    """A frozen run, and two files that it reads."""

    run: str
    good: tuple[str, str]


COMMANDS = {
    "caption": Asked("captioning", ("0.png", "5.png")),
    "transcribe": Asked("transcription", ("0.wav", "3.wav")),
}


def through_command(verb: str, asked: Asked, cases: list[Case], folder: Path) -> int:
    """All files in one command, between two good ones: these are answered as they are alone, each of the others is
    answered or has one sentence, and where all are broken a file of answers from before stays as it was. How many were
    passed over."""
    run = FROZEN / asked.run
    good = [run / name for name in asked.good]
    files = [folder / case.name for case in cases]
    for path, case in zip(files, cases, strict=True):
        path.write_bytes(case.content)

    def clew(*paths: Path, out: str | None = None) -> tuple[int, list[str], list[str]]:
        words = [verb, str(run / "run"), *map(str, paths), "--device", "cpu", *([] if out is None else ["--out", out])]
        ended = by_call([word.encode() for word in words], folder)
        return ended.status, ended.out.decode().splitlines(), ended.err.decode().splitlines()

    status, alone, err = clew(*good)
    assert (status, err) == (0, []), err
    status, answers, sentences = clew(good[0], *files, good[1])
    assert [answers[0], answers[-1]] == alone, "the good files have other answers"
    assert status == (2 if sentences else 0), f"status {status}"
    refused = {
        next((path for path in files if sentence.startswith(f"clew: {told(path)}")), None) for sentence in sentences
    }
    assert None not in refused and len(refused) == len(sentences), "a sentence of no file, or two of one"
    answered = {line.split("\t")[0] for line in answers[1:-1]}
    assert answered == {str(path) for path in files} - {str(path) for path in refused}, (
        "a file without an answer and without a sentence"
    )
    for sentence in sentences:
        complaint = fault_in_sentence(sentence[: LONGEST + len(str(folder))].replace(str(folder), ""))
        assert not complaint, f"{complaint}: {sentence}"
    broken = next(path for path in files if path in refused)
    (folder / "answers.txt").write_text("from before\n")
    status, _, err = clew(broken, out="answers.txt")
    assert status == 2 and len(err) == 1 and (folder / "answers.txt").read_text() == "from before\n", (
        "answers from before are lost"
    )
    for path in files:
        path.unlink()
    return len(refused)


def describe(case: Case) -> str:
    return f"{case.name}: {len(case.content):,} bytes, {case.content[:24]!r}"


def smaller(case: Case) -> Iterator[Case]:
    return iter(())


def made(count: int, seed: int) -> list[Case]:
    """The listed files, then damaged ones, drawn from the seed."""
    listed = [Case(f"{number}-{name}", content) for number, (name, content) in enumerate(listed_files().items())][
        :count
    ]
    draw = Random(f"inputs {seed}")
    return [*listed, *(drawn(draw, number) for number in range(len(listed), count))]


def drawn(draw: Random, number: int) -> Case:
    """A whole file of any kind with one or several damages, its ending at times another's."""
    name = draw.choice(sorted(whole_files()))
    content = whole_files()[name]
    for _ in range(draw.choice([1, 1, 2])):
        content = draw.choice(DAMAGES)(content, draw)
    ending = draw.choice(["png", "jpg", "wav", "mp3", "txt"]) if draw.random() < 0.2 else name
    return Case(f"{number}-{name}.{ending}", content)


def cut(content: bytes, draw: Random) -> bytes:
    return content[: int(draw.random() * len(content))]


def flip(content: bytes, draw: Random) -> bytes:
    """Up to ten bits, most of them in the header."""
    found = bytearray(content or b"\0")
    for _ in range(draw.choice([1, 3, 10])):
        found[draw.randrange(min(len(found), draw.choice([64, len(found)])))] ^= 1 << draw.randrange(8)
    return bytes(found)


def overwrite(content: bytes, draw: Random) -> bytes:
    """Four bytes in the first hundred by a number that may be gigantic."""
    place = draw.randrange(max(1, min(len(content), 100)))
    value = draw.choice([0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, draw.randrange(2**32)])
    return content[:place] + struct.pack(draw.choice("<>") + "I", value) + content[place + 4 :]


def leave_out(content: bytes, draw: Random) -> bytes:
    first, last = sorted(int(draw.random() * len(content)) for _ in range(2))
    return content[:first] + content[last:]


def insert(content: bytes, draw: Random) -> bytes:
    place = int(draw.random() * len(content))
    return content[:place] + draw.choice([bytes(200), draw.randbytes(200), b"<html>404</html>"]) + content[place:]


DAMAGES: list[Callable[[bytes, Random], bytes]] = [cut, flip, overwrite, leave_out, insert]


@cache
def whole_files() -> dict[str, bytes]:
    """A small picture or sound of every format, by its ending."""
    pictures = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "bmp": "BMP", "tif": "TIFF", "webp": "WEBP", "ppm": "PPM"}
    sounds = {"wav": "WAV", "flac": "FLAC", "ogg": "OGG", "mp3": "MP3", "aiff": "AIFF", "au": "AU"}
    return {
        **{ending: picture(format=format) for ending, format in pictures.items()},
        **{ending: sound(format) for ending, format in sounds.items()},
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
    """With whatever header."""
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
    """With whatever header; `size` is what it claims of its samples."""
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", code, channels, rate, rate * block % 2**32, block % 2**16, bits)
    data = b"data" + struct.pack("<I", len(samples) if size is None else size) + samples
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def animated(format: str, frames: int = 3) -> bytes:
    first, *others = [Image.new("RGB", (9, 7), (40 * number, 0, 0)) for number in range(frames)]
    file = io.BytesIO()
    first.save(file, format, save_all=True, append_images=others)
    return file.getvalue()


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return picture(format="JPEG", exif=exif)


@cache
def listed_files() -> dict[str, bytes]:
    """What is rare, wrong or dangerous, each by name; and every format cut at many places."""
    whole = whole_files()
    floats = struct.pack("<4f", 0.5, math.nan, math.inf, 0.1)
    found = {
        # something else than the name says
        "text.png": b"a picture of a door\n",
        "text.wav": b"three one four\n",
        "page.jpg": b"<!DOCTYPE html><html>404 not found</html>",
        "drawing.png": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
        "picture.wav": whole["png"],
        "picture.mp3": whole["jpg"],
        "sound.png": whole["wav"],
        "sound.jpg": whole["mp3"],
        "png.jpg": whole["png"],
        "flac.wav": whole["flac"],
        "archive.png": b"PK\x03\x04\x14\0\0\0\0\0",
        "video.wav": b"\x1aE\xdf\xa3\x01\0\0\0\0\0\0\x1f",
        "postscript.png": b"%!PS-Adobe-3.0 EPSF-3.0\n",
        # nothing
        **{f"nothing.{ending}": b"" for ending in ("png", "jpg", "wav", "mp3")},
        **{f"zeros.{ending}": bytes(1000) for ending in ("png", "wav", "mp3")},
        "no-samples.wav": wav(samples=b""),
        "no-pixels.png": png(0, 4, b""),
        # gigantic
        "bomb.png": png(60_000, 50_000, bytes(10_000_000)),
        "bomb-within-the-limit.png": png(60_000, 50_000, b"\0" * 100),
        "claims-gigabytes.png": png(2**31 - 1, 2**31 - 1, b"\0"),
        "claims-gigabytes.wav": wav(size=4_000_000_000),
        "claims-gigabytes.flac": whole["flac"][:21] + b"\xff\xff\xff\xff\xff" + whole["flac"][26:],
        "claims-gigabytes.bmp": whole["bmp"][:18] + struct.pack("<ii", 2**31 - 1, 2**31 - 1) + whole["bmp"][26:],
        "claims-gigabytes.gif": whole["gif"][:6] + b"\xff\xff\xff\xff" + whole["gif"][10:],
        "claims-gigabytes.ppm": b"P6 999999999 999999999 255\n" + bytes(100),
        "one-pixel.png": picture(1, 1),
        "wide.png": picture(1, 60_000),
        "high.png": picture(60_000, 1),
        # rare, and right
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
        f"cut-at-{share}.{name}": whole[name][: len(whole[name]) * share // 100]
        for name in whole
        for share in (3, 20, 55, 97)
    }
    return found | cuts
