"""Representation: one vector for a text, with nothing to learn: an encoder without an output layer. Any body. How texts
are cut, framed and batched for it is in `text_vectors.py`, as for the vectors of any other task's body."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.core.config import Part, TaskSection, build_part, one_of, part_name
from clew.layers.context import Pieces
from clew.layers.pooling import POOLINGS
from clew.sources.words import EncodedWords, WordReader
from clew.tasks.entry import TaskEntry
from clew.tasks.shared.reading import ReadsText
from clew.tasks.uses.programs import ReadingProgram, levels
from clew.tasks.uses.text_vectors import EMBED
from clew.text.tokenizer import Tokenizer

VECTORS = """\
print(run("embedder", tensors)["vectors"][0])
"""
"""The example code of a program in its card."""


class RepresentationConfig(TaskSection):
    """A vector for each text."""

    name: Literal["representation"] = "representation"
    pooling: Annotated[Part, one_of("pooling", POOLINGS)] = Field(
        "mean", description=f"how a text's vectors are pooled to one: {', '.join(POOLINGS)}"
    )
    normalise: bool = Field(False, description="scale vectors to length 1, so that a dot product is the cosine")
    longest: int | None = Field(
        None, ge=1, description="cut texts to this many tokens, including the special tokens around them"
    )


class Representation(ReadsText, nn.Module):
    """v = pool(h_1 .. h_n), with the body's vectors h;  v / |v| if `normalise`."""

    needs: tuple[str, ...] = ()

    def __init__(self, body: Any, reader: WordReader, config: RepresentationConfig | None = None):
        super().__init__()
        self.config = config = config or RepresentationConfig()
        self.body = body
        self.reader = reader
        halves = {"halves": True} if part_name(config.pooling) == "last" and body.halves else {}
        self.pooling = build_part("pooling", config.pooling, POOLINGS, body.dim, **halves)

    def forward(self, batch: Pieces) -> Tensor:
        """Return a vector for each text (batch, dim)."""
        pooled = self.pooling(self.body(batch.inputs, batch.mask)[0], batch.mask)
        return F.normalize(pooled, dim=-1) if self.config.normalise else pooled

    @property
    def longest_text(self) -> int | None:
        """The most positions of a text; longer ones are cut."""
        return self.longest

    @property
    def longest(self) -> int | None:
        """The most positions of a text."""
        limits = [limit for limit in (self.config.longest, self.body.max_length) if limit is not None]
        return min(limits, default=None)

    def collate(self, encoded: Sequence[EncodedWords]) -> Pieces:
        return self.reader.collate(encoded)

    def looked_up(self) -> list[Tensor]:
        """Return the tables that are only indexed, never multiplied: they cost no FLOPs."""
        tables: list[Tensor] = self.body.embedding.looked_up()
        return tables

    def programs(self) -> list[ReadingProgram]:
        return [
            ReadingProgram("embedder", ["vectors"], lambda inputs: (self(inputs.texts[0]),), usage=VECTORS),
            levels(self.body),
        ]


def build_representation(body: Any, vocabularies: dict[str, Any], config: RepresentationConfig) -> Representation:
    return Representation(body, WordReader.of(body, vocabularies), config)


REPRESENTATION = TaskEntry(
    config=RepresentationConfig,
    build=build_representation,
    needs=Representation.needs,
    vocabularies={"tokenizer": Tokenizer},
    uses={"embed": EMBED},
    pipeline="feature-extraction",
)
