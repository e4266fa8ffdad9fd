"""Vectors of a body for the words of sentences: of every level (the embedding, and the output of each block), of one
level, or of a mix of levels."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.layers.blocks import block_ends
from clew.layers.context import WORD_VECTORS, Pieces
from clew.layers.pooling import MIXES, Levels
from clew.sources.words import EncodedWords, WordReader

BATCH = 64
"""Sentences per batch."""


def word_vectors(
    body: Any, reader: WordReader, sentences: Sequence[Sequence[str]], pieces: str = "last"
) -> list[Tensor]:
    """Return the vectors of all words in order (words, dim), one tensor per level.

    A sentence with more tokens than the body has positions is read in parts. `pieces` says which of a word's tokens
    its vector is taken from: first, last or mean.
    """
    encoded = encode_parts(reader, sentences, body.max_length)
    vectors_of: dict[int, list[Tensor]] = {}
    with evaluating([body]):
        for rows, batch in batches_of(body, reader, encoded):
            word_levels = [WORD_VECTORS[pieces](level, batch).float() for level in block_levels(body, batch)]
            for position, row in enumerate(rows):
                vectors_of[row] = [level[position, : len(encoded[row].starts)] for level in word_levels]
    return [torch.cat(level) for level in zip(*(vectors_of[row] for row in range(len(encoded))), strict=True)]


def batches_of(body: Any, reader: WordReader, encoded: Sequence[EncodedWords]) -> Iterator[tuple[list[int], Pieces]]:
    """Yield batches of rows of similar length on the body's device, with the rows' numbers."""
    order = sorted(range(len(encoded)), key=lambda row: len(encoded[row].tokens))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        yield rows, to_device(reader.collate([encoded[row] for row in rows]), body.embedding.like.device)


def block_levels(body: Any, batch: Pieces) -> list[Tensor]:
    """Return the embedding's vectors (batch, length, dim) and those at the end of each block."""
    return ends_of_blocks(body, body.levels(batch.inputs, batch.mask))


def ends_of_blocks(body: Any, levels: Sequence[Tensor]) -> list[Tensor]:
    return [levels[number] for number in block_ends(body, len(levels))]


def layer_vectors(body: Any, batch: Pieces, layer: int | str) -> Tensor:
    """Return the vectors (batch, length, dim) of one level (0 is the embedding), of the `last`, or of a mix of the
    levels that are as wide as the last."""
    if layer == "last":
        hidden: Tensor = body(batch.inputs, batch.mask)[0]
        return hidden
    return layer_of(block_levels(body, batch), layer)


def layer_of(levels: Sequence[Tensor], layer: int | str) -> Tensor:
    """Return one level, the last, or a mix."""
    if isinstance(layer, int) or layer == "last":
        return levels[-1 if isinstance(layer, str) else layer]
    mixable = [level for level in levels if level.shape[-1] == levels[-1].shape[-1]]
    mixed: Tensor = mix_of(layer, [level.shape[-1] for level in levels])(mixable)
    return mixed


def mix_of(name: str, widths: Sequence[int]) -> Levels:
    """Create a mix of the levels that are as wide as the last; `widths[0]` is the embedding's width."""
    return MIXES[name](sum(width == widths[-1] for width in widths), widths[-1], has_embedding=widths[0] == widths[-1])


def sentence_vectors(
    body: Any, reader: WordReader, sentences: Sequence[Sequence[str]], pieces: str = "last"
) -> list[Tensor]:
    """Return the mean over each sentence's words (sentences, dim), one tensor per level."""
    words = word_vectors(body, reader, sentences, pieces)
    lengths = torch.tensor([len(sentence) for sentence in sentences], device=words[0].device)
    rows = torch.repeat_interleave(lengths)
    return [
        level.new_zeros(len(sentences), level.shape[1]).index_add_(0, rows, level) / lengths[:, None] for level in words
    ]


def encode_parts(reader: WordReader, sentences: Sequence[Sequence[str]], limit: int | None) -> list[EncodedWords]:
    """Encode sentences. One that does not fit is halved until it does, and so is a word that does not."""
    parts: list[EncodedWords] = []
    for words, encoded in zip(sentences, reader.encode(sentences), strict=True):
        is_whole = limit is None or len(encoded.tokens) <= limit
        parts += [encoded] if is_whole else encode_parts(reader, halves(words), limit)
    return parts


def halves(words: Sequence[str]) -> list[Sequence[str]]:
    if len(words) > 1:
        return [words[: len(words) // 2], words[len(words) // 2 :]]
    if len(words[0]) < 2:
        raise UserError(
            f"the model has too few positions to read {words[0]!r}; use a run with a larger model.max_length"
        )
    return [[words[0][: len(words[0]) // 2]]]
