"""Fused recurrences of torch (oneDNN or plain C++ on the CPU, cuDNN on the GPU), exact under padding without packing.

A fused kernel does not return the state at the end of each row. One extra input column that is 1 on padding, with
weight -1e4 on the input gate and +1e4 on the forget gate, makes i = 0 and f = 1 there, so the final cell is that of the
last real position. The hidden state is gathered from the outputs.

A call is one layer: a stack of layers runs layer by layer, although cuDNN could overlap them.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.masks import last_real, real_positions
from clew.kernels.cell_step import cell_step, supports_cell_step
from clew.kernels.deferred import Deferred

CLOSED = -1e4
OPEN = 1e4

# cuDNN prefers its weights in one block; copying them into one costs microseconds per call.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
# Plain C++ is intended in this case.
warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")


def lstm(x: Tensor, mask: Tensor | None, state: Any, input_weight: Tensor, *weights: Tensor) -> tuple[Tensor, Any]:
    """Run an LSTM. `weights` are the recurrent weight, the two biases and optionally a projection, which makes h
    narrower than the cell."""
    dim = state.cell.shape[-1]
    if mask is not None:
        gates = x.new_zeros(4 * dim, 1)
        gates[:dim] = CLOSED
        gates[dim : 2 * dim] = OPEN
        x, input_weight = _with_padding_column(x, mask, input_weight, gates)
    initial = (state.hidden[None].contiguous(), state.cell[None].contiguous())
    if _lacks_bfloat16(x):
        with torch.autocast("cpu", enabled=False):
            first, second = (each.to(input_weight.dtype) for each in initial)
            y, hidden, cell = _run(torch.lstm, x.to(input_weight.dtype), (first, second), (input_weight, *weights))
    else:
        y, hidden, cell = _run(torch.lstm, x, initial, (input_weight, *weights))
    return y, (hidden[0] if mask is None else last_real(y, mask, state.hidden.to(y.dtype)), cell[0])


def _lacks_bfloat16(x: Tensor) -> bool:
    """Whether autocast would request a bfloat16 LSTM that oneDNN does not have on this CPU (no AVX-512)."""
    return (
        x.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )


def gru(
    x: Tensor,
    mask: Tensor | None,
    state: Tensor,
    input_weight: Tensor,
    hidden_weight: Tensor,
    input_bias: Tensor,
    hidden_bias: Tensor,
) -> tuple[Tensor, Tensor]:
    y, _ = _run(torch.gru, x, state[None].contiguous(), (input_weight, hidden_weight, input_bias, hidden_bias))
    return y, last_real(y, mask, state.to(y.dtype))


def elman_tanh(x: Tensor, mask: Tensor | None, state: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    y, _ = _run(torch.rnn_tanh, x, state[None].contiguous(), weights)
    return y, last_real(y, mask, state.to(y.dtype))


def elman_relu(x: Tensor, mask: Tensor | None, state: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
    y, _ = _run(torch.rnn_relu, x, state[None].contiguous(), weights)
    return y, last_real(y, mask, state.to(y.dtype))


def _run(function: Callable[..., Any], x: Tensor, initial: Any, weights: tuple[Tensor, ...]) -> Any:
    """Run one layer, batch first, without dropout."""
    if (
        x.shape[1] == 1
        and len(weights) == 4
        and not torch.is_grad_enabled()
        and (x.is_cuda or not torch.is_autocast_enabled("cpu"))
    ):
        return _one_step(function, x, initial, weights)
    has_biases, num_layers, dropout, bidirectional, batch_first = True, 1, 0.0, False, True
    training = torch.is_grad_enabled()
    return function(x, initial, weights, has_biases, num_layers, dropout, training, bidirectional, batch_first)


CELLS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.gru: torch.gru_cell,
    torch.rnn_tanh: torch.rnn_tanh_cell,
    torch.rnn_relu: torch.rnn_relu_cell,
}
KINDS: dict[Callable[..., Any], str] = {
    torch.lstm: "lstm",
    torch.gru: "gru",
    torch.rnn_tanh: "tanh",
    torch.rnn_relu: "relu",
}


def _one_step(function: Callable[..., Any], x: Tensor, initial: Any, weights: tuple[Tensor, ...]) -> Any:
    """Run a decoding step as a cell: with one kernel on a GPU if supported, otherwise with two products and one kernel.

    cuDNN and oneDNN copy all weights into their own layout in every call; with oneDNN this took up to fourteen times as
    long as the step.
    """
    x = x.numbers() if isinstance(x, Deferred) else x
    state = initial if function is torch.lstm else (initial,)  # each (1, batch, dim)
    if supports_cell_step(x, *state, *weights):
        new = cell_step(KINDS[function], x[:, 0], [part[0] for part in state], weights)
        return new[0][:, None], *(part[None] for part in new)
    if function is torch.lstm and not x.is_cuda:
        hidden, cell = torch.lstm_cell(x[:, 0], (initial[0][0], initial[1][0]), *weights)
        return hidden[:, None], hidden[None], cell[None]
    if function is torch.lstm:
        input_weight, hidden_weight, *biases = weights
        (hidden,), (cell,) = initial
        gates = F.linear(x[:, 0], input_weight), F.linear(hidden, hidden_weight)
        hidden, cell, _ = torch.ops.aten._thnn_fused_lstm_cell(*gates, cell, *biases)
        return hidden[:, None], hidden[None], cell[None]
    hidden = CELLS[function](x[:, 0], initial[0], *weights)
    return hidden[:, None], hidden[None]


def _with_padding_column(x: Tensor, mask: Tensor, weight: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
    real = real_positions(mask)
    assert real is not None
    x = torch.where(real[..., None], x, 0.0)
    return torch.cat([x, (~real)[..., None].to(x.dtype)], -1), torch.cat([weight, gates.to(weight.dtype)], 1)
