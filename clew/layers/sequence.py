"""The sequence layer, `(x, mask, state) -> (y, state)`, and stacks of them. Knows no particular layer."""

from collections.abc import Iterable
from contextvars import copy_context
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from clew.core.errors import UserError
from clew.core.taps import is_watched
from clew.core.types import Memory, State


class SequenceLayer(nn.Module):
    """Reads a chunk of any length, given the state after the chunk before it.

    `causal` says that position t does not depend on later positions; only causal layers take a state. `dim` is the
    output width. These defaults suit a layer that remembers nothing: its state is None. A layer that sees the whole
    sequence may return fewer positions than it reads, one for each `stride` of them; `out_mask` says which of those are
    real.
    """

    causal: bool = True
    dim: int
    stride: int = 1

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        """The state before anything is read. It allocates and stores, but computes nothing with parameters."""
        return None

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        raise NotImplementedError

    def out_mask(self, mask: Tensor | None) -> Tensor | None:
        """Which output positions are real."""
        return mask

    def refuse_state(self, state: State) -> None:
        if state is not None:
            raise UserError(
                f"{type(self).__name__} sees the whole sequence at once, so it cannot continue from a state; "
                "give it the sequence in one piece, or use a causal layer"
            )


class Stack(SequenceLayer):
    """Layers in sequence; the state is the tuple of their states. A memory's `final` has one part for each of the first
    layers.

    With `recompute`, a layer in training keeps only its inputs and runs again, with the same randomness, in the
    backward pass (Chen et al. 2016): less memory for one more forward pass. A watched layer runs only once, so that its
    taps are not called twice.
    """

    recompute: bool = False

    def __init__(self, layers: Iterable[SequenceLayer], *, dim: int = 0):
        """`dim` is the input width, needed only if there may be no layers."""
        super().__init__()
        built = list(layers)
        self.layers: Any = nn.ModuleList(built)
        self.causal = all(layer.causal for layer in built)
        self.dim = built[-1].dim if built else dim
        self.stride = prod(layer.stride for layer in built)

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        memories = [memory] * len(self.layers)
        if memory is not None and memory.final is not None:
            if len(memory.final) > len(self.layers):
                raise UserError(
                    f"a memory's final state has a part for each of the first layers, but here are {len(memory.final)}"
                    f" parts for {len(self.layers)} layers"
                )
            finals = [*memory.final, *[None] * (len(self.layers) - len(memory.final))]
            memories = [Memory(memory.values, memory.mask, final) for final in finals]
        return tuple(
            layer.initial_state(batch_size, part, capacity, like=like)
            for layer, part in zip(self.layers, memories, strict=True)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        levels, state = self.levels(x, mask, state)
        return levels[-1], state

    def levels(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[list[Tensor], State]:
        """The input and every layer's output."""
        if not self.causal:
            self.refuse_state(state)
        states = [None] * len(self.layers) if state is None else state
        levels, after = [x], []
        for layer, before in zip(self.layers, states, strict=True):
            if self.recompute and self.training and torch.is_grad_enabled() and not is_watched(layer):
                x, new = run_twice(layer, x, mask, before)
            else:
                x, new = layer(x, mask, before)
            mask = layer.out_mask(mask)
            levels.append(x)
            after.append(new)
        return levels, tuple(after)

    def out_mask(self, mask: Tensor | None) -> Tensor | None:
        for layer in self.layers:
            mask = layer.out_mask(mask)
        return mask


def run_twice(layer: SequenceLayer, x: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
    """Run a layer now, and once more in the backward pass."""
    # In the context of the first run: the backward pass may use another thread, with other taps and settings.
    context = () if torch.compiler.is_compiling() else (copy_context().run,)
    output: tuple[Tensor, State] = checkpoint(*context, layer, x, mask, state, use_reentrant=False)
    return output


def uniform_init(scale: float, *tensors: Tensor) -> None:
    """Every entry from U(-scale, scale)."""
    with torch.no_grad():
        for tensor in tensors:
            tensor.uniform_(-scale, scale)


def shares(total: int, parts: int) -> list[int]:
    """Split `total` into whole parts, as equal as possible, the larger ones first."""
    return [total // parts + (part < total % parts) for part in range(parts)]
