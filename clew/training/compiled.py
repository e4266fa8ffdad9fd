"""A task compiled by `torch.compile`, for evaluation and for the training loop."""

import os
from typing import Any

import torch
import torch.fx.experimental._config as symbolic_shapes
from torch import nn

from clew.core.files import cache_folder
from clew.core.state import detach_state
from clew.core.types import State, Term


class Carrying(nn.Module):
    """A task that returns its state detached, or None if the state is not carried.

    Compiled code expects a gradient for every output that can have one. For keys and values that are not detached
    inside the compiled code, each backward pass would allocate zeros of their size and add them: 1.2 GB for GPT-2 at
    32 x 1024, written once and read twice.
    """

    def __init__(self, task: nn.Module, carry: bool):
        super().__init__()
        self.task, self.carry = task, carry

    def forward(self, batch: Any, state: State = None) -> tuple[dict[str, Term], State]:
        terms, state = self.task(batch, state)
        return terms, detach_state(state) if self.carry else None


def compile_task(task: nn.Module, *, many_shapes: bool = False) -> Any:
    """Compile a task by `torch.compile`. The generated code is stored in clew's cache for later runs.

    `many_shapes` compiles one graph with dynamic shapes, because one graph per length would take minutes. By default
    torch assumes that sizes which are equal in the first batch are always equal, so it would compile a second graph if
    that batch happens to have as many rows as a layer has units.

    On a CPU, torch 2.13 computes wrong gradients for a bidirectional encoder with an attentive decoder, unless
    `torch._inductor.config.inplace_buffers` is False.
    """
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "compiled"))
    compiled: Any = torch.compile(task, dynamic=True if many_shapes else None)
    if many_shapes:
        compiled.forward = symbolic_shapes.patch(use_duck_shape=False)(compiled.forward)  # type: ignore[attr-defined]
    return compiled
