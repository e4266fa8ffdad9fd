"""Representation: one vector for a text, with nothing to learn. What an encoder without an output layer does; any body."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.core.batches import to_device
from clew.core.config import Part, Section, build_part, one_of, part_name
from clew.core.modes import evaluating
from clew.layers.context import Pieces
from clew.layers.pooling import POOLINGS
from clew.tasks.words import EncodedWords, WordReader
from clew.text.tokenizer import check_is_text
from clew.text.words import words_of

BATCH = 64
"""Texts that are read at a time."""


class RepresentationConfig(Section):
    """A vector for each text."""

    name: Literal["representation"] = "representation"
    pooling: Annotated[Part, one_of("pooling", POOLINGS)] = Field(
        "mean", description=f"what a text's vectors become: {', '.join(POOLINGS)}"
    )
    normalise: bool = Field(False, description="vectors are of length 1, so that their product is the cosine")
    longest: int | None = Field(None, ge=1, description="texts are cut to so many tokens, those around them counted")


class Representation(nn.Module):
    """v = pool(h_1 .. h_n), h being the body's vectors;  v / |v| where it normalises."""

    needs: tuple[str, ...] = ()

    def __init__(self, body: Any, reader: WordReader, config: RepresentationConfig | None = None):
        super().__init__()
        self.config = config = config or RepresentationConfig()
        self.body = body
        self.reader = reader
        halves = {"halves": True} if part_name(config.pooling) == "last" and body.halves else {}
        self.pooling = build_part("pooling", config.pooling, POOLINGS, body.dim, **halves)

    def forward(self, batch: Pieces) -> Tensor:
        """(batch, dim)."""
        pooled = self.pooling(self.body(batch.inputs, batch.mask)[0], batch.mask)
        return F.normalize(pooled, dim=-1) if self.config.normalise else pooled

    @property
    def longest(self) -> int | None:
        """Places that a text may take."""
        limits = [limit for limit in (self.config.longest, self.body.max_length) if limit is not None]
        return min(limits, default=None)

    def encode(self, texts: Sequence[str]) -> list[EncodedWords]:
        """Texts as ids, cut to what is read of them."""
        reader = self.reader
        if reader.tokenizer.unit == "word":
            return reader.encode([(words_of(text) or ["_"])[: self.longest] for text in texts])
        frame = reader.tokenizer.frame
        room = None if self.longest is None else max(self.longest - (0 if frame is None else frame.num_added()), 0)
        whole = reader.encode_whole(texts, framed=False)
        return [reader.framed(each._replace(tokens=each.tokens[:room])) for each in whole]

    def collate(self, encoded: Sequence[EncodedWords]) -> Pieces:
        return self.reader.collate(encoded)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """A vector for each text (texts, dim), texts of like length read together."""
        for number, text in enumerate(texts, start=1):
            check_is_text(text, f"text {number}")
        encoded = self.encode(texts)
        like = self.body.embedding.like
        found = like.new_zeros(len(encoded), self.pooling.dim)
        order = sorted(range(len(encoded)), key=lambda row: len(encoded[row].tokens))
        with evaluating([self]):
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                found[rows] = self(to_device(self.collate([encoded[row] for row in rows]), like.device))
        return found

    def looked_up(self) -> list[Tensor]:
        """Tables that no vector is multiplied with: they cost no FLOPs."""
        return self.body.embedding.looked_up()


def build_representation(body: Any, vocabularies: dict[str, Any], config: RepresentationConfig) -> Representation:
    return Representation(body, WordReader.of(body, vocabularies), config)
