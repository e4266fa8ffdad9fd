"""Recurrent cells: one step of recurrence. A cell knows nothing of sequences, masks or kernels; `Recurrent` runs it over time.

    initial_state(batch_size, memory, like)     the state before the first step
    inputs(x (batch, length, dim)) -> tree      once a chunk: what does not depend on the state before (W x, dropped weights in `Fixed`)
    forward(inputs_t, state) -> (y_t, state)    one step: the paper's equation

Where some features of x are known only at each step (a context, what was written before), they are its last ones, and
`late_inputs(early_inputs(x_first)_t, x_last_t)` is `inputs([x_first; x_last])_t`.

A cell that equals a kernel of clew.kernels names it in `kernel` and gives it tensors through `kernel_weights`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError, unknown
from clew.core.state import map_tree
from clew.core.taps import Tap
from clew.core.types import Fixed, Memory, State, Tree
from clew.layers.dropouts import DROPOUTS, checked, drop_weight
from clew.layers.sequence import uniform_init


class Recurrence(NamedTuple):
    """A step over a chunk as a generated kernel runs it: `step(inputs_t, state)`, and y and the cell's state made of what comes out."""

    step: Callable[[Tree, State], tuple[Tensor, State]]
    inputs: Tree
    state: State
    finish: Callable[[Tensor, State, Tensor | None], tuple[Tensor, State]]


class Cell(nn.Module):
    """The contract with its defaults: a state that is one hidden vector, inputs that are x itself."""

    kernel: str | None = None

    def __init__(self, input_dim: int, dim: int):
        super().__init__()
        if input_dim < 1 or dim < 1:
            raise UserError(f"a cell's widths must be at least 1, not input_dim={input_dim}, dim={dim}")
        self.input_dim = input_dim
        self.dim = dim

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        """Zeros, or the memory's final state where there is one."""
        if memory is not None and memory.final is not None:
            return memory.final
        return like.new_zeros(batch_size, self.dim)

    def inputs(self, x: Tensor) -> Tree:
        return x

    def early_inputs(self, x: Tensor) -> Tree:
        """Once a chunk: what can be done with the first features of x while the last are unknown."""
        return x, Fixed(fixed_inputs(self, x))

    def late_inputs(self, early: Tree, x_t: Tensor) -> Tree:
        """One step's inputs, now that the last features `x_t` (batch, dim) are known."""
        first, fixed = early
        return inputs_at_step(self, torch.cat([first, x_t], -1), fixed.value)

    def recurrence(self, x: Tensor, state: State) -> Recurrence | None:
        """What a generated kernel runs for a chunk; None where it cannot. It is `forward` as it is, where that has one state width."""
        return Recurrence(self.forward, self.inputs(x), state, lambda y, new, real: (y, new))

    def kernel_weights(self) -> tuple[Tensor, ...]:
        """Input weight, hidden weight, input bias, hidden bias and what more there is, as the kernel named in `kernel` takes them."""
        raise NotImplementedError

    def kernel_state(self, found: Tree) -> State:
        """This cell's state from what the kernel gives."""
        return found


class Taps(nn.Module):
    """Named taps side by side: `self.gates.forget(f)`."""

    def __init__(self, *names: str):
        super().__init__()
        for name in names:
            self.add_module(name, Tap())

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name)


