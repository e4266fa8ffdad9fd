"""Convolution over time: a position sees a fixed number of neighbours."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.masks import Clock, advance, has_documents, new_clock, real_positions, row_lengths
from clew.core.types import Memory, State
from clew.layers.sequence import SequenceLayer, shares


class ConvolutionState(NamedTuple):
    window: Tensor  # (batch, width - 1, dim) the last real inputs
    clock: Clock


class Convolution(SequenceLayer):
    """y_t = b + sum_j W_j x_{t + j}: causal with j in -(width - 1) .. 0, else centred ("same"), zeros beyond the
    sequence's ends."""

    def __init__(self, input_dim: int, dim: int, *, width: int = 3, causal: bool = True, bias: bool = True):
        super().__init__()
        if width < 1 or (not causal and width % 2 == 0):
            raise UserError(f"width ({width}) must be at least 1, and odd unless the convolution is causal")
        self.input_dim, self.dim, self.width, self.causal = input_dim, dim, width, causal
        self.weight = nn.Parameter(torch.empty(dim, input_dim, width))
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None
        nn.init.uniform_(self.weight, -((input_dim * width) ** -0.5), (input_dim * width) ** -0.5)

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        if not self.causal:
            return None
        return ConvolutionState(
            like.new_zeros(batch_size, self.width - 1, self.input_dim), new_clock(batch_size, like.device)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        if not self.causal:
            self.refuse_state(state)
            return self.centred(x, mask), None
        state = self.initial_state(x.shape[0], like=x) if state is None else state
        places, clock = advance(state.clock, mask, x)
        extended = torch.cat([state.window, x], 1)  # (batch, width - 1 + length, dim)
        if has_documents(mask):
            back = torch.arange(self.width - 1, -1, -1, device=x.device)  # how far back each weight of the window looks
            inside = (places.index[..., None] - back) >= places.start[..., None]  # (batch, length, width)
            y = self.over_windows(extended, inside)
        else:
            y = F.conv1d(extended.mT, self.weight, self.bias).mT if x.shape[1] else x.new_zeros(x.shape[0], 0, self.dim)
        window = self.last_inputs(extended, x, mask)
        # The next chunk may continue the last document, so its window must not reach into the one before.
        if has_documents(mask):
            position = clock.count[:, None] - torch.arange(self.width - 1, 0, -1, device=x.device)
            window = torch.where((position >= clock.start[:, None])[..., None], window, 0.0)
        return y, ConvolutionState(window, clock)

    def centred(self, x: Tensor, mask: Tensor | None) -> Tensor:
        real = real_positions(mask)
        x = x if real is None else torch.where(real[..., None], x, 0.0)
        side = self.width // 2
        if not has_documents(mask):
            return F.conv1d(x.mT, self.weight, self.bias, padding=side).mT
        places, _ = advance(None, mask, x)
        documents = torch.where(places.index < 0, -1, places.start)  # the start of a document identifies it
        neighbours = F.pad(documents, (side, side), value=-1).unfold(1, self.width, 1)  # (batch, length, width)
        return self.over_windows(F.pad(x, (0, 0, side, side)), neighbours == documents[..., None])

    def over_windows(self, x: Tensor, inside: Tensor) -> Tensor:
        """The equation as written, without inputs from other documents."""
        windows = x.unfold(1, self.width, 1)  # (batch, length, dim, width)
        y = torch.einsum("blik,oik->blo", torch.where(inside[:, :, None, :], windows, 0.0), self.weight)
        return y if self.bias is None else y + self.bias

    def last_inputs(self, seen: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Each row's last width - 1 real inputs, including those carried in the state."""
        if mask is None:
            return seen[:, seen.shape[1] - (self.width - 1) :]
        index = row_lengths(mask)[:, None] + torch.arange(self.width - 1, device=x.device)
        return seen.gather(1, index[..., None].expand(-1, -1, self.input_dim))


class Windows(SequenceLayer):
    """y_t = relu([y_t of width w; y_t of width w'; ..]): causal windows of several widths side by side (Kim 2014).

    Pooled by their largest values, they are the paper's feature maps: each window that ends inside the sequence is
    counted once.
    """

    def __init__(self, input_dim: int, dim: int, *, widths: Sequence[int] = (3, 4, 5)):
        super().__init__()
        if not 0 < len(widths) <= dim:
            raise UserError(f"dim ({dim}) is shared by {len(widths)} widths of windows; it must be at least 1 for each")
        filters = zip(widths, shares(dim, len(widths)), strict=True)
        self.windows: Any = nn.ModuleList(Convolution(input_dim, share, width=width) for width, share in filters)
        self.dim = dim

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        return tuple(window.initial_state(batch_size, memory, capacity, like=like) for window in self.windows)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        states = [None] * len(self.windows) if state is None else state
        outputs = [window(x, mask, before) for window, before in zip(self.windows, states, strict=True)]
        return torch.relu(torch.cat([y for y, _ in outputs], -1)), tuple(after for _, after in outputs)
