"""Words as another body sees them in their sentence: its levels, mixed to one vector a word (Peters et al. 2018)."""

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
    """A sentence as a body reads it, and which of its pieces each word is: [start, end) (batch, words), both 0 on padding."""

    inputs: Any
    mask: Tensor | None
    starts: Tensor
    ends: Tensor

    @property
    def num_tokens(self) -> int:
        """How many are read, padding left out."""
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
"""What a word's vector is of the vectors of its pieces (batch, pieces, dim)."""


class Context(nn.Module):
    """A part of an embedding: word_i -> dropout(mix(levels of `body`)_i), of its first, last or all pieces.

    The levels are those that `mixable_levels` names. The body is trained along where it is `tuned`; else it stays as it is, and in
    evaluation mode.
    """

    def __init__(self, body: Any, widths: Sequence[int], mix: Any, *, pieces: str = "last", tuned: bool = False, dropout: float = 0.0):
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
            raise UserError("this embedding reads another body's vectors; give it the words' pieces")
        if is_exporting():  # without gradients anyhow, and the caller keeps to the body's positions
            mixed: Tensor = self.mix(self.vectors(self.body.levels(words.context.inputs, words.context.mask), words.context))
            return mixed
        with torch.set_grad_enabled(self.tuned and torch.is_grad_enabled()):
            found = self.vectors(levels_in_windows(self.body, words.context.inputs, words.context.mask), words.context)
        dropped: Tensor = self.dropout(self.mix(found))
        return dropped

    def vectors(self, levels: Sequence[Tensor], pieces: Pieces) -> list[Tensor]:
        """Each chosen level's vectors of words."""
        return [self.vector_of(levels[number], pieces) for number in self.chosen]


def levels_in_windows(body: Any, inputs: Tensor | Words | Segmented, mask: Tensor | None) -> list[Tensor]:
    """A body's levels; what is longer than the positions it can tell apart is read in pieces, each by itself."""
    tokens = tokens_of(inputs)
    length, limit = tokens.shape[1], body.max_length or max(tokens.shape[1], 1)
    windows = [slice(start, start + limit) for start in range(0, length, limit)] or [slice(0, 0)]
    found = []
    for window in windows:
        found.append(body.levels(cut(inputs, window), None if mask is None else mask[:, window]))
    return [torch.cat(level, 1) for level in zip(*found, strict=True)] if len(found) > 1 else found[0]


def cut(inputs: Any, window: slice) -> Any:
    """Some of the places of what an embedding is given."""
    if isinstance(inputs, Words):
        return Words(inputs.tokens[:, window], None if inputs.letters is None else inputs.letters[:, window])
    if isinstance(inputs, Segmented):
        return Segmented(inputs.tokens[:, window], inputs.segments[:, window])
    return inputs[:, window]


def mixable_levels(body: Any, widths: Sequence[int]) -> list[int]:
    """The numbers of the levels that can be added up: those as wide as the last, and of a block the one that it ends with."""
    return [number for number in block_ends(body, len(widths)) if widths[number] == widths[-1]]
