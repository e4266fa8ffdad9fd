"""A cell of the user's own."""

import torch
from torch import nn

from clew.layers.cells import CELLS, Cell


class Leaky(Cell):
    """h' = (1 - rate) h + rate tanh(W x + U h)"""

    def __init__(self, input_dim, dim, *, rate=0.5):
        super().__init__(input_dim, dim)
        self.rate = rate
        self.input_weight = nn.Linear(input_dim, dim)
        self.hidden_weight = nn.Linear(dim, dim, bias=False)

    def inputs(self, x):
        return self.input_weight(x)

    def forward(self, inputs, state):
        hidden = (1 - self.rate) * state + self.rate * torch.tanh(inputs + self.hidden_weight(state))
        return hidden, hidden


CELLS["frozen_leaky"] = Leaky
