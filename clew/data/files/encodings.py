"""Guess the encoding of a text that is not UTF-8, with the reason for the guess. Reads bytes; opens no file.

UTF-8 checks itself: if the first non-ASCII character of a text is valid UTF-8, the text is UTF-8. For other bytes an
encoding is guessed only if it explains them and the others do not.
"""

import codecs
import io
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NamedTuple

from clew.data.files.first_bytes import CONTROLS

HIGH = bytes(range(0x80, 0x100))
NO_EVIDENCE = bytes(range(0x80)) + b"\xff"
"""Bytes that are not evidence of an encoding: erased flash memory is 0xff."""
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
NO_LETTERS = bytes(byte for byte in range(0x80) if not chr(byte).isalpha())
SAMPLE = 2**20
"""Size in bytes of the sample that an encoding is guessed from: chunks with non-ASCII bytes."""


class Guess(NamedTuple):
    encoding: str
    reason: str


def detect_encoding(head: bytes) -> Guess | None:
    """Detect an encoding by the first bytes of a text: a byte order mark, or a zero in every other byte."""
    for mark, encoding in MARKS:
        if head.startswith(mark) and not (encoding == "utf-32" and len(head) % 4 and len(head) < 8):
            return Guess(encoding, "it begins with a byte order mark")
    even, odd = head[0::2], head[1::2]
    for high_bytes, low_bytes, encoding in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(head) >= 4 and 2 * high_bytes.count(0) > len(high_bytes) and low_bytes.count(0) == 0:
            return Guess(encoding, "every other byte is zero")
    return None


def guess_encoding(chunks: Iterable[bytes]) -> Guess | None:
    """Guess the encoding of a text whose first non-ASCII character is not UTF-8. Return None for damaged UTF-8, or if
    no encoding explains the bytes."""
    sample, length = [], 0
    for chunk in chunks:
        if not chunk.isascii():
            sample.append(chunk)
            length += len(chunk)
        if length >= SAMPLE:
            break
    data = b" ".join(sample)
    num_high = len(data) - len(data.translate(None, HIGH))
    num_wrong = data.decode("utf-8", "replace").count("\ufffd")
    num_right = sum(1 for character in data.decode("utf-8", "ignore") if ord(character) > 0x7F)
    if num_right > num_wrong or not CONTROLS.isdisjoint(data) or not data.translate(None, NO_EVIDENCE):
        return None
    num_letters = len(data.translate(None, NO_LETTERS))
    if 4 * num_high > num_letters:
        return next((guess for guess in (guess_script(data) for guess_script in SCRIPTS) if guess is not None), None)
    return guess_western(data)


def guess_western(data: bytes) -> Guess | None:
    """Guess the encoding of a language with mostly unaccented letters. Only in Windows' encoding are 0x80 to 0x9f
    dashes and quotes."""
    if not decodes(data, "cp1252"):
        return Guess("latin-1", "few bytes are not ASCII, and some are undefined in cp1252")
    if any(0x80 <= byte < 0xA0 for byte in data):
        return Guess("cp1252", "few bytes are not ASCII, and some are quotes or dashes of Windows")
    return Guess("latin-1", "few bytes are not ASCII, typical of accented letters in a western language")


def guess_by_case(data: bytes) -> Guess | None:
    """Guess the encoding of a script with upper and lower case by its lower-case letters, which are the majority.

    In the wrong encoding some of them become capitals (KOI8-R read as cp1251) or accented Greek vowels."""
    shares = {}
    for encoding, (first, last, _) in LOWER_CASE.items():
        letters = [character for character in decode_mostly(data, encoding) if ord(character) > 0x7F]
        shares[encoding] = sum(first <= character <= last for character in letters) / max(len(letters), 1)
    best = max(shares, key=lambda encoding: shares[encoding])
    reason = f"its non-ASCII bytes are {LOWER_CASE[best][2]} letters in it, mostly lower-case"
    return Guess(best, reason) if shares[best] > 0.75 else None


LOWER_CASE = {"cp1251": ("а", "я", "Cyrillic"), "koi8-r": ("а", "я", "Cyrillic"), "cp1253": ("ά", "ώ", "Greek")}


def guess_by_range(
    encoding: str, first: str, last: str, share: float, characters_name: str
) -> Callable[[bytes], Guess | None]:
    """Return a rule that guesses the encoding if more than `share` of the non-ASCII characters lie in a range."""

    def guess(data: bytes) -> Guess | None:
        characters = [character for character in decode_mostly(data, encoding) if ord(character) > 0x7F]
        if characters and sum(first <= character <= last for character in characters) > share * len(characters):
            return Guess(encoding, f"its non-ASCII bytes are {characters_name} in it")
        return None

    return guess


SCRIPTS = (
    guess_by_case,
    guess_by_range("euc_jp", "\u3041", "\u30f6", 0.25, "Japanese kana and other characters"),
    guess_by_range("shift_jis", "\u3041", "\u30f6", 0.25, "Japanese kana and other characters"),
    guess_by_range("euc_kr", "\uac00", "\ud7a3", 0.7, "Korean syllables"),
)


def decode_mostly(data: bytes, encoding: str) -> str:
    """Decode bytes, allowing a few errors: a chunk may begin or end within a character. Return "" for more errors."""
    text = data.decode(encoding, "replace")
    return text if 100 * text.count("\ufffd") <= len(text) else ""


def decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


class Recoded(io.RawIOBase):
    """A stream of UTF-8. Bytes pass unchanged until the first non-ASCII character. If that is not UTF-8, the rest is
    converted from the encoding that `guess` returns for the whole text; without a guess it passes unchanged too."""

    def __init__(self, inner: BinaryIO, guess: Callable[[], Guess | None]):
        super().__init__()
        self.inner, self.guess = inner, guess
        self.decoder: Any = None
        self.is_settled = False
        self.ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready:
            chunk = self.inner.read(len(buffer))
            self.ready = self.recode(chunk)
            if not chunk:
                break
        size = min(len(buffer), len(self.ready))
        buffer[:size], self.ready = self.ready[:size], self.ready[size:]
        return size

    def recode(self, chunk: bytes) -> bytes:
        if not self.is_settled and not chunk.isascii():
            self.settle(chunk)
        return chunk if self.decoder is None else self.decoder.decode(chunk, final=not chunk).encode()

    def settle(self, chunk: bytes) -> None:
        """Choose the decoder by the first non-ASCII character, which may continue in the next chunk."""
        self.is_settled = True
        start = len(chunk) - len(chunk.lstrip(bytes(range(0x80))))
        first = chunk[start : start + 4]
        if is_utf8(first if len(first) == 4 else first + self.inner.peek(4)[:4]):  # type: ignore[attr-defined]
            return
        if (guess := self.guess()) is not None:
            self.decoder = codecs.getincrementaldecoder(guess.encoding)()

    def close(self) -> None:
        if not self.closed:
            self.inner.close()
        super().close()


def begins_as_utf8(head: bytes) -> bool:
    """Whether the first bytes show that a text is UTF-8: their first non-ASCII character is."""
    rest = head.lstrip(bytes(range(0x80)))
    return bool(rest) and is_utf8(rest[:4])


def is_utf8(data: bytes) -> bool:
    """Whether the first character is UTF-8."""
    return any(decodes(data[:size], "utf-8") for size in range(1, min(len(data), 4) + 1))
