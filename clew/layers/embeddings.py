"""Embeddings: a body's inputs as vectors, with positions, segments, norm and dropout."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import Places
from clew.core.taps import Tap
from clew.layers.dropouts import DROPOUTS, drop_words
from clew.layers.positions import Position


class Segmented(NamedTuple):
    """Tokens with the number of the segment each belongs to."""

    tokens: Tensor
    segments: Tensor


class Words(NamedTuple):
    """Tokens that are words, optionally with the letters of each (batch, length, letters) and their pieces for another
    body."""

    tokens: Tensor
    letters: Tensor | None = None
    context: Any = None


def tokens_of(inputs: Any) -> Tensor:
    """The token ids (batch, length) of an embedding's inputs, or its vectors."""
    return inputs if isinstance(inputs, Tensor) else inputs.tokens


class Embedding(nn.Module):
    """x_i = norm(read(inputs)_i (+ position_i) (+ S[segment_i])). The norm is optional; plain inputs are segment 0.

    Subclasses define `read(inputs)`, vectors (batch, length, dim). `scaled` multiplies these by sqrt(dim) (Vaswani et
    al. 2017).
    """

    dim: int
    vocabulary: int
    """The number of token ids; 0 if the inputs are no tokens."""
    width: int
    """The width of an input: the size of the vocabulary, or the width of a vector."""
    tokens: nn.Embedding | None
    parts: Any

    def surround(
        self,
        *,
        position: Position | None = None,
        num_segments: int = 0,
        scaled: bool = False,
        dropout: float = 0.0,
        dropout_kind: str = "plain",
        norm: nn.Module | None = None,
    ) -> None:
        """Add what surrounds `read`: position, segments, scale, norm, dropout. Called last by each constructor."""
        self.segments = nn.Embedding(num_segments, self.dim) if num_segments else None
        self.position = position
        self.scale = math.sqrt(self.dim) if scaled else 1.0
        self.norm = norm
        self.dropout = DROPOUTS[dropout_kind](dropout)

    @property
    def like(self) -> Tensor:
        """A tensor with the dtype and device of the outputs."""
        return next(self.parameters())

    @property
    def weight(self) -> Tensor:
        """The table of token vectors, if there is one."""
        raise UserError("this embedding reads vectors and has no table of tokens, so no output layer can be tied to it")

    def looked_up(self) -> list[Tensor]:
        """Tables that are only indexed, never multiplied: they cost no FLOPs."""
        return []

    def draw(self, init: Callable[[Tensor], Any]) -> None:
        """Reinitialise the table, if there is one, by the family's rule."""

    def blank(self, batch: int, length: int) -> Any:
        """Inputs of the right form without content, such as zeros."""
        raise NotImplementedError

    def read(self, inputs: Any) -> Tensor:
        raise NotImplementedError

    def forward(self, inputs: Any, places: Places) -> Tensor:
        x = self.read(inputs)
        if self.scale != 1.0:
            x = x * self.scale
        if self.position is not None:
            x = self.position.embed(x, places.positions)
        if self.segments is not None:
            x = x + (self.segments(inputs.segments) if isinstance(inputs, Segmented) else self.segments.weight[0])
        elif isinstance(inputs, Segmented):
            raise UserError("this embedding has no segments; build it with num_segments")
        if self.norm is not None:
            x = self.norm(x)
        return self.dropout(x) if self.training else x


