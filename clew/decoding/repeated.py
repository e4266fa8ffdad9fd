"""A step that is run again and again: what every form of it offers, and the plainest. Knows no model and no algorithm.

A step is a function from a frame, a tree of tensors, to the next frame and what is to be kept of the step.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from clew.core.state import leaves
from clew.core.types import Tree
from clew.kernels.step_mode import step_mode

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


class Movable(Repeated, Protocol):
    """A repeated step that can be told to go on from another frame of the same shapes, which was made from its own."""

    def stand_at(self, frame: Tree) -> None: ...


class Interrupted:
    """A step that now and then has to be run as it was written: where `calm(frame)`, the number of steps until then, is 0."""

    def __init__(self, inner: Movable, advance: Advance, calm: Callable[[Tree], int]):
        self.inner, self.advance, self.calm = inner, advance, calm
        self.left = 0  # steps that are known to be calm
        self.owns_frame = inner.owns_frame

    @property
    def frame(self) -> Tree:
        return self.inner.frame

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        found: list[Outputs] = []
        done = 0
        while done < count:
            self.left = self.left or self.calm(self.frame)
            if self.left:
                steps = min(self.left, count - done)
                found.append(self.inner.run(steps, None if fed is None else fed[done : done + steps]))
                self.left -= steps
            else:
                steps = 1
                frame, outputs = self.advance(self.frame, None if fed is None else fed[done])
                self.inner.stand_at(frame)
                found.append(stacked([outputs]))
            done += steps
        return tuple(torch.cat(parts, 1) for parts in zip(*found, strict=True))


class Eager:
    owns_frame = False

    def __init__(self, advance: Advance, frame: Tree):
        self.advance = advance
        self.frame: Tree = frame
        self.mode = step_mode(leaves(frame)[0].device)

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        found = []
        with self.mode:
            for step in range(count):
                self.frame, outputs = self.advance(self.frame, None if fed is None else fed[step])
                found.append(outputs)
        return stacked(found)

    def stand_at(self, frame: Tree) -> None:
        self.frame = frame


def stacked(outputs: Sequence[Outputs]) -> Outputs:
    """The outputs of several steps, on axis 1."""
    if len(outputs) == 1:
        return tuple(output[:, None] for output in outputs[0])
    return tuple(torch.stack(column, 1) for column in zip(*outputs, strict=True))
