"""The table of cells, with those whose state is one vector: the Elman network's and the GRU's."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import unknown
from clew.core.taps import Tap
from clew.core.types import Tree
from clew.layers.cell import Cell, Gated, Taps
from clew.layers.recurrence.lstm_cells import LSTM, CoupledLSTM, LayerNormLSTM, LSTMState, PeepholeLSTM, ProjectedLSTM
from clew.layers.sequence import uniform_init

# A cell of your own imports what it needs from here, and runs keep copies of such files.
__all__ = [
    "CELLS",
    "GRU",
    "LSTM",
    "Cell",
    "CoupledLSTM",
    "Elman",
    "Gated",
    "LSTMState",
    "LayerNormLSTM",
    "PeepholeLSTM",
    "ProjectedLSTM",
    "Taps",
]


class Elman(Gated):
    """Simple recurrent network (Elman 1990).

    h' = g(W x + U h + b)
    """

    def __init__(self, input_dim: int, dim: int, *, nonlinearity: str = "tanh", weight_drop: float = 0.0):
        super().__init__(input_dim, dim, num_gates=1, weight_drop=weight_drop)
        if nonlinearity not in NONLINEARITIES:
            raise unknown("nonlinearity", nonlinearity, NONLINEARITIES)
        self.nonlinearity = nonlinearity
        self.kernel = f"elman_{nonlinearity}" if nonlinearity in ("tanh", "relu") else None
        self.hidden = Tap()

    def forward(self, inputs: Tree, state: Tensor) -> tuple[Tensor, Tensor]:
        projected, hidden_weight = inputs
        hidden = NONLINEARITIES[self.nonlinearity](projected + F.linear(state, hidden_weight.value))
        hidden = self.hidden(hidden)
        return hidden, hidden


class GRU(Gated):
    """Gated recurrent unit (Cho et al. 2014).

        r  = sigmoid(W_r x + U_r h + b_r)             reset
        z  = sigmoid(W_z x + U_z h + b_z)             update
        n  = tanh(W_n x + b_n + r * (U_n h + c_n))    candidate, reset="after"
        n  = tanh(W_n x + b_n + U_n (r * h))          candidate, reset="before"
        h' = z * h + (1 - z) * n

    The reset gate multiplies after the product with U_n as cuDNN and torch have it, before it as Cho et al. and Chung
    et al. (2014) do. Chung et al. write 1 - z for z.
    """

    kernel: str | None = "gru"

    def __init__(self, input_dim: int, dim: int, *, reset: str = "after", weight_drop: float = 0.0):
        super().__init__(input_dim, dim, num_gates=3, weight_drop=weight_drop)
        if reset not in ("after", "before"):
            raise unknown("reset", reset, ["after", "before"])
        self.candidate_bias = None
        if reset == "after":
            self.candidate_bias = nn.Parameter(torch.empty(dim))
            uniform_init(dim**-0.5, self.candidate_bias)
        else:
            self.kernel = None  # torch and cuDNN have no such form
        self.gates = Taps("reset", "update", "candidate")
        self.hidden = Tap()

    def forward(self, inputs: Tree, state: Tensor) -> tuple[Tensor, Tensor]:
        projected, hidden_weight = inputs
        reset_x, update_x, candidate_x = projected.chunk(3, -1)
        if self.candidate_bias is not None:
            reset_h, update_h, candidate_h = F.linear(state, hidden_weight.value).chunk(3, -1)
            reset = self.gates.reset(torch.sigmoid(reset_x + reset_h))
            update = self.gates.update(torch.sigmoid(update_x + update_h))
            candidate = self.gates.candidate(torch.tanh(candidate_x + reset * (candidate_h + self.candidate_bias)))
        else:
            of_gates, of_candidate = hidden_weight.value.split_with_sizes([2 * self.dim, self.dim], 0)
            reset_h, update_h = F.linear(state, of_gates).chunk(2, -1)
            reset = self.gates.reset(torch.sigmoid(reset_x + reset_h))
            update = self.gates.update(torch.sigmoid(update_x + update_h))
            candidate = self.gates.candidate(torch.tanh(candidate_x + F.linear(reset * state, of_candidate)))
        hidden = self.hidden(update * state + (1 - update) * candidate)
        return hidden, hidden

    def kernel_weights(self) -> tuple[Tensor, ...]:
        assert self.candidate_bias is not None
        zeros = self.candidate_bias.new_zeros(2 * self.dim)
        return self.input_weight, self.dropped_hidden_weight(), self.bias, torch.cat([zeros, self.candidate_bias])


NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
}

CELLS: dict[str, Callable[..., Cell]] = {
    "elman": Elman,
    "lstm": LSTM,
    "gru": GRU,
    "peephole_lstm": PeepholeLSTM,
    "layernorm_lstm": LayerNormLSTM,
    "coupled_lstm": CoupledLSTM,
    "projected_lstm": ProjectedLSTM,
}
