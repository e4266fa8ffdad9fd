"""The vectors that a body has for the words of sentences, at every level: of the embedding, and of what each block ends with."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.layers.blocks import block_ends
from clew.layers.context import WORD_VECTORS
from clew.tasks.words import EncodedWords, WordReader

BATCH = 64
"""Sentences that are read at a time."""


def word_vectors(body: Any, reader: WordReader, sentences: Sequence[Sequence[str]], pieces: str = "last") -> list[Tensor]:
    """The vectors of all words, in order (words, dim), a tensor a level. A sentence with more tokens than the body can tell apart is read
    in parts. `pieces` of a word stand for it: first, last or mean."""
    encoded = encode_parts(reader, sentences, body.max_length)
    order = sorted(range(len(encoded)), key=lambda row: len(encoded[row].tokens))
    device = body.embedding.like.device
    found: dict[int, list[Tensor]] = {}
    with evaluating([body]):
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = to_device(reader.collate([encoded[row] for row in rows]), device)
            levels = body.levels(batch.inputs, batch.mask)
            vectors = [WORD_VECTORS[pieces](levels[number], batch).float() for number in block_ends(body, len(levels))]
            for place, row in enumerate(rows):
                found[row] = [level[place, : len(encoded[row].starts)] for level in vectors]
    return [torch.cat(level) for level in zip(*(found[row] for row in range(len(encoded))), strict=True)]


def sentence_vectors(body: Any, reader: WordReader, sentences: Sequence[Sequence[str]], pieces: str = "last") -> list[Tensor]:
    """The mean of each sentence's words (sentences, dim)."""
    words = word_vectors(body, reader, sentences, pieces)
    lengths = torch.tensor([len(sentence) for sentence in sentences], device=words[0].device)
    rows = torch.repeat_interleave(lengths)
    return [level.new_zeros(len(sentences), level.shape[1]).index_add_(0, rows, level) / lengths[:, None] for level in words]


def encode_parts(reader: WordReader, sentences: Sequence[Sequence[str]], limit: int | None) -> list[EncodedWords]:
    """Sentences as ids; one that does not fit is halved until it does, and a word that does not is cut."""
    found: list[EncodedWords] = []
    for words, encoded in zip(sentences, reader.encode(sentences), strict=True):
        is_whole = limit is None or len(encoded.tokens) <= limit
        found += [encoded] if is_whole else encode_parts(reader, halves(words), limit)
    return found


def halves(words: Sequence[str]) -> list[Sequence[str]]:
    if len(words) > 1:
        return [words[: len(words) // 2], words[len(words) // 2 :]]
    if len(words[0]) < 2:
        raise UserError(f"the model can tell apart too few positions to read {words[0]!r}; take a run with a larger model.max_length")
    return [[words[0][: len(words[0]) // 2]]]