class Gated(Cell):
    """What the cells with `num_gates` stacked linear maps share: one weight for all maps of x, one for all maps of h, one bias.

    A gate is as wide as h, or `gate_dim` wide.
    """

    def __init__(self, input_dim: int, dim: int, num_gates: int, weight_drop: float = 0.0, gate_dim: int | None = None):
        super().__init__(input_dim, dim)
        gate_dim = dim if gate_dim is None else gate_dim
        self.weight_drop = checked("weight_drop", weight_drop)
        self.input_weight = nn.Parameter(torch.empty(num_gates * gate_dim, input_dim))
        self.hidden_weight = nn.Parameter(torch.empty(num_gates * gate_dim, dim))
        self.bias = nn.Parameter(torch.empty(num_gates * gate_dim))
        uniform_init(gate_dim**-0.5, self.input_weight, self.hidden_weight, self.bias)
        # Kernels take a second bias; made anew in each step of decoding it would cost as much as a product does there.
        self.register_buffer("no_bias", torch.zeros(num_gates * gate_dim), persistent=False)
        self.no_bias: Tensor

    def inputs(self, x: Tensor) -> Tree:
        return F.linear(x, self.input_weight, self.bias), Fixed(self.dropped_hidden_weight())

    def early_inputs(self, x: Tensor) -> Tree:
        first, last = self.input_weight.split_with_sizes([x.shape[-1], self.input_dim - x.shape[-1]], 1)
        return F.linear(x, first, self.bias), Fixed((self.dropped_hidden_weight(), last))

    def late_inputs(self, early: Tree, x_t: Tensor) -> Tree:
        projected, fixed = early
        hidden_weight, last = fixed.value
        return torch.addmm(projected, x_t, last.mT), Fixed(hidden_weight)

    def dropped_hidden_weight(self) -> Tensor:
        return drop_weight(self.hidden_weight, self.weight_drop, self.training)

    def kernel_weights(self) -> tuple[Tensor, ...]:
        return self.input_weight, self.dropped_hidden_weight(), self.bias, self.no_bias


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


class LSTMState(NamedTuple):
    hidden: Tensor  # (batch, dim)
    cell: Tensor  # (batch, dim), or as wide as a projected cell is inside


class LSTM(Gated):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate by Gers et al. 2000).

        i  = sigmoid(W_i x + U_i h + b_i)      input gate
        f  = sigmoid(W_f x + U_f h + b_f)      forget gate
        c~ = tanh(W_c x + U_c h + b_c)         candidate
        o  = sigmoid(W_o x + U_o h + b_o)      output gate
        c' = f * c + i * c~
        h' = o * tanh(c')

    `cell_output="identity"` gives h' = o * c', as some texts write it. `forget_bias` is added to b_f at the start (Jozefowicz et al. 2015).
    """

    def __init__(self, input_dim: int, dim: int, *, cell_output: str = "tanh", forget_bias: float = 0.0, weight_drop: float = 0.0):
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

    def kernel_state(self, found: Tree) -> State:
        return LSTMState(*found)

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


class GRU(Gated):
    """Gated recurrent unit (Cho et al. 2014).

        r  = sigmoid(W_r x + U_r h + b_r)             reset
        z  = sigmoid(W_z x + U_z h + b_z)             update
        n  = tanh(W_n x + b_n + r * (U_n h + c_n))    candidate, reset="after"
        n  = tanh(W_n x + b_n + U_n (r * h))          candidate, reset="before"
        h' = z * h + (1 - z) * n

    The reset gate multiplies after the product with U_n as cuDNN and torch have it, before it as Cho et al. and Chung et al. (2014) do.
    Chung et al. write 1 - z for z.
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


