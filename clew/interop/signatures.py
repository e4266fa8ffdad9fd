"""A program to export, with its inputs and outputs. Its dynamic axes are detected by running it at several sizes.

Nothing is declared, so the state of a new layer needs no code here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.errors import UserError

Sizes = Mapping[str, int]
Tensors = dict[str, Tensor]

SIZES = {"past": 2, "length": 3, "source": 4, "batch": 5, "second": 6, "words": 7, "letters": 8, "context": 9}
"""The sizes with which a program is traced. They differ, and none is 1, which torch would treat as fixed."""
OTHERS = (
    {**SIZES, "batch": 1, "length": 1},
    {"past": 3, "length": 2, "source": 7, "batch": 8, "second": 2, "words": 2, "letters": 11, "context": 4},
)
"""Other sizes at which a program is checked, since a tracer may fix a size silently. They are small, for models with
few positions."""


class Port(NamedTuple):
    """One input or output tensor. Each side of its shape is a number, or the sizes with which it grows: `batch`, `past
    + length`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Program:
    """A module from tensors to a tuple of tensors. `example` returns its inputs by name, at given sizes; for `usage`,
    `alone` and `facts` see `tasks.programs.ReadingProgram`."""

    name: str
    module: nn.Module
    example: Callable[[Sizes], Tensors]
    outputs: Sequence[str]
    usage: str = ""
    alone: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> list[str]:
        return list(self.example(SIZES))

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """The inputs at SIZES."""
        return tuple(self.example(SIZES).values())

    @cached_property
    def ports(self) -> tuple[list[Port], list[Port]]:
        """The inputs and the outputs. A side that changes when one size grows by one depends on that size."""
        names = self.inputs
        results = {size: self.run({**SIZES, size: number + 1}) for size, number in SIZES.items()}
        ports = []
        for place, tensor in enumerate(self.run(SIZES)):
            larger = {size: tensors[place].shape for size, tensors in results.items()}
            shape = tuple(side(tensor, axis, larger) for axis in range(tensor.dim()))
            name = [*names, *self.outputs][place]
            ports.append(Port(name, str(tensor.dtype).removeprefix("torch."), shape))
        return ports[: len(names)], ports[len(names) :]

    def run(self, sizes: Sizes) -> list[Tensor]:
        """Return the inputs followed by the outputs at given sizes."""
        tensors = list(self.example(sizes).values())
        with torch.no_grad():
            return [*tensors, *self.module(*tensors)]


def random_tokens(vocabulary: int, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Return random ids (rows, length), and a mask that is True everywhere."""
    ids = torch.arange(rows * length).view(rows, length) % vocabulary
    return ids, torch.ones(rows, length, dtype=torch.bool)


def side(tensor: Tensor, axis: int, larger: Mapping[str, Sequence[int]]) -> int | str:
    sizes = [size for size, shape in larger.items() if shape[axis] != tensor.shape[axis]]
    return " + ".join(sizes) or tensor.shape[axis]


def check_same(program: Program, call: Callable[[Sequence[Tensor]], Sequence[Tensor]]) -> None:
    """Raise a UserError if an exported program's outputs differ from its module's at other sizes than those of the
    tracing."""
    for sizes in OTHERS:
        tensors = list(program.example(sizes).values())
        with torch.no_grad():
            expected = program.module(*tensors)
        for name, one, other in zip(program.outputs, expected, call(tensors), strict=True):
            if one.shape != other.shape or not torch.allclose(one.float(), other.float(), rtol=1e-4, atol=1e-4):
                raise UserError(
                    f"the output {name} of the exported program {program.name} differs from the run's; nothing was"
                    " written"
                )
