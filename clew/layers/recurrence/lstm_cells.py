"""The LSTM and its variants: cells with a cell state in addition to the hidden state, and gates that write, keep and
read it."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError, unknown
from clew.core.taps import Tap
from clew.core.types import Fixed, Memory, State, Tree
from clew.layers.cell import Cell, Gated, Recurrence, Taps
from clew.layers.sequence import uniform_init


class LSTMState(NamedTuple):
    hidden: Tensor  # (batch, dim)
    cell: Tensor  # (batch, dim), or (batch, hidden_dim) in a projected cell


class LSTM(Gated):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate by Gers et al. 2000).

        i  = sigmoid(W_i x + U_i h + b_i)      input gate
        f  = sigmoid(W_f x + U_f h + b_f)      forget gate
        c~ = tanh(W_c x + U_c h + b_c)         candidate
        o  = sigmoid(W_o x + U_o h + b_o)      output gate
        c' = f * c + i * c~
        h' = o * tanh(c')

    `cell_output="identity"` gives h' = o * c', as some texts write it. `forget_bias` is added to b_f at the start
    (Jozefowicz et al. 2015).
    """

    def __init__(
        self, input_dim: int, dim: int, *, cell_output: str = "tanh", forget_bias: float = 0.0, weight_drop: float = 0.0
    ):
        super().__init__(input_dim, dim, num_gates=4, weight_drop=weight_drop)
        if cell_output not in ("tanh", "identity"):
            raise unknown("cell_output", cell_output, ["tanh", "identity"])
        self.cell_output = cell_output
        self.kernel = "lstm" if cell_output == "tanh" else None
        with torch.no_grad():
            self.bias[dim : 2 * dim] += forget_bias
        self.gates = Taps("input", "forget", "candidate", "output")
        self.cell_state = Tap()
        self.hidden = Tap()

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        if memory is not None and memory.final is not None:
            return LSTMState(*memory.final)
        return LSTMState(like.new_zeros(batch_size, self.dim), like.new_zeros(batch_size, self.dim))

    def kernel_state(self, state: Tree) -> State:
        return LSTMState(*state)

    def forward(self, inputs: Tree, state: LSTMState) -> tuple[Tensor, LSTMState]:
        projected, hidden_weight = inputs
        i, f, c, o = (projected + F.linear(state.hidden, hidden_weight.value)).chunk(4, -1)
        input_gate = self.gates.input(torch.sigmoid(i))
        forget_gate = self.gates.forget(torch.sigmoid(f))
        candidate = self.gates.candidate(torch.tanh(c))
        output_gate = self.gates.output(torch.sigmoid(o))
        cell = self.cell_state(forget_gate * state.cell + input_gate * candidate)
        hidden = self.hidden(output_gate * (torch.tanh(cell) if self.cell_output == "tanh" else cell))
        return hidden, LSTMState(hidden, cell)


class PeepholeLSTM(LSTM):
    """LSTM whose gates see the cell state (Gers and Schmidhuber 2000).

    i = sigmoid(W_i x + U_i h + p_i * c + b_i)
    f = sigmoid(W_f x + U_f h + p_f * c + b_f)
    o = sigmoid(W_o x + U_o h + p_o * c' + b_o)     with the new cell
    """

    def __init__(self, input_dim: int, dim: int, *, forget_bias: float = 0.0, weight_drop: float = 0.0):
        super().__init__(input_dim, dim, forget_bias=forget_bias, weight_drop=weight_drop)
        self.kernel = None
        self.peepholes = nn.Parameter(torch.empty(3, dim))
        uniform_init(dim**-0.5, self.peepholes)

    def forward(self, inputs: Tree, state: LSTMState) -> tuple[Tensor, LSTMState]:
        projected, hidden_weight = inputs
        i, f, c, o = (projected + F.linear(state.hidden, hidden_weight.value)).chunk(4, -1)
        peep_i, peep_f, peep_o = self.peepholes.unbind(0)
        input_gate = self.gates.input(torch.sigmoid(i + peep_i * state.cell))
        forget_gate = self.gates.forget(torch.sigmoid(f + peep_f * state.cell))
        candidate = self.gates.candidate(torch.tanh(c))
        cell = self.cell_state(forget_gate * state.cell + input_gate * candidate)
        output_gate = self.gates.output(torch.sigmoid(o + peep_o * cell))
        hidden = self.hidden(output_gate * torch.tanh(cell))
        return hidden, LSTMState(hidden, cell)