class PeepholeLSTM(LSTM):
    """LSTM whose gates see the cell (Gers and Schmidhuber 2000).

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
    """LSTM that forgets exactly what it writes over (coupled input and forget gates, Greff et al. 2017).

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
    """LSTM whose wide cell is projected to a narrow hidden state, which is what comes out and is fed back (Sak et al. 2014).

        i, f, c~, o, c'   as in the LSTM, `hidden_dim` wide
        h' = P (o * tanh(c'))

    `hidden_dim` is four times `dim` where not given. `cell_clip` and `output_clip` keep every value of c' and h' within +- that (ELMo as
    released).
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
        """The wide vector m = o * tanh(c') is carried instead of h' = P m, so that a step has one product: U h' = (U P) m.

        Before the first step there is an h but no m: what it gives the first step is added there.
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


class StackedCell(Cell):
    """Cells one above another make a cell: each step runs them all, so what is around it (attention, feeding) sees the top at
    every step."""

    def __init__(self, cells: Sequence[Cell]):
        super().__init__(cells[0].input_dim, cells[-1].dim)
        for below, above in zip(cells, cells[1:], strict=False):
            if below.dim != above.input_dim:
                raise UserError(f"a cell of width {below.dim} cannot feed one that takes {above.input_dim}; make the two equal")
        self.cells: Any = nn.ModuleList(cells)

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        finals = memory.final if memory is not None and memory.final is not None else [None] * len(self.cells)
        parts = [None if memory is None else memory._replace(final=final) for final in finals]
        return tuple(cell.initial_state(batch_size, part, like=like) for cell, part in zip(self.cells, parts, strict=True))

    def inputs(self, x: Tensor) -> Tree:
        return self.cells[0].inputs(x), self.fixed_above(x)

    def early_inputs(self, x: Tensor) -> Tree:
        return self.cells[0].early_inputs(x), self.fixed_above(x)

    def late_inputs(self, early: Tree, x_t: Tensor) -> Tree:
        first, above = early
        return self.cells[0].late_inputs(first, x_t), above

    def fixed_above(self, x: Tensor) -> Fixed:
        return Fixed(tuple(fixed_inputs(cell, x) for cell in list(self.cells)[1:]))

    def forward(self, inputs: Tree, state: State) -> tuple[Tensor, State]:
        first, above = inputs
        y, new = self.cells[0](first, state[0])
        states = [new]
        for cell, fixed, before in zip(list(self.cells)[1:], above.value, state[1:], strict=True):
            y, new = cell(inputs_at_step(cell, y, fixed), before)
            states.append(new)
        return y, tuple(states)


class DroppedCell(Cell):
    """y = dropout(cell(x)), the state whole: what `Plain` is to layers. `locked` draws one mask a chunk."""

    def __init__(self, cell: Cell, p: float, kind: str = "plain"):
        super().__init__(cell.input_dim, cell.dim)
        if kind not in DROPOUTS:
            raise unknown("dropout_kind", kind, DROPOUTS)
        self.cell = cell
        self.p = p
        self.locked = kind == "locked"

    def initial_state(self, batch_size: int, memory: Memory | None = None, *, like: Tensor) -> State:
        return self.cell.initial_state(batch_size, memory, like=like)

    def inputs(self, x: Tensor) -> Tree:
        return self.cell.inputs(x), self.kept(x)

    def early_inputs(self, x: Tensor) -> Tree:
        return self.cell.early_inputs(x), self.kept(x)

    def late_inputs(self, early: Tree, x_t: Tensor) -> Tree:
        inner, kept = early
        return self.cell.late_inputs(inner, x_t), kept

    def kept(self, x: Tensor) -> Fixed:
        """What y is multiplied by at every step; None where each step draws its own."""
        return Fixed(F.dropout(x.new_ones(x.shape[0], self.dim), self.p) if self.locked and self.training and self.p else None)

    def forward(self, inputs: Tree, state: State) -> tuple[Tensor, State]:
        inner, kept = inputs
        y, state = self.cell(inner, state)
        if kept.value is not None:
            return y * kept.value, state
        return F.dropout(y, self.p, self.training and not self.locked), state


def fixed_inputs(cell: Cell, like: Tensor) -> Tree:
    """A cell's inputs for a chunk of no steps: just what is fixed for the whole chunk."""
    return cell.inputs(like.new_zeros(like.shape[0], 0, cell.input_dim))


def inputs_at_step(cell: Cell, x_t: Tensor, fixed: Tree) -> Tree:
    """A cell's inputs for one step that could not be known before the loop, with what `fixed_inputs` fixed for its chunk."""
    return with_fixed(map_tree(lambda leaf: leaf[:, 0], cell.inputs(x_t[:, None]), keep=(Fixed,)), fixed)


def with_fixed(step: Tree, chunk: Tree) -> Tree:
    """A cell's inputs with what another chunk's have fixed."""
    if isinstance(chunk, Fixed):
        return chunk
    if isinstance(chunk, tuple):
        parts = [with_fixed(a, b) for a, b in zip(step, chunk, strict=True)]
        return type(step)(*parts) if hasattr(step, "_fields") else tuple(parts)
    return step


NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid}

CELLS: dict[str, Callable[..., Cell]] = {
    "elman": Elman,
    "lstm": LSTM,
    "gru": GRU,
    "peephole_lstm": PeepholeLSTM,
    "layernorm_lstm": LayerNormLSTM,
    "coupled_lstm": CoupledLSTM,
    "projected_lstm": ProjectedLSTM,
}
