"""A step that is run again and again: what every form of it offers, and the plainest. Knows no model and no algorithm.

A step is a function from a frame, a tree of tensors, to the next frame and what is to be kept of the step.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Protocol

import torch
from torch import Tensor

from clew.core.state import leaves
from clew.core.types import Tree
from clew.kernels.few_rows import few_rows

Outputs = tuple[Tensor, ...]
Advance = Callable[[Tree, Tensor | None], tuple[Tree, Outputs]]
"""(frame, what is fed to this step (rows,) or None) -> (frame, outputs (rows, ...) of this step)."""


class Repeated(Protocol):
    """A step that can be run any number of times."""

    owns_frame: bool
    """Whether the frame that it was given has been copied, so that its memory may be written over."""

    @property
    def frame(self) -> Tree:
        """Where it stands; overwritten by the next `run`."""
        ...

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        """The outputs of the next `count` steps, stacked on axis 1; `fed` (count, rows) has what each step is fed."""
        ...


class Eager:
    owns_frame = False

    def __init__(self, advance: Advance, frame: Tree):
        self.advance = advance
        self.frame: Tree = frame
        self.mode = few_rows(leaves(frame)[0].device) or nullcontext()

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        found = []
        with self.mode:
            for step in range(count):
                self.frame, outputs = self.advance(self.frame, None if fed is None else fed[step])
                found.append(outputs)
        return stacked(found)


def stacked(outputs: Sequence[Outputs]) -> Outputs:
    """The outputs of several steps, on axis 1."""
    if len(outputs) == 1:
        return tuple(output[:, None] for output in outputs[0])
    return tuple(torch.stack(column, 1) for column in zip(*outputs, strict=True))
