"""`nn.RNN`, `nn.LSTM` and `nn.GRU` as clew layers: the same equations and weights, with gates and cell states that can
be watched."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.layers.cells import GRU, LSTM, Cell, Elman, ProjectedLSTM
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.wiring import Plain


def as_stack(module: nn.RNNBase, *, dropout: float = 0.0) -> Stack:
    """A stack with one layer for each of the module's, bidirectional if the module is. Weights are copied. The outputs
    of all layers but the last have the given dropout."""
    layers: list[SequenceLayer] = []
    for number in range(module.num_layers):
        ways = [Recurrent(cell_of(module, number, suffix)) for suffix in ("", "_reverse")[: 1 + module.bidirectional]]
        layer: SequenceLayer = Bidirectional(*ways) if module.bidirectional else ways[0]
        has_dropout = dropout and number < module.num_layers - 1
        layers.append(Plain(layer.dim, layer, dropout=dropout) if has_dropout else layer)
    return Stack(layers).train(module.training)


def cell_of(module: nn.RNNBase, number: int, suffix: str) -> Cell:
    """The cell of one layer and direction."""
    weights = {name: getattr(module, f"{name}_l{number}{suffix}", None) for name in NAMES}
    first: Any = weights["weight_ih"]
    second: Any = weights["weight_hh"]
    width, dim = first.shape[1], second.shape[1]
    cell: Cell
    if isinstance(module, nn.LSTM) and module.proj_size:
        cell = ProjectedLSTM(width, dim, hidden_dim=module.hidden_size)
    elif isinstance(module, nn.LSTM):
        cell = LSTM(width, dim)
    elif isinstance(module, nn.GRU):
        cell = GRU(width, dim)
    elif isinstance(module, nn.RNN):
        cell = Elman(width, dim, nonlinearity=module.nonlinearity)
    else:
        raise UserError(
            f"{type(module).__name__} is not a supported recurrent module of torch; supported: RNN, LSTM, GRU"
        )
    cell = cell.to(first)
    with torch.no_grad():
        for name, tensor in cell_tensors(cell, weights.get).items():
            getattr(cell, name).copy_(tensor)
    return cell


NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
"""torch's names for a layer's tensors; biases and projection are optional."""


def cell_tensors(cell: Cell, read: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
    """A cell's tensors by our names, read by torch's names. Ours is the sum of torch's two biases, except in a GRU,
    whose reset gate multiplies the second."""
    inputs, hidden = read("weight_ih"), read("weight_hh")
    assert inputs is not None and hidden is not None
    bias, second = read("bias_ih"), read("bias_hh")
    if bias is None or second is None:
        bias = second = torch.zeros_like(inputs[:, 0])
    tensors = {"input_weight": inputs, "hidden_weight": hidden}
    if isinstance(cell, GRU):
        if cell.candidate_bias is None:
            raise UserError(
                "torch's GRU resets after the product with the hidden weights, and this one before it; build it with"
                " reset=after"
            )
        tensors["candidate_bias"] = second[2 * cell.dim :]
        second = torch.cat([second[: 2 * cell.dim], torch.zeros_like(second[2 * cell.dim :])])
    tensors["bias"] = bias + second
    projection = read("weight_hr")
    return tensors if projection is None else {**tensors, "projection": projection}
