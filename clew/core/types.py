"""Values and protocols shared between packages: states, memories, loss terms, sources and bodies."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

Tree = Any
"""Tensors in nested tuples, NamedTuples, lists and dicts; None is an empty branch."""

State = Any
"""A tree whose leaves have the batch as their first axis."""


class Memory(NamedTuple):
    """What a decoder reads and never writes: one row per sentence, shared by the sentence's beams.

    `values` is the encoder's output (batch, length, dim), or a layer's projection of it; `mask` is True at real places;
    `final` is a tree that initialises a recurrent decoder.
    """

    values: Tree
    mask: Tensor | None = None
    final: Tree = None


class Fixed(NamedTuple):
    """A part of a cell's inputs without a length axis, constant over the steps of a chunk, such as a dropped weight.

    Without this mark, the loop over steps would slice it.
    """

    value: Tree


class Term(NamedTuple):
    """One term of a loss: weight * sum / count, where the count is over all micro-batches and processes.

    The weight multiplies the mean, so that terms with different counts stay exact under accumulation.
    """

    sum: Tensor
    count: Tensor  # type: ignore[assignment]
    weight: float = 1.0


class Source(Protocol):
    """What a body reads: it turns examples into inputs with a mask, and builds the embedding that turns inputs into
    vectors (batch, length, dim). A family of bodies knows nothing else about its inputs."""

    @property
    def width(self) -> int:
        """Features of one position: the size of a vocabulary, or the width of a vector."""
        ...

    def embedding(self, dim: int, **around: Any) -> Any:
        """Build the first part of a body, of width `dim`.

        `around` are the family's options: position, num_segments, scaled, dropout, dropout_kind, norm; for tokens also
        word_dropout and table.
        """
        ...

    def complete(self, embedding: Any) -> None:
        """Add the parts of an embedding that are initialised after the whole body, so that the body's weights do not
        depend on them."""
        ...

    def collate(self, examples: Sequence[Any]) -> tuple[Any, Tensor | None]:
        """Pad examples to inputs; return them and their mask, None if all positions are real."""
        ...

    def augment(self, inputs: Any) -> Any:
        """Augment inputs for training."""
        ...


class Body(Protocol):
    """A body as tasks see it: one vector per position, for chunks of any length.

    `levels` returns every layer's output, the embedding first; `max_length` is the number of positions that it
    supports, None if unlimited.
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
