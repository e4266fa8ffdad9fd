"""Cells as users write them, each with something else in its step."""

import torch
import torch.nn.functional as F
from torch import nn

from clew.core.types import Fixed
from clew.layers.cells import Cell
from clew.layers.recurrence.lstm_cells import LSTMState


class Leaky(Cell):
    """h' = (1 - a) * h + a * tanh(W x + U h),  a = sigmoid(leak): that of CONTRIBUTING.md."""

    def __init__(self, input_dim: int, dim: int, *, leak: float = 0.0):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, dim)
        self.recurrent = nn.Linear(dim, dim, bias=False)
        self.leak = nn.Parameter(torch.full((dim,), leak))

    def inputs(self, x):
        return self.input(x)

    def forward(self, inputs, state):
        rate = torch.sigmoid(self.leak)
        hidden = (1 - rate) * state + rate * torch.tanh(inputs + self.recurrent(state))
        return hidden, hidden


class Projecting(Cell):
    """h' = tanh(W x + U h + b): W x in every step, as one would write it without `inputs`."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, dim)
        self.recurrent = nn.Linear(dim, dim)

    def forward(self, x, state):
        hidden = torch.tanh(self.input(x) + self.recurrent(state))
        return hidden, hidden


class Joined(Cell):
    """z, n = W [x; h] + b;  h' = lerp(h, silu(n), sigmoid(z))."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.both = nn.Linear(input_dim + dim, 2 * dim)

    def forward(self, x, state):
        update, candidate = self.both(torch.cat([x, state], -1)).split(self.dim, dim=-1)
        hidden = torch.lerp(state, F.silu(candidate), update.sigmoid())
        return hidden, hidden


class Normed(Cell):
    """h' = relu(LN(W x + U h)) + rms(h): two norms over all of them, and one written by hand over the gates."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, 3 * dim)
        self.recurrent = nn.Linear(dim, 3 * dim)
        self.norm, self.last_norm = nn.LayerNorm(3 * dim), nn.RMSNorm(dim)

    def inputs(self, x):
        return self.input(x)

    def forward(self, inputs, state):
        z = self.norm(inputs + self.recurrent(state))
        z = (z - z.mean(-1, keepdim=True)) / torch.sqrt(z.var(-1, keepdim=True, unbiased=False) + 0.1)
        a, b, c = z.chunk(3, -1)
        hidden = torch.relu(a) * b.sigmoid() + self.last_norm(state) / z.square().sum(-1, keepdim=True) - c
        return hidden, hidden


class RowMasked(Cell):
    """h' = m * tanh(x + U h) + (1 - m) * h + s, a mask m (batch, dim) and a number s a row, drawn once a chunk."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, dim)
        self.recurrent = nn.Parameter(torch.randn(dim, dim) / dim)
        self.scale = nn.Parameter(torch.tensor(0.3))

    def inputs(self, x):
        batch = torch.arange(len(x))[:, None]
        mask = (batch + torch.arange(self.dim)) % 3 > 0
        return {"x": self.input(x), "mask": Fixed(mask), "row": Fixed(batch.to(x) / 10)}

    def forward(self, inputs, state):
        mask = inputs["mask"].value
        candidate = torch.tanh(inputs["x"] + state @ self.recurrent) * self.scale
        hidden = torch.where(mask, candidate, state) + inputs["row"].value
        return hidden, hidden


class Clipped(Cell):
    """Two states, clamps, comparisons and the rarer functions of a number."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, 2 * dim)
        self.of_hidden = nn.Linear(dim, 2 * dim, bias=False)
        self.of_cell = nn.Linear(dim, dim, bias=False)
        self.gain = nn.Parameter(torch.rand(2, dim))

    def initial_state(self, batch_size, memory=None, *, like):
        return LSTMState(like.new_zeros(batch_size, self.dim), like.new_zeros(batch_size, self.dim))

    def inputs(self, x):
        return self.input(x)

    def forward(self, inputs, state):
        a, b = (inputs + self.of_hidden(state.hidden)).chunk(2, -1)
        first, second = self.gain
        cell = (state.cell * first + F.softplus(a) - 2.0**-1 * torch.exp(-b.abs())).clamp(-1, 0.8)
        cell = cell + F.gelu(b) - F.leaky_relu(a, 0.1) + F.elu(self.of_cell(state.cell)) * second
        hidden = torch.where(cell > state.hidden, torch.maximum(cell, a), torch.minimum(b, 1 - a))
        hidden = hidden + torch.log(1.5 + a**2).rsqrt() + (1 / (3 + b.pow(4))) * F.logsigmoid(a)
        hidden = F.dropout(hidden, 0.3, training=False).to(state.hidden.dtype)
        return hidden[..., : self.dim] + torch.zeros_like(a), LSTMState(hidden.masked_fill(~(hidden <= 2), 2.0), cell)


class Shared(Cell):
    """h' = tanh(W x + U h + U c), c' = h: one weight for two states, of which one only moves on."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, dim)
        self.weight = nn.Parameter(torch.randn(dim, dim) / dim)

    def initial_state(self, batch_size, memory=None, *, like):
        return {"now": like.new_zeros(batch_size, self.dim), "before": like.new_zeros(batch_size, self.dim)}

    def inputs(self, x):
        return self.input(x)

    def forward(self, inputs, state):
        sums = inputs + F.linear(state["now"], self.weight) + F.linear(state["before"], self.weight)
        hidden = torch.tanh(sums)
        return hidden, {"now": hidden, "before": state["now"]}


class Diagonal(Cell):
    """h' = f * h + (1 - f) * W x,  f = sigmoid(V x + u * h): no matrix of the state (as in Bradbury et al. 2017)."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, 2 * dim)
        self.of_state = nn.Parameter(torch.randn(dim))

    def inputs(self, x):
        return self.input(x)

    def forward(self, inputs, state):
        candidate, gate = inputs.chunk(2, -1)
        forget = torch.sigmoid(gate + self.of_state * state)
        hidden = forget * state + (1 - forget) * candidate
        return torch.sin(self.of_state) * hidden, hidden


class Straight(Cell):
    """h' = W x + U h, the output before it tanh(h) * sigmoid(W x): nothing but a product in a step, and all else
    besides."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, dim)
        self.recurrent = nn.Parameter(torch.randn(dim, dim) / dim)

    def inputs(self, x):
        return self.input(x)

    def forward(self, inputs, state):
        return torch.tanh(state) * torch.sigmoid(inputs), torch.addmm(inputs, state, self.recurrent)


class Averaged(Cell):
    """h' = tanh(W x - mean(U h)), c' = tanh(mean(W x + c)) in all units: products and a state that only means read."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, dim)
        self.recurrent = nn.Linear(dim, dim, bias=False)

    def initial_state(self, batch_size, memory=None, *, like):
        return like.new_zeros(batch_size, self.dim), like.new_zeros(batch_size, self.dim)

    def inputs(self, x):
        return self.input(x)

    def forward(self, inputs, state):
        hidden, mean = state
        new = torch.tanh(inputs - self.recurrent(hidden).mean(-1, keepdim=True))
        return new + mean, (new, torch.zeros_like(mean) + torch.tanh((inputs + mean).mean(-1, keepdim=True)))


OWN = {
    cell.__name__: cell
    for cell in (Leaky, Projecting, Joined, Normed, RowMasked, Clipped, Shared, Diagonal, Straight, Averaged)
}
