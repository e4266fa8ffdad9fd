"""The values that pass between packages: what a decoder reads, what a loss adds up, what a cell is handed whole."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

Tree = Any
"""Tensors in nested tuples, NamedTuples, lists and dicts; None is an empty branch."""

State = Any
"""A tree whose leaves have the batch as their first axis."""


class Memory(NamedTuple):
    """What a decoder only reads: one row a sentence, shared by that sentence's beams.

    `values` is the encoder's output (batch, length, dim), or what a layer has projected from it; `mask` says which
    places are real; `final` is a tree that starts a recurrent decoder.
    """

    values: Tree
    mask: Tensor | None = None
    final: Tree = None


class Fixed(NamedTuple):
    """A part of a cell's inputs that has no length axis: the same for every step of a chunk (a dropped weight)."""

    value: Tree


class Term(NamedTuple):
    """One part of a loss: weight * sum / count, the count taken over all micro-batches and processes."""

    sum: Tensor
    count: Tensor  # type: ignore[assignment]
    weight: float = 1.0


class Source(Protocol):
    """What a body reads: examples become inputs with a mask, and the embedding that is built here makes of inputs vectors
    (batch, length, dim). A family of bodies knows nothing else of what it reads."""

    @property
    def width(self) -> int:
        """Features of what stands at a position: the size of a vocabulary, or the width of a vector."""
        ...

    def embedding(self, dim: int, **around: Any) -> Any:
        """The first part of a body, as wide as its family asks, with what that puts around it: position, num_segments, scaled, dropout,
        dropout_kind, norm; of tokens word_dropout and table."""
        ...

    def complete(self, embedding: Any) -> None:
        """Puts into a body's embedding the parts that are drawn when the whole body is there."""
        ...

    def collate(self, examples: Sequence[Any]) -> tuple[Any, Tensor | None]:
        """Examples side by side as inputs, padded, and which positions are real; None where all are."""
        ...

    def augment(self, inputs: Any) -> Any:
        """What the embedding reads in training in place of inputs."""
        ...


class Body(Protocol):
    """What a task knows of a body: one vector a position, in chunks of any length.

    `levels` gives every layer's output, the embedding first; `max_length` is how many positions it can tell apart, None where any number.
    """

    causal: bool
    dim: int
    vocabulary: int
    embedding: Any

    @property
    def max_length(self) -> int | None: ...

    def initial_state(self, batch_size: int, memory: Memory | None = None, capacity: int | None = None) -> State: ...

    def __call__(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]: ...

    def levels(self, inputs: Any, mask: Tensor | None = None) -> list[Tensor]: ...
