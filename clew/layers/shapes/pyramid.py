"""Layers that read pairs of positions, so that a long input becomes a short memory."""

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import real_positions
from clew.core.types import State
from clew.layers.sequence import SequenceLayer


class Halved(SequenceLayer):
    """A layer over pairs of positions, at half the length: a level of the pyramid of Chan et al. (2016), where the
    layer is a BiLSTM.

        y = layer([x_1; x_2], [x_3; x_4], ..)

    The last position of an odd row is paired with zeros. The inputs have half the width that the layer reads.
    """

    causal = False

    def __init__(self, layer: SequenceLayer):
        super().__init__()
        self.layer = layer
        self.dim = layer.dim
        self.stride = 2 * layer.stride

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        self.refuse_state(state)
        output: tuple[Tensor, State] = self.layer(joined_pairs(x, mask), halved(mask))
        return output

    def out_mask(self, mask: Tensor | None) -> Tensor | None:
        return self.layer.out_mask(halved(mask))


def halved(mask: Tensor | None) -> Tensor | None:
    """The mask of the pairs. A pair is real if its first position is, since real positions come first."""
    return None if mask is None else mask[:, ::2]


def joined_pairs(x: Tensor, mask: Tensor | None) -> Tensor:
    """(batch, length, dim) as (batch, half the length, 2 dim), with zeros on padding."""
    real = real_positions(mask)
    x = x if real is None else x * real[..., None]
    if x.shape[1] % 2:
        x = torch.cat([x, torch.zeros_like(x[:, :1])], 1)
    return x.reshape(len(x), x.shape[1] // 2, 2 * x.shape[2])


def at_every_place(values: Tensor, length: int) -> Tensor:
    """Repeat a layer's outputs (places, ..) for each of the `length` positions that it read: 1, 2, 4 or more of them
    share an output."""
    stride = 1
    while -(-length // stride) > len(values):
        stride *= 2
    if -(-length // stride) != len(values):
        raise UserError(f"{length} places cannot have been halved to {len(values)}")
    return values.repeat_interleave(stride, 0)[:length]


def shared_out(weights: Tensor, length: int) -> Tensor:
    """Weights (rows, places) spread over the `length` positions that were read: positions that share a place share its
    weight equally."""
    spread = at_every_place(weights.mT, length).mT
    if spread.shape == weights.shape:
        return weights
    owner = at_every_place(torch.arange(weights.shape[1], device=weights.device), length)
    return spread / owner.bincount(minlength=weights.shape[1])[owner]