class LayerNormLSTM(LSTM):
    """LSTM with layer normalisation (Ba et al. 2016).

    i, f, c~, o from  LN(W x) + LN(U h) + b
    h' = o * tanh(LN(c'))
    """

    early_inputs, late_inputs = Cell.early_inputs, Cell.late_inputs  # the norm is over all of W x

    def __init__(self, input_dim: int, dim: int, *, forget_bias: float = 0.0, weight_drop: float = 0.0):
        super().__init__(input_dim, dim, forget_bias=forget_bias, weight_drop=weight_drop)
        self.kernel = None
        self.input_norm = nn.LayerNorm(4 * dim, bias=False)
        self.hidden_norm = nn.LayerNorm(4 * dim, bias=False)
        self.cell_norm = nn.LayerNorm(dim)

    def inputs(self, x: Tensor) -> Tree:
        return self.input_norm(F.linear(x, self.input_weight)) + self.bias, Fixed(self.dropped_hidden_weight())

    def forward(self, inputs: Tree, state: LSTMState) -> tuple[Tensor, LSTMState]:
        projected, hidden_weight = inputs
        i, f, c, o = (projected + self.hidden_norm(F.linear(state.hidden, hidden_weight.value))).chunk(4, -1)
        input_gate = self.gates.input(torch.sigmoid(i))
        forget_gate = self.gates.forget(torch.sigmoid(f))
        candidate = self.gates.candidate(torch.tanh(c))
        output_gate = self.gates.output(torch.sigmoid(o))
        cell = self.cell_state(forget_gate * state.cell + input_gate * candidate)
        hidden = self.hidden(output_gate * torch.tanh(self.cell_norm(cell)))
        return hidden, LSTMState(hidden, cell)


class CoupledLSTM(Gated):
    """LSTM that forgets exactly what it overwrites (coupled input and forget gates, Greff et al. 2017).

    f  = sigmoid(W_f x + U_f h + b_f)
    c' = f * c + (1 - f) * c~
    h' = o * tanh(c')
    """

    initial_state = LSTM.initial_state

    def __init__(self, input_dim: int, dim: int, *, weight_drop: float = 0.0):
        super().__init__(input_dim, dim, num_gates=3, weight_drop=weight_drop)
        self.gates = Taps("forget", "candidate", "output")
        self.cell_state = Tap()
        self.hidden = Tap()

    def forward(self, inputs: Tree, state: LSTMState) -> tuple[Tensor, LSTMState]:
        projected, hidden_weight = inputs
        f, c, o = (projected + F.linear(state.hidden, hidden_weight.value)).chunk(3, -1)
        forget_gate = self.gates.forget(torch.sigmoid(f))
        candidate = self.gates.candidate(torch.tanh(c))
        output_gate = self.gates.output(torch.sigmoid(o))
        cell = self.cell_state(forget_gate * state.cell + (1 - forget_gate) * candidate)
        hidden = self.hidden(output_gate * torch.tanh(cell))
        return hidden, LSTMState(hidden, cell)


