"""Alignments: how much a model attends to each source token while it generates each target token."""

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
    """The texts of tokens, the words that they form, and the number of the word that each token belongs to."""

    texts: list[str]
    words: list[str]
    word_of: list[int]


@dataclass(frozen=True)
class Alignment:
    """Weights (target, source): one row per target token, the last for the end. Each row sums to one."""

    source: Tokens
    target: Tokens
    weights: Tensor

    def by_word(self) -> Tensor:
        """Return weights (target words, source words): summed over the tokens of a source word, averaged over those
        of a target word."""
        source, target = (torch.tensor(tokens.word_of) for tokens in (self.source, self.target))
        columns = self.weights.new_zeros(len(target), len(self.source.words)).index_add(1, source, self.weights)
        rows = self.weights.new_zeros(len(self.target.words), columns.shape[1]).index_add(0, target, columns)
        return rows / target.bincount(minlength=len(rows))[:, None]

    def __repr__(self) -> str:
        return brief(self, " ".join(self.target.words), words=f"{len(self.target.words)} x {len(self.source.words)}")

    def as_json(self) -> dict[str, Any]:
        """Return the words of both sides, and the weights with one row per target word."""
        weights = [[round(weight, 5) for weight in row] for row in self.by_word().tolist()]
        return {"source": list(self.source.words), "target": list(self.target.words), "weights": weights}


@torch.no_grad()
def attention_weights(task: Any, batch: Any, layer: int | None = None) -> Tensor:
    """Return the weights (batch, target, source), averaged over heads, when the decoder reads the batch's targets.

    Of the decoder layers that attend to the source, the last but one is used (or the only one), because a
    Transformer's attention is closest to an alignment there (Garg et al. 2019). `layer` selects another one, counted
    from 1 for the first or from -1 for the last. Hard attention has a 1 in the place that it chose.
    """
    recorded: list[Tensor] = []
    with watching({tap_of(aligned_attention(task, layer)): recorded.append}):
        task.decode(batch)
    return by_row(recorded[0], len(batch.tokens))


def aligned_attention(task: Any, layer: int | None = None) -> Attention:
    """Return the attention over the source that alignments are taken from; see `attention_weights`."""
    attentions = source_attentions(task)
    return attentions[layer_number(layer, len(attentions))]


def tap_of(attention: Attention) -> Tap:
    """Return the tap that shows the weights of an attention, or the places it chose."""
    return attention.places if isinstance(attention, HardAttention) else attention.weights


def by_row(weights: Tensor, rows: int) -> Tensor:
    """Reshape what a tap shows to (rows, length, places), the mean over heads. It is (sentences, heads, beams *
    length, places), or (sentences, length, heads, beams, places) from a loop over time. The beams of a sentence
    become rows."""
    if weights.ndim == 5:
        return weights.mean(2).transpose(1, 2).reshape(rows, -1, weights.shape[-1])
    return weights.mean(1).reshape(rows, -1, weights.shape[-1])


def source_attentions(task: Any) -> list[Attention]:
    """Return the attention over the source of each decoder layer that has one, first layer first."""
    decoder = task.body.decoder
    self_attentions = {part.attention for part in decoder.modules() if isinstance(part, SelfAttention)}
    attentions = [part for part in decoder.modules() if isinstance(part, Attention) and part not in self_attentions]
    if not attentions:
        raise UserError("this model does not attend to its source (model.attention=none), so there is no alignment")
    return attentions


def layer_number(layer: int | None, count: int) -> int:
    if layer is None:
        return max(count - 2, 0)
    if not 1 <= abs(layer) <= count:
        raise UserError(
            f"no layer {layer} of the decoder attends to the source; choose 1 to {count}, or -1 to -{count} from the"
            " last"
        )
    return layer - 1 if layer > 0 else count + layer


def displayed_tokens(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> Tokens:
    """Return the tokens of a text that was encoded to these ids or decoded from them. A generated text may be encoded
    to other ids than the generated ones; a token that is part of a character then stands for the whole character."""
    encoded, spans = tokenizer.encode_with_offsets(text)
    if encoded == list(ids):
        return tokens_at(text, spans)
    spans, done = [], 0
    for count in range(1, len(ids) + 1):
        prefix = tokenizer.decode(ids[:count])
        spans.append((min(done, len(prefix)), len(prefix)))
        done = len(prefix.rstrip("\ufffd"))
    return tokens_at(tokenizer.decode(ids), spans)


def tokens_at(text: str, spans: Sequence[tuple[int, int]]) -> Tokens:
    """Return the tokens at the character ranges [start, stop) of a text, grouped in words. Words are separated by
    white space, and each wide (Chinese, Japanese) character is a word, unless one token spans several."""
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
    """Return tokens between special ones, each of which is a word."""
    numbers = [*range(len(before)), *(len(before) + number for number in tokens.word_of)]
    words = [*before, *tokens.words, *after]
    return Tokens([*before, *tokens.texts, *after], words, [*numbers, *range(len(words) - len(after), len(words))])
