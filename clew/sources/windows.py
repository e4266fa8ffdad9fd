"""Texts in windows: what a text is cut into, where each piece stands in it, and parts of it as a body reads them."""

from typing import NamedTuple

import numpy as np

from clew.sources.words import EncodedWords, WordReader
from clew.text.words import split_words


class CutText(NamedTuple):
    """A text as its tokens; or as its words, where the tokenizer has a token for each. Piece i is the characters [start, stop) of the
    untouched text that row i of `offsets` (pieces, 2) says, without white space around them; one of white space alone has none."""

    words: list[str] | None
    tokens: list[int]
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets)


def cut_text(reader: WordReader, text: str) -> CutText:
    if reader.by_words:
        found = split_words(text)
        return CutText([word.text for word in found], [], as_offsets([(word.start, word.stop) for word in found]))
    tokens, offsets = reader.tokenizer.encode_with_offsets(text)
    return CutText(None, tokens, as_offsets([trimmed(text, *each) for each in offsets]))


def part_of(reader: WordReader, cut: CutText, start: int = 0, stop: int | None = None) -> EncodedWords:
    """Some of a text's pieces, not yet in the tokenizer's frame."""
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
    """Where windows of `capacity` pieces begin, `stride` apart and never further than a window is long, until the last piece is in one."""
    step = min(stride, capacity)
    return list(range(0, max(length - capacity, 0) + step, step)) if length > capacity else [0]
