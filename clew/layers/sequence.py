"""The sequence layer, `(x, mask, state) -> (y, state)`, and a stack of them. Knows no particular layer."""

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
    """Reads a chunk of any length and the state that the chunk before it left.

    `causal` says that position t sees nothing after t; only such a layer can be given a state. `dim` is the width of what comes out.
    A layer without memory of the past keeps these defaults: its state is None. One that sees the whole sequence may give fewer places than
    it reads, one for each `stride` of them; `out_mask` is then which of those are real.
    """

    causal: bool = True
    dim: int
    stride: int = 1

    def initial_state(self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor) -> State:
        """The state before anything is read: allocates and stores, computes nothing with parameters."""
        return None

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        raise NotImplementedError

    def out_mask(self, mask: Tensor | None) -> Tensor | None:
        """Which places of what comes out are real."""
        return mask

    def refuse_state(self, state: State) -> None:
        if state is not None:
            raise UserError(
                f"{type(self).__name__} sees the whole sequence at once, so it cannot go on from a state; "
                "give it the sequence in one piece, or use a causal layer"
            )


class Stack(SequenceLayer):
    """Layers one after another; the state is the tuple of theirs. A memory's `final` has a part for each of the first layers.

    With `recompute` a layer in training keeps only what goes in, and is run again, with the same randomness, when its gradients are
    asked for (Chen et al. 2016): less memory for one more forward pass. A layer that is watched is run once, or it would be seen twice.
    """

    recompute: bool = False

    def __init__(self, layers: Iterable[SequenceLayer], *, dim: int = 0):
        """`dim` is the width of what goes in, where there may be no layers."""
        super().__init__()
        built = list(layers)
        self.layers: Any = nn.ModuleList(built)
        self.causal = all(layer.causal for layer in built)
        self.dim = built[-1].dim if built else dim
        self.stride = prod(layer.stride for layer in built)

    def initial_state(self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor) -> State:
        memories = [memory] * len(self.layers)
        if memory is not None and memory.final is not None:
            if len(memory.final) > len(self.layers):
                raise UserError(
                    f"a memory's final state has a part for each of the first layers, but here are {len(memory.final)} parts for "
                    f"{len(self.layers)} layers"
                )
            finals = [*memory.final, *[None] * (len(self.layers) - len(memory.final))]
            memories = [Memory(memory.values, memory.mask, final) for final in finals]
        return tuple(layer.initial_state(batch_size, part, capacity, like=like) for layer, part in zip(self.layers, memories, strict=True))

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        levels, state = self.levels(x, mask, state)
        return levels[-1], state

    def levels(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[list[Tensor], State]:
        """What went in and every layer's output."""
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
    """The layer's output now, and once more in the backward pass, whatever is watched by then and whichever thread that is in."""
    context = () if torch.compiler.is_compiling() else (copy_context().run,)
    found: tuple[Tensor, State] = checkpoint(*context, layer, x, mask, state, use_reentrant=False)
    return found


def uniform_init(scale: float, *tensors: Tensor) -> None:
    """Every entry from U(-scale, scale)."""
    with torch.no_grad():
        for tensor in tensors:
            tensor.uniform_(-scale, scale)


def shares(total: int, parts: int) -> list[int]:
    """`total` in whole parts, as equal as can be, the first ones larger."""
    return [total // parts + (part < total % parts) for part in range(parts)]
