"""Layers that read pairs of places joined, so that a long input becomes a short memory."""

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import real_positions
from clew.core.types import State
from clew.layers.sequence import SequenceLayer


class Halved(SequenceLayer):
    """Half as many places under a layer: the pyramid of Chan et al. (2016), where the layer is a BiLSTM.

        y = layer([x_1; x_2], [x_3; x_4], ..)

    The last place of an odd row has zeros beside it. What goes in has half the width of what the layer reads.
    """

    causal = False

    def __init__(self, layer: SequenceLayer):
        super().__init__()
        self.layer = layer
        self.dim = layer.dim
        self.stride = 2 * layer.stride

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        self.refuse_state(state)
        found: tuple[Tensor, State] = self.layer(joined_pairs(x, mask), halved(mask))
        return found

    def out_mask(self, mask: Tensor | None) -> Tensor | None:
        return self.layer.out_mask(halved(mask))


def halved(mask: Tensor | None) -> Tensor | None:
    """A pair is real where its first place is, since real places come first."""
    return None if mask is None else mask[:, ::2]


def joined_pairs(x: Tensor, mask: Tensor | None) -> Tensor:
    """(batch, length, dim) as (batch, half the length, 2 dim), padding being zeros."""
    real = real_positions(mask)
    x = x if real is None else x * real[..., None]
    if x.shape[1] % 2:
        x = torch.cat([x, torch.zeros_like(x[:, :1])], 1)
    return x.reshape(len(x), x.shape[1] // 2, 2 * x.shape[2])


def at_every_place(values: Tensor, length: int) -> Tensor:
    """What a layer gave (places, ..) at each of the `length` places that it has read; one of its own stands for 1, 2, 4 or more."""
    stride = 1
    while -(-length // stride) > len(values):
        stride *= 2
    if -(-length // stride) != len(values):
        raise UserError(f"{length} places cannot have been halved to {len(values)}")
    return values.repeat_interleave(stride, 0)[:length]


def shared_out(weights: Tensor, length: int) -> Tensor:
    """Weights (rows, places) as weights of the `length` places that were read, each sharing what its pair, or its fourth, has."""
    spread = at_every_place(weights.mT, length).mT
    if spread.shape == weights.shape:
        return weights
    owner = at_every_place(torch.arange(weights.shape[1], device=weights.device), length)
    return spread / owner.bincount(minlength=weights.shape[1])[owner]
