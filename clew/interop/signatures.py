"""A program to be written for another runtime, and what goes in and out of it, found by running it on tensors of several sizes."""

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
"""The sizes that a program is shown; it then takes any. They differ, and none is 1, which torch would take for fixed."""
OTHERS = (
    {**SIZES, "batch": 1, "length": 1},
    {"past": 3, "length": 2, "source": 7, "batch": 8, "second": 2, "words": 2, "letters": 11, "context": 4},
)
"""Sizes that a program is tried on before it is kept; small, for models that can tell few positions apart."""


class Port(NamedTuple):
    """One tensor that goes in or out. A side of its shape is a number, or the sizes that it grows with: `batch`, `past + length`."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Program:
    """A module from tensors to a tuple of tensors. `example` has its inputs by name, for given sizes; `usage`, `alone` and `facts` are as
    `tasks.programs.Reads` has them."""

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
        """What goes in at the sizes of SIZES."""
        return tuple(self.example(SIZES).values())

    @cached_property
    def ports(self) -> tuple[list[Port], list[Port]]:
        """All that goes in and out: a side that is longer where one size is larger by one grows with that size."""
        names = self.inputs
        seen = {size: self.run({**SIZES, size: number + 1}) for size, number in SIZES.items()}
        found = []
        for place, tensor in enumerate(self.run(SIZES)):
            larger = {size: tensors[place].shape for size, tensors in seen.items()}
            shape = tuple(side(tensor, axis, larger) for axis in range(tensor.dim()))
            name = [*names, *self.outputs][place]
            found.append(Port(name, str(tensor.dtype).removeprefix("torch."), shape))
        return found[: len(names)], found[len(names) :]

    def run(self, sizes: Sizes) -> list[Tensor]:
        """Everything that goes in and out at given sizes."""
        tensors = list(self.example(sizes).values())
        with torch.no_grad():
            return [*tensors, *self.module(*tensors)]


def drawn(vocabulary: int, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Some ids (rows, length), all real."""
    ids = torch.arange(rows * length).view(rows, length) % vocabulary
    return ids, torch.ones(rows, length, dtype=torch.bool)


def side(tensor: Tensor, axis: int, larger: Mapping[str, Sequence[int]]) -> int | str:
    sizes = [size for size, shape in larger.items() if shape[axis] != tensor.shape[axis]]
    return " + ".join(sizes) or tensor.shape[axis]


def check_same(program: Program, call: Callable[[Sequence[Tensor]], Sequence[Tensor]]) -> None:
    """Refuses a program that does not give what its module gives, on sizes other than those it was shown."""
    for sizes in OTHERS:
        tensors = list(program.example(sizes).values())
        with torch.no_grad():
            wanted = program.module(*tensors)
        for name, one, other in zip(program.outputs, wanted, call(tensors), strict=True):
            if one.shape != other.shape or not torch.allclose(one.float(), other.float(), rtol=1e-4, atol=1e-4):
                raise UserError(f"the program {program.name} was written, but its output {name} is not the run's; nothing is kept of it")
