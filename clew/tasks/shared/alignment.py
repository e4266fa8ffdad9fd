"""Alignments: how much a model looked at each token of its source while it wrote each token of its target."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.reprs import brief
from clew.core.taps import Tap, watching
from clew.layers.attending.hard_attention import HardAttention
from clew.layers.attention import Attention, SelfAttention
from clew.text.tokenizer import Tokenizer


class Tokens(NamedTuple):
    """Tokens as they read, the words that they make up, and the number of the word that each is part of."""

    texts: list[str]
    words: list[str]
    word_of: list[int]


@dataclass(frozen=True)
class Alignment:
    """Weights (target, source): a row a target token, its end the last, each row adding up to one."""

    source: Tokens
    target: Tokens
    weights: Tensor

    def by_word(self) -> Tensor:
        """Weights (target words, source words): the sum over a source word's tokens, the mean over a target word's."""
        source, target = (torch.tensor(tokens.word_of) for tokens in (self.source, self.target))
        columns = self.weights.new_zeros(len(target), len(self.source.words)).index_add(1, source, self.weights)
        rows = self.weights.new_zeros(len(self.target.words), columns.shape[1]).index_add(0, target, columns)
        return rows / target.bincount(minlength=len(rows))[:, None]

    def __repr__(self) -> str:
        return brief(self, " ".join(self.target.words), words=f"{len(self.target.words)} x {len(self.source.words)}")

    def as_json(self) -> dict[str, Any]:
        """The words of both sides, and the weights, a row a target word."""
        weights = [[round(weight, 5) for weight in row] for row in self.by_word().tolist()]
        return {"source": list(self.source.words), "target": list(self.target.words), "weights": weights}


@torch.no_grad()
def attention_weights(task: Any, batch: Any, layer: int | None = None) -> Tensor:
    """Weights (batch, target, source), the mean over heads, while the targets of a batch are read.

    Of the decoder's layers that look at the source the last but one is taken, where a Transformer's attention is
    nearest to an alignment (Garg et al. 2019), or the only one; `layer` names another, from 1 at the first or from -1
    at the last. Hard attention has a 1 where it looked.
    """
    seen: list[Tensor] = []
    with watching({tap_of(aligned_attention(task, layer)): seen.append}):
        task.decode(batch)
    return by_row(seen[0], len(batch.tokens))


def aligned_attention(task: Any, layer: int | None = None) -> Attention:
    """The attention over the source that an alignment is taken from; see `attention_weights`."""
    looking = layers_looking(task)
    return looking[layer_number(layer, len(looking))]


def tap_of(attention: Attention) -> Tap:
    """What shows where an attention looks."""
    return attention.places if isinstance(attention, HardAttention) else attention.weights


def by_row(weights: Tensor, rows: int) -> Tensor:
    """What a tap shows (sentences, heads, beams * length, places), or a loop over time (sentences, length, heads,
    beams, places), as (rows, length, places), the mean over heads. A sentence's beams are rows."""
    if weights.ndim == 5:
        return weights.mean(2).transpose(1, 2).reshape(rows, -1, weights.shape[-1])
    return weights.mean(1).reshape(rows, -1, weights.shape[-1])


def layers_looking(task: Any) -> list[Attention]:
    """The attention over the source of each decoder layer that has one, from the first."""
    decoder = task.body.decoder
    own = {part.attention for part in decoder.modules() if isinstance(part, SelfAttention)}
    found = [part for part in decoder.modules() if isinstance(part, Attention) and part not in own]
    if not found:
        raise UserError(
            "this model does not look at its source while it writes (model.attention=none), so that nothing is aligned"
        )
    return found


def layer_number(layer: int | None, count: int) -> int:
    if layer is None:
        return max(count - 2, 0)
    if not 1 <= abs(layer) <= count:
        raise UserError(
            f"there is no layer {layer}; {count} of the decoder's look at the source, from 1 at the first or -1 at the"
            " last"
        )
    return layer - 1 if layer > 0 else count + layer


def tokens_of(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> Tokens:
    """The tokens of a text that was encoded to these ids or decoded from them. What was written may be other ids than
    its text is encoded to; a token that is part of a character then stands for all of it."""
    encoded, spans = tokenizer.encode_with_offsets(text)
    if encoded == list(ids):
        return tokens_at(text, spans)
    spans, done = [], 0
    for count in range(1, len(ids) + 1):
        written = tokenizer.decode(ids[:count])
        spans.append((min(done, len(written)), len(written)))
        done = len(written.rstrip("\ufffd"))
    return tokens_at(tokenizer.decode(ids), spans)


def tokens_at(text: str, spans: Sequence[tuple[int, int]]) -> Tokens:
    """Tokens that stand for characters [start, stop) of a text, in words: what white space parts, and each wide
    (Chinese, Japanese) character by itself unless one token spans several."""
    numbers: list[int] = []
    words: list[list[int]] = []
    reached = 0
    for start, stop in spans:
        first = start + len(text[start:stop]) - len(text[start:stop].lstrip())
        if not words or (first < stop and first >= reached and begins_word(text, first)):
            words.append([first, stop])
        words[-1][1] = max(words[-1][1], stop)
        numbers.append(len(words) - 1)
        reached = max(reached, stop)
    return Tokens(
        [text[start:stop] for start, stop in spans], [text[start:stop].strip() for start, stop in words], numbers
    )


def begins_word(text: str, place: int) -> bool:
    return place == 0 or text[place - 1].isspace() or is_wide(text[place]) or is_wide(text[place - 1])


def is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def with_marks(tokens: Tokens, before: Sequence[str] = (), after: Sequence[str] = ()) -> Tokens:
    """Tokens between special ones, each a word of its own."""
    numbers = [*range(len(before)), *(len(before) + number for number in tokens.word_of)]
    words = [*before, *tokens.words, *after]
    return Tokens([*before, *tokens.texts, *after], words, [*numbers, *range(len(words) - len(after), len(words))])
