"""Contextual word vectors: the levels of another body, mixed to one vector per word (Peters et al. 2018)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.modes import is_exporting
from clew.layers.blocks import block_ends
from clew.layers.embeddings import Segmented, Words, tokens_of
from clew.layers.pooling import Levels


class Pieces(NamedTuple):
    """A sentence as the other body reads it. Word i is made of the pieces [starts, ends) (batch, words); both are 0 on
    padding."""

    inputs: Any
    mask: Tensor | None
    starts: Tensor
    ends: Tensor

    @property
    def num_tokens(self) -> int:
        """The number of tokens read, without padding."""
        tokens = self.inputs if isinstance(self.inputs, Tensor) else self.inputs.tokens
        return tokens.numel() if self.mask is None else int(self.mask.sum())


def first_pieces(hidden: Tensor, pieces: Pieces) -> Tensor:
    return at(hidden, pieces.starts)


def last_pieces(hidden: Tensor, pieces: Pieces) -> Tensor:
    return at(hidden, (pieces.ends - 1).clamp(min=0))


def mean_pieces(hidden: Tensor, pieces: Pieces) -> Tensor:
    places = torch.arange(hidden.shape[1], device=hidden.device)
    inside = (places >= pieces.starts[..., None]) & (places < pieces.ends[..., None])  # (batch, words, pieces)
    if pieces.mask is not None:
        hidden = hidden.masked_fill(~(pieces.mask > 0)[..., None], 0.0)
    return (inside.to(hidden.dtype) @ hidden) / inside.sum(-1, keepdim=True).clamp(min=1)


def at(hidden: Tensor, places: Tensor) -> Tensor:
    return hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))


WORD_VECTORS = {"first": first_pieces, "last": last_pieces, "mean": mean_pieces}
"""How a word's vector is made of its pieces' vectors (batch, pieces, dim)."""


class Context(nn.Module):
    """A part of an embedding: word_i -> dropout(mix(levels of `body`)_i), from the word's first, last or all pieces.

    Mixed are the levels of `mixable_levels`. The body is fine-tuned if `tuned`; otherwise it is frozen and stays in
    evaluation mode.
    """

    def __init__(
        self,
        body: Any,
        widths: Sequence[int],
        mix: Any,
        *,
        pieces: str = "last",
        tuned: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.body = body
        self.chosen = mixable_levels(body, widths)
        self.mix: Levels = mix(len(self.chosen), widths[-1], has_embedding=self.chosen[0] == 0)
        self.dim = self.mix.dim
        self.vector_of = WORD_VECTORS[pieces]
        self.tuned = tuned
        self.dropout = nn.Dropout(dropout)
        if not tuned:
            body.requires_grad_(False)
            body.eval()

    def train(self, mode: bool = True) -> "Context":
        super().train(mode)
        if not self.tuned:
            self.body.eval()
        return self

    def forward(self, words: Words) -> Tensor:
        if words.context is None:
            raise UserError(
                "this embedding reads the levels of another body; give it the words' pieces, as the context of Words"
            )
        if is_exporting():  # exports need no gradients, and their inputs are never longer than the body's positions
            mixed: Tensor = self.mix(
                self.vectors(self.body.levels(words.context.inputs, words.context.mask), words.context)
            )
            return mixed
        with torch.set_grad_enabled(self.tuned and torch.is_grad_enabled()):
            vectors = self.vectors(
                levels_in_windows(self.body, words.context.inputs, words.context.mask), words.context
            )
        dropped: Tensor = self.dropout(self.mix(vectors))
        return dropped

    def vectors(self, levels: Sequence[Tensor], pieces: Pieces) -> list[Tensor]:
        """The word vectors of each mixed level."""
        return [self.vector_of(levels[number], pieces) for number in self.chosen]


def levels_in_windows(body: Any, inputs: Tensor | Words | Segmented, mask: Tensor | None) -> list[Tensor]:
    """A body's levels. A sequence longer than its `max_length` is cut into windows, each read independently."""
    tokens = tokens_of(inputs)
    length, limit = tokens.shape[1], body.max_length or max(tokens.shape[1], 1)
    windows = [slice(start, start + limit) for start in range(0, length, limit)] or [slice(0, 0)]
    by_window = []
    for window in windows:
        by_window.append(body.levels(cut(inputs, window), None if mask is None else mask[:, window]))
    return [torch.cat(level, 1) for level in zip(*by_window, strict=True)] if len(by_window) > 1 else by_window[0]


def cut(inputs: Any, window: slice) -> Any:
    """The inputs of an embedding, limited to a window."""
    if isinstance(inputs, Words):
        return Words(inputs.tokens[:, window], None if inputs.letters is None else inputs.letters[:, window])
    if isinstance(inputs, Segmented):
        return Segmented(inputs.tokens[:, window], inputs.segments[:, window])
    return inputs[:, window]


def mixable_levels(body: Any, widths: Sequence[int]) -> list[int]:
    """The levels that can be mixed: the last of each block, if it is as wide as the last level."""
    return [number for number in block_ends(body, len(widths)) if widths[number] == widths[-1]]