class TokenEmbedding(Embedding):
    """read(inputs)_i = E[token_i].

    `word_dropout` drops whole words of the table. The output layer may tie its weight to `weight`. `table` is another
    embedding's E; it stays that embedding's parameter, so that a shared table is counted, saved and sharded once.

    With parts added by `enrich`, read(inputs)_i = W [E[token_i]; part_1(word_i); part_2(word_i); ...]. There is no W if
    the widths agree.
    """

    def __init__(
        self, vocabulary: int, dim: int, *, word_dropout: float = 0.0, table: nn.Embedding | None = None, **around: Any
    ):
        super().__init__()
        if vocabulary < 1:
            raise UserError(f"vocabulary ({vocabulary}) must be at least 1")
        self.vocabulary = self.width = vocabulary
        self.dim = dim
        if table is None:
            self.tokens = nn.Embedding(vocabulary, dim)
        else:
            object.__setattr__(self, "tokens", table)  # hides it from parameters() and state_dict()
        self.parts = nn.ModuleList()
        self.map: nn.Linear | None = None
        self.word_dropout = word_dropout
        self.surround(**around)

    def enrich(self, table: nn.Embedding | None, parts: Sequence[nn.Module] = ()) -> None:
        """Replace the table (None: no table) and add parts beside it: modules from `Words` to vectors (batch, length,
        dim)."""
        width = sum(part.dim for part in parts) + (0 if table is None else table.embedding_dim)  # type: ignore[misc]
        self.tokens = table
        self.parts = nn.ModuleList(parts)
        self.map = None if width == self.dim else nn.Linear(width, self.dim)

    @property
    def weight(self) -> Tensor:
        """E."""
        if self.tokens is None:
            raise UserError(
                "this embedding has no table of words (embedding.words=false), so no output layer can be tied to it"
            )
        return self.tokens.weight

    @property
    def like(self) -> Tensor:
        return self.tokens.weight if self.tokens is not None else next(self.parameters())

    def looked_up(self) -> list[Tensor]:
        return [] if self.tokens is None else [self.tokens.weight]

    def draw(self, init: Callable[[Tensor], Any]) -> None:
        with torch.no_grad():
            init(self.weight)

    def blank(self, batch: int, length: int) -> Tensor:
        return torch.zeros(batch, length, dtype=torch.long, device=self.like.device)

    def read(self, inputs: Tensor | Segmented | Words) -> Tensor:
        vectors = []
        if self.tokens is not None:
            vectors.append(
                F.embedding(tokens_of(inputs), drop_words(self.tokens.weight, self.word_dropout, self.training))
            )
        words = inputs if isinstance(inputs, Words) else Words(tokens_of(inputs))
        vectors += [part(words) for part in self.parts]
        x = vectors[0] if len(vectors) == 1 else torch.cat(vectors, -1)
        return x if self.map is None else self.map(x)


class VectorEmbedding(Embedding):
    """read(v)_i = W v_i + b, for vectors v (batch, length, width). In training it reads `augment(v)`.

    The tap `given` shows v. An optional `reader(v, lengths)` comes before W; `lengths` are those of the inputs, if they
    have any."""

    vocabulary = 0
    tokens = None
    parts = ()

    def __init__(
        self,
        width: int,
        dim: int,
        *,
        augment: Callable[[Tensor], Tensor] = lambda vectors: vectors,
        reader: Any = None,
        **around: Any,
    ):
        super().__init__()
        if width < 1:
            raise UserError(f"width ({width}) must be at least 1")
        self.width = width
        self.dim = dim
        self.reader = reader
        self.map = nn.Linear(width if reader is None else reader.width, dim)
        self.augment = augment
        self.given = Tap()
        self.surround(**around)

    def blank(self, batch: int, length: int) -> Tensor:
        return self.like.new_zeros(batch, length, self.width)

    def read(self, inputs: Tensor | Segmented) -> Tensor:
        vectors = tokens_of(inputs)
        if vectors.dim() != 3 or vectors.shape[-1] != self.width:
            raise UserError(
                f"this body reads vectors (batch, length, {self.width}), not a tensor of the shape"
                f" {list(vectors.shape)}"
            )
        vectors = self.given((self.augment(vectors) if self.training else vectors).to(self.like.dtype))
        mapped: Tensor = self.map(
            vectors if self.reader is None else self.reader(vectors, getattr(inputs, "lengths", None))
        )
        return mapped


class Spelled(nn.Module):
    """Word vectors from letters. `spelling` (vocabulary, letters) has the letters of each token, for inputs that come
    without letters."""

    spelling: Tensor

    def __init__(self, reader: nn.Module, spelling: Tensor, *, dropout: float = 0.0):
        super().__init__()
        self.reader = reader
        self.dim: int = reader.dim  # type: ignore[assignment]
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("spelling", spelling, persistent=False)

    def forward(self, words: Words) -> Tensor:
        letters = self.spelling[words.tokens] if words.letters is None else words.letters
        spelt: Tensor = self.dropout(self.reader(letters.long()))
        return spelt
