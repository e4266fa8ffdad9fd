"""Repeated steps: the interface of all forms, and the eager form. Knows no model and no algorithm.

A step is a function from a frame, a tree of tensors, to the next frame and the outputs of the step.
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
"""(frame, numbers fed to this step (rows,) or None) -> (frame, outputs (rows, ...) of this step)."""


class Repeated(Protocol):
    """A step that can be run any number of times."""

    owns_frame: bool
    """Whether the initial frame has been copied, so that its memory may be overwritten."""

    @property
    def frame(self) -> Tree:
        """The frame after the last step; overwritten by the next `run`."""
        ...

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        """Run `count` steps and return their outputs, stacked on axis 1; `fed` (count, rows) holds the numbers fed to
        each step."""
        ...


class Movable(Repeated, Protocol):
    """A repeated step that can continue from another frame of the same shapes, which was made from its own."""

    def continue_from(self, frame: Tree) -> None: ...


class Interrupted:
    """A captured step that sometimes must run eagerly: whenever `calm(frame)`, the number of steps until then, is 0."""

    def __init__(self, inner: Movable, advance: Advance, calm: Callable[[Tree], int]):
        self.inner, self.advance, self.calm = inner, advance, calm
        self.left = 0  # steps known to be calm
        self.owns_frame = inner.owns_frame

    @property
    def frame(self) -> Tree:
        return self.inner.frame

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        collected: list[Outputs] = []
        done = 0
        while done < count:
            self.left = self.left or self.calm(self.frame)
            if self.left:
                steps = min(self.left, count - done)
                collected.append(self.inner.run(steps, None if fed is None else fed[done : done + steps]))
                self.left -= steps
            else:
                steps = 1
                frame, outputs = self.advance(self.frame, None if fed is None else fed[done])
                self.inner.continue_from(frame)
                collected.append(stacked([outputs]))
            done += steps
        return tuple(torch.cat(parts, 1) for parts in zip(*collected, strict=True))


class Eager:
    """A step that runs as it is written."""

    owns_frame = False

    def __init__(self, advance: Advance, frame: Tree):
        self.advance = advance
        self.frame: Tree = frame
        self.mode = step_mode(leaves(frame)[0].device)

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        collected = []
        with self.mode:
            for step in range(count):
                self.frame, outputs = self.advance(self.frame, None if fed is None else fed[step])
                collected.append(outputs)
        return stacked(collected)

    def continue_from(self, frame: Tree) -> None:
        self.frame = frame


def stacked(outputs: Sequence[Outputs]) -> Outputs:
    """Stack the outputs of several steps on axis 1."""
    if len(outputs) == 1:
        return tuple(output[:, None] for output in outputs[0])
    return tuple(torch.stack(column, 1) for column in zip(*outputs, strict=True))
