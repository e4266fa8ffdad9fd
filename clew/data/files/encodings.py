"""In which encoding a text is that is not UTF-8, and why that is believed. Looks at bytes alone; opens no file.

UTF-8 checks itself: a text whose first character beyond ASCII is UTF-8 is UTF-8. Of other bytes there is a guess where
one encoding explains them and the others do not, and none where that is not so.
"""

import codecs
import io
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NamedTuple

from clew.data.files.first_bytes import CONTROLS

HIGH = bytes(range(0x80, 0x100))
NO_EVIDENCE = bytes(range(0x80)) + b"\xff"
"""Bytes that speak for no encoding: 0xff is where flash memory was never written."""
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
NO_LETTERS = bytes(byte for byte in range(0x80) if not chr(byte).isalpha())
SAMPLE = 2**20
"""Bytes beyond ASCII, with what stands about them, from which an encoding is guessed."""


class Guess(NamedTuple):
    encoding: str
    reason: str


def of_beginning(head: bytes) -> Guess | None:
    """What the first bytes say: a byte order mark, or zeros in every other place."""
    for mark, encoding in MARKS:
        if head.startswith(mark) and not (encoding == "utf-32" and len(head) % 4 and len(head) < 8):
            return Guess(encoding, "it begins with a byte order mark")
    even, odd = head[0::2], head[1::2]
    for zeros, others, encoding in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(head) >= 4 and 2 * zeros.count(0) > len(zeros) and others.count(0) == 0:
            return Guess(encoding, "every other byte is zero")
    return None


def guess_encoding(chunks: Iterable[bytes]) -> Guess | None:
    """The encoding of a text that begins as no UTF-8 does; None where it is UTF-8 with damage, or nothing explains
    it."""
    sample, length = [], 0
    for chunk in chunks:
        if not chunk.isascii():
            sample.append(chunk)
            length += len(chunk)
        if length >= SAMPLE:
            break
    data = b" ".join(sample)
    num_high = len(data) - len(data.translate(None, HIGH))
    wrong = data.decode("utf-8", "replace").count("\ufffd")
    right = sum(1 for character in data.decode("utf-8", "ignore") if ord(character) > 0x7F)
    if right > wrong or not CONTROLS.isdisjoint(data) or not data.translate(None, NO_EVIDENCE):
        return None
    letters = len(data.translate(None, NO_LETTERS))
    if 4 * num_high > letters:
        return next((guess for guess in (guessed(data) for guessed in SCRIPTS) if guess is not None), None)
    return western(data)


def western(data: bytes) -> Guess | None:
    """A language of letters without accents and some with them; 0x80 to 0x9f are dashes and quotes in Windows' encoding
    alone."""
    if not decodes(data, "cp1252"):
        return Guess("latin-1", "few bytes are beyond ASCII, and some have no meaning in cp1252")
    if any(0x80 <= byte < 0xA0 for byte in data):
        return Guess("cp1252", "few bytes are beyond ASCII, and some are quotes or dashes as Windows writes them")
    return Guess("latin-1", "few bytes are beyond ASCII, as of letters with accents in a western language")


def of_small_letters(data: bytes) -> Guess | None:
    """Of a script with small letters and capitals, the small ones are many more.

    In the wrong encoding some of them are capitals, as KOI8-R's in cp1251, and Greek vowels with accents."""
    shares = {}
    for encoding, (first, last, _) in SMALL_LETTERS.items():
        letters = [character for character in decoded(data, encoding) if ord(character) > 0x7F]
        shares[encoding] = sum(first <= character <= last for character in letters) / max(len(letters), 1)
    best = max(shares, key=lambda encoding: shares[encoding])
    reason = f"its bytes beyond ASCII are {SMALL_LETTERS[best][2]} letters there, and mostly small ones"
    return Guess(best, reason) if shares[best] > 0.75 else None


SMALL_LETTERS = {"cp1251": ("а", "я", "Cyrillic"), "koi8-r": ("а", "я", "Cyrillic"), "cp1253": ("ά", "ώ", "Greek")}


def of_range(encoding: str, first: str, last: str, share: float, what: str) -> Callable[[bytes], Guess | None]:
    """A guess of an encoding where so large a share of the characters beyond ASCII lies in a range."""

    def guessed(data: bytes) -> Guess | None:
        characters = [character for character in decoded(data, encoding) if ord(character) > 0x7F]
        if characters and sum(first <= character <= last for character in characters) > share * len(characters):
            return Guess(encoding, f"its bytes beyond ASCII are {what} there")
        return None

    return guessed


SCRIPTS = (
    of_small_letters,
    of_range("euc_jp", "\u3041", "\u30f6", 0.25, "Japanese kana among others"),
    of_range("shift_jis", "\u3041", "\u30f6", 0.25, "Japanese kana among others"),
    of_range("euc_kr", "\uac00", "\ud7a3", 0.7, "Korean syllables"),
)


def decoded(data: bytes, encoding: str) -> str:
    """The text, or nothing where it cannot be one. A character may be cut where a chunk begins or ends."""
    text = data.decode(encoding, "replace")
    return text if 100 * text.count("\ufffd") <= len(text) else ""


def decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


class Recoded(io.RawIOBase):
    """A stream of UTF-8: the bytes as they are while they are ASCII or UTF-8; from the first character on that is not,
    those of the encoding that `guess` finds for the whole text, or as they are where it finds none."""

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
            self.ready = self.recoded(chunk)
            if not chunk:
                break
        size = min(len(buffer), len(self.ready))
        buffer[:size], self.ready = self.ready[:size], self.ready[size:]
        return size

    def recoded(self, chunk: bytes) -> bytes:
        if not self.is_settled and not chunk.isascii():
            self.settle(chunk)
        return chunk if self.decoder is None else self.decoder.decode(chunk, final=not chunk).encode()

    def settle(self, chunk: bytes) -> None:
        """Decides by the first character beyond ASCII; it may go on in the next chunk."""
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
    """Whether the first bytes settle it: a character beyond ASCII is among them, and is UTF-8."""
    rest = head.lstrip(bytes(range(0x80)))
    return bool(rest) and is_utf8(rest[:4])


def is_utf8(data: bytes) -> bool:
    """Whether the first character is UTF-8."""
    return any(decodes(data[:size], "utf-8") for size in range(1, min(len(data), 4) + 1))
