"""Bridges: the initial state of a recurrent decoder, from the encoder's last states or the mean of its outputs. Knows
no family."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from clew.core.state import leaves, map_tree
from clew.core.types import State, Tree
from clew.layers.recurrent import RecurrentState


class Bridge(nn.Module):
    """Starts the decoder's layers from the encoder's last states, aligned at the top layers.

        s = tanh(W [forward; backward] + b), for each part of a cell's state    (the form of Bahdanau et al. 2015)

    The paper uses the backward reader's state alone. `state` is an example of the cell's state, whose parts give the
    widths. `in_one` is for decoder cells stacked into one layer.
    """

    def __init__(self, state: State, *, readers: int, encoder_layers: int, decoder_layers: int, in_one: bool = False):
        super().__init__()
        self.in_one = in_one
        self.sources = [max(0, layer + encoder_layers - decoder_layers) for layer in range(decoder_layers)]
        widths = [leaf.shape[-1] for leaf in leaves(state)]
        self.maps: Any = nn.ModuleList(
            nn.ModuleList(nn.Linear(readers * n, n) for n in widths) for _ in range(decoder_layers)
        )

    def forward(self, states: Sequence[State]) -> Tree:
        finals = tuple(
            mapped(maps, reader_states(states[source])) for source, maps in zip(self.sources, self.maps, strict=True)
        )
        return (finals,) if self.in_one else finals


def mapped(maps: Iterable[nn.Module], readers: Sequence[State]) -> State:
    """The initial state of one decoder layer: each part is mapped from the same part of the readers' states."""
    next_map = iter(maps)
    return map_tree(lambda *parts: torch.tanh(next(next_map)(torch.cat(parts, -1))), *readers)


class Copy(nn.Module):
    """Starts every decoder layer from the last state of the encoder layer at the same height (Sutskever et al.
    2014)."""

    def __init__(self, *, in_one: bool = False):
        super().__init__()
        self.in_one = in_one

    def forward(self, states: Sequence[State]) -> Tree:
        finals = tuple(reader_states(state)[0] for state in states)
        return (finals,) if self.in_one else finals


def reader_states(state: State) -> list[State]:
    """The last cell states of the one or two readers of an encoder layer."""
    return [state.cell] if isinstance(state, RecurrentState) else [part.cell for part in state]


class MeanBridge(nn.Module):
    """Starts every decoder layer from the mean of the annotation vectors (Xu et al. 2015, section 3.1.2):

        s = tanh(W mean(a) + b), for each part of a cell's state

    `state` is an example of the cell's state, for its form and widths; `dim` is the width of an annotation vector.
    """

    def __init__(self, state: State, dim: int, *, decoder_layers: int, in_one: bool = False):
        super().__init__()
        self.in_one = in_one
        self.form = map_tree(lambda leaf: leaf.new_zeros(0), state)
        widths = [leaf.shape[-1] for leaf in leaves(state)]
        self.maps: Any = nn.ModuleList(nn.ModuleList(nn.Linear(dim, n) for n in widths) for _ in range(decoder_layers))

    def forward(self, states: Sequence[State]) -> Tree:
        mean = states[-1].mean
        finals = tuple(self.started(maps, mean) for maps in self.maps)
        return (finals,) if self.in_one else finals

    def started(self, maps: Iterable[nn.Module], mean: torch.Tensor) -> State:
        next_map = iter(maps)
        return map_tree(lambda _: torch.tanh(next(next_map)(mean)), self.form)
