"""Windows of texts: cuts a text into pieces with their places in it, and encodes some of the pieces for a body."""

from typing import NamedTuple

import numpy as np

from clew.sources.words import EncodedWords, WordReader
from clew.text.words import split_words


class CutText(NamedTuple):
    """A text as tokens, or as words if the tokenizer has a token for each word. Piece i is the characters [start, stop)
    of the original text in row i of `offsets` (pieces, 2), without surrounding white space; a piece of white space
    alone is empty."""

    words: list[str] | None
    tokens: list[int]
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)


def cut_text(reader: WordReader, text: str) -> CutText:
    """Cut a text into words if the tokenizer has a token for each, else into tokens."""
    if reader.by_words:
        words = split_words(text)
        return CutText([word.text for word in words], [], as_offsets([(word.start, word.stop) for word in words]))
    tokens, offsets = reader.tokenizer.encode_with_offsets(text)
    return CutText(None, tokens, as_offsets([trimmed(text, *span) for span in offsets]))


def encode_pieces(reader: WordReader, cut: CutText, start: int = 0, stop: int | None = None) -> EncodedWords:
    """Encode some of a text's pieces, without the tokenizer's frame."""
    if cut.words is not None:
        return reader.encode([cut.words[start:stop]], framed=False)[0]
    return EncodedWords(cut.tokens[start:stop], [], [])


def trimmed(text: str, start: int, stop: int) -> tuple[int, int]:
    piece = text[start:stop]
    start += len(piece) - len(piece.lstrip())
    return start, start + len(piece.strip())


def as_offsets(pairs: list[tuple[int, int]]) -> np.ndarray:
    return np.array(pairs, dtype=np.int32).reshape(-1, 2)


def window_starts(length: int, capacity: int, stride: int) -> list[int]:
    """Where windows of `capacity` pieces begin, at most `stride` or one window apart, until a window holds the last
    piece."""
    step = min(stride, capacity)
    return list(range(0, max(length - capacity, 0) + step, step)) if length > capacity else [0]
