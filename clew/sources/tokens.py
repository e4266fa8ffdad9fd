"""Tokens of a vocabulary as inputs of a body, and words with their letters and other parts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.batches import padded
from clew.core.config import Part, build_part
from clew.layers.characters import CHARACTERS
from clew.layers.embeddings import Spelled, TokenEmbedding
from clew.sources.words import Sentences, WordReader
from clew.text.letters import letters_of
from clew.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Tokens:
    """Ids below `vocabulary`, each with a vector in a table. An example is a row of ids."""

    vocabulary: int

    @property
    def width(self) -> int:
        return self.vocabulary

    def embedding(self, dim: int, **around: Any) -> TokenEmbedding:
        return TokenEmbedding(self.vocabulary, dim, **around)

    def complete(self, embedding: TokenEmbedding) -> None:
        """Do nothing: a table is already complete."""

    def collate(self, examples: Sequence[Any]) -> tuple[Any, Tensor | None]:
        return padded(examples)

    def augment(self, inputs: Any) -> Any:
        return inputs


@dataclass(frozen=True)
class LetteredWords(Tokens):
    """Words, each embedded by the concatenation of a table's vector, its letters and another body's vectors, as
    configured. An example is a sentence of words.

    `table_dim` is the width of the table; by default, the width of the body minus that of the other parts. `context`
    builds the part that reads the words with another body; `reader` encodes them.
    """

    tokenizer: Tokenizer = field(kw_only=True)
    reader: WordReader = field(kw_only=True)
    table: bool = True
    table_dim: int | None = None
    tune: bool = True
    characters: Part | None = None
    characters_dim: int = 50
    dropout: float = 0.0
    context: Callable[[], nn.Module] | None = None

    def complete(self, embedding: TokenEmbedding) -> None:
        parts: list[nn.Module] = []
        if self.characters is not None:
            reader = build_part("reader of characters", self.characters, CHARACTERS, self.characters_dim)
            parts.append(Spelled(reader, spelling(self.tokenizer.tokens), dropout=self.dropout))
        if self.context is not None:
            parts.append(self.context())
        table = None
        if self.table:
            parts_width = sum(part.dim for part in parts)  # type: ignore[misc]
            width = self.table_dim or max(embedding.dim - parts_width, 0) or embedding.dim
            table = nn.Embedding(self.vocabulary, width)
            nn.init.uniform_(table.weight, -math.sqrt(3 / width), math.sqrt(3 / width))
            table.weight.requires_grad_(self.tune)
        embedding.enrich(table, parts)

    def collate(self, examples: Sentences) -> tuple[Any, Tensor | None]:
        pieces = self.reader.collate(self.reader.encode(examples))
        return pieces.inputs, pieces.mask


def spelling(tokens: list[str]) -> Tensor:
    """The letters of every token (tokens, letters), padded with 0."""
    letters = [letters_of(token) for token in tokens]
    longest = max(map(len, letters))
    return torch.tensor([[*word, *[0] * (longest - len(word))] for word in letters], dtype=torch.int32)
