"""Nodes of graphs as inputs of a body: the inputs at each node, and the number of edge types."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from clew.core.types import Source

EDGE_TYPES = "edge_types"
"""The role of the table of edge types among a run's vocabularies. A type that is not in the table counts as one
more."""


@dataclass(frozen=True)
class GraphNodes:
    """The inputs of another source, at the nodes of a graph with `num_types` edge types. Bodies that read sequences use
    only that source."""

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