class ProjectedLSTM(Gated):
    """LSTM whose wide cell is projected to a narrow hidden state, which is the output and is fed back (Sak et al.
    2014).

        i, f, c~, o, c'   as in the LSTM, `hidden_dim` wide
        h' = P (o * tanh(c'))

    `hidden_dim` defaults to four times `dim`. `cell_clip` and `output_clip` clip every value of c' and h' to +- that
    (ELMo as released).
    """

    kernel_state = LSTM.kernel_state

    def __init__(
        self,
        input_dim: int,
        dim: int,
        *,
        hidden_dim: int | None = None,
        forget_bias: float = 0.0,
        weight_drop: float = 0.0,
        cell_clip: float | None = None,
        output_clip: float | None = None,
    ):
        for name, clip in (("cell_clip", cell_clip), ("output_clip", output_clip)):
            if clip is not None and clip <= 0:
                raise UserError(f"{name} ({clip}) must be above 0")
        if hidden_dim is not None and hidden_dim < 1:
            raise UserError(f"hidden_dim ({hidden_dim}) must be at least 1")
        hidden_dim = 4 * dim if hidden_dim is None else hidden_dim
        super().__init__(input_dim, dim, num_gates=4, weight_drop=weight_drop, gate_dim=hidden_dim)
        self.kernel = "projected_lstm" if dim < hidden_dim and cell_clip is None and output_clip is None else None
        self.cell_clip, self.output_clip = cell_clip, output_clip
        self.hidden_dim = hidden_dim
        self.projection = nn.Parameter(torch.empty(dim, hidden_dim))
        uniform_init(hidden_dim**-0.5, self.projection)
        with torch.no_grad():
            self.bias[hidden_dim : 2 * hidden_dim] += forget_bias
        self.gates = Taps("input", "forget", "candidate", "output")
        self.cell_state = Tap()
        self.hidden = Tap()

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        if memory is not None and memory.final is not None:
            return LSTMState(*memory.final)
        return LSTMState(like.new_zeros(batch_size, self.dim), like.new_zeros(batch_size, self.hidden_dim))

    def kernel_weights(self) -> tuple[Tensor, ...]:
        return *super().kernel_weights(), self.projection

    def forward(self, inputs: Tree, state: LSTMState) -> tuple[Tensor, LSTMState]:
        projected, hidden_weight = inputs
        i, f, c, o = (projected + F.linear(state.hidden, hidden_weight.value)).chunk(4, -1)
        input_gate = self.gates.input(torch.sigmoid(i))
        forget_gate = self.gates.forget(torch.sigmoid(f))
        candidate = self.gates.candidate(torch.tanh(c))
        output_gate = self.gates.output(torch.sigmoid(o))
        cell = self.cell_state(clipped(forget_gate * state.cell + input_gate * candidate, self.cell_clip))
        hidden = self.hidden(clipped(F.linear(output_gate * torch.tanh(cell), self.projection), self.output_clip))
        return hidden, LSTMState(hidden, cell)

    def recurrence(self, x: Tensor, state: LSTMState) -> Recurrence | None:
        """Carry the wide vector m = o * tanh(c') in place of h' = P m, so that a step has one product: U h' = (U P)
        m.

        The initial state has an h but no m: its product U h is added to the first step's inputs.
        """
        if self.output_clip is not None or type(self).forward is not ProjectedLSTM.forward:
            return None
        projected, fixed = self.inputs(x)
        first = projected[:, :1] + F.linear(state.hidden, fixed.value)[:, None]
        inputs = torch.cat([first, projected[:, 1:]], 1), Fixed(fixed.value @ self.projection)

        def finish(y: Tensor, new: LSTMState, real: Tensor | None) -> tuple[Tensor, LSTMState]:
            hidden = F.linear(new.hidden.to(y.dtype), self.projection.to(y.dtype)).to(state.hidden.dtype)
            if real is not None:  # a row without a real position keeps its h
                hidden = torch.where(real[:, :1], hidden, state.hidden)
            return F.linear(y, self.projection.to(y.dtype)), LSTMState(hidden, new.cell)

        return Recurrence(self.wide_step, inputs, LSTMState(torch.zeros_like(state.cell), state.cell), finish)

    def wide_step(self, inputs: Tree, state: LSTMState) -> tuple[Tensor, LSTMState]:
        projected, weight = inputs
        i, f, c, o = (projected + F.linear(state.hidden, weight.value)).chunk(4, -1)
        cell = clipped(torch.sigmoid(f) * state.cell + torch.sigmoid(i) * torch.tanh(c), self.cell_clip)
        wide = torch.sigmoid(o) * torch.tanh(cell)
        return wide, LSTMState(wide, cell)


def clipped(x: Tensor, most: float | None) -> Tensor:
    return x if most is None else x.clamp(-most, most)
