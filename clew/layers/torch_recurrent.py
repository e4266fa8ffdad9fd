"""`nn.RNN`, `nn.LSTM` and `nn.GRU` as layers of ours: the same equations with the same weights, whose gates and cells can be watched."""

from typing import Any

import torch
from torch import nn

from clew.core.errors import UserError
from clew.layers.cells import GRU, LSTM, Cell, Elman, ProjectedLSTM
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.sequence import SequenceLayer, Stack


def as_stack(module: nn.RNNBase) -> Stack:
    """A layer of ours for each of its layers, two readers side by side where it reads both ways. Weights are copies."""
    layers: list[SequenceLayer] = []
    for number in range(module.num_layers):
        ways = [Recurrent(cell_of(module, number, suffix)) for suffix in ("", "_reverse")[: 1 + module.bidirectional]]
        layers.append(Bidirectional(*ways) if module.bidirectional else ways[0])
    return Stack(layers).train(module.training)


def cell_of(module: nn.RNNBase, number: int, suffix: str) -> Cell:
    """The cell of one layer and direction. Both biases of theirs are one of ours, but where a GRU multiplies the second by its gate."""
    weights: dict[str, Any] = {
        name: getattr(module, f"{theirs}_l{number}{suffix}", None)
        for name, theirs in (("input", "weight_ih"), ("hidden", "weight_hh"), ("bias", "bias_ih"), ("hidden_bias", "bias_hh"))
    }
    width, dim = weights["input"].shape[1], weights["hidden"].shape[1]
    cell: Any
    if isinstance(module, nn.LSTM) and module.proj_size:
        cell = ProjectedLSTM(width, dim, hidden_dim=module.hidden_size)
    elif isinstance(module, nn.LSTM):
        cell = LSTM(width, dim)
    elif isinstance(module, nn.GRU):
        cell = GRU(width, dim)
    elif isinstance(module, nn.RNN):
        cell = Elman(width, dim, nonlinearity=module.nonlinearity)
    else:
        raise UserError(f"{type(module).__name__} is no recurrence of torch's that is known; known: RNN, LSTM, GRU")
    cell = cell.to(weights["input"])
    with torch.no_grad():
        cell.input_weight.copy_(weights["input"])
        cell.hidden_weight.copy_(weights["hidden"])
        bias, second = weights["bias"], weights["hidden_bias"]
        if bias is None:
            bias = second = torch.zeros_like(cell.bias)
        if isinstance(cell, GRU):
            cell.candidate_bias.copy_(second[2 * dim :])
            second = torch.cat([second[: 2 * dim], torch.zeros_like(second[2 * dim :])])
        cell.bias.copy_(bias + second)
        if isinstance(cell, ProjectedLSTM):
            cell.projection.copy_(getattr(module, f"weight_hr_l{number}{suffix}"))
    found: Cell = cell
    return found
