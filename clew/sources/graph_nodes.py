"""Nodes of a graph as what a body reads: what stands at each of them, and how many types of edges lead between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from clew.core.types import Source

EDGE_TYPES = "edge_types"
"""The role of the table of types, among a run's vocabularies; a type that it has not is one more."""


@dataclass(frozen=True)
class GraphNodes:
    """What another source reads, at the nodes of a graph whose edges are of `num_types`. A body that reads sequences finds that source."""

    nodes: Source
    num_types: int

    @property
    def width(self) -> int:
        return self.nodes.width

    def embedding(self, dim: int, **around: Any) -> Any:
        return self.nodes.embedding(dim, **around)

    def complete(self, embedding: Any) -> None:
        self.nodes.complete(embedding)

    def collate(self, examples: Sequence[Any]) -> tuple[Any, Tensor | None]:
        return self.nodes.collate(examples)

    def augment(self, inputs: Any) -> Any:
        return self.nodes.augment(inputs)
