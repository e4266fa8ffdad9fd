"""Forward and backward passes of cells for which no library has a fused kernel, compared with torch.nn.LSTM."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload, training_cost
from clew.layers.cells import CELLS, Cell
from clew.layers.recurrent import Recurrent

PEER = "nn.LSTM"


class Leaky(Cell):
    """h' = (1 - a) * h + a * tanh(W x + U h), the cell that CONTRIBUTING.md adds as an example."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.input = nn.Linear(input_dim, dim)
        self.recurrent = nn.Linear(dim, dim, bias=False)
        self.leak = nn.Parameter(torch.zeros(dim))

    def inputs(self, x: Tensor) -> Tensor:
        return self.input(x)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        rate = torch.sigmoid(self.leak)
        hidden = (1 - rate) * state + rate * torch.tanh(inputs + self.recurrent(state))
        return hidden, hidden


def cell_workload(name: str, about: str, cell: Callable[[int, int], Cell], num_gates: int) -> Workload:
    def build(setting: Setting) -> Work:
        batch, length, dim = setting.sizes((64, 256, 512), cpu=(16, 64, 256), quick=(8, 32, 128))
        x = torch.randn(batch, length, dim, device=setting.device)

        def both_ways(layer: nn.Module) -> Call:
            layer.to(setting.device)

            def call() -> None:
                layer.zero_grad()
                layer(x)[0].sum().backward()

            return call

        sides = [
            Side(OURS, lambda: both_ways(Recurrent(cell(dim, dim)))),
            Side(PEER, lambda: both_ways(nn.LSTM(dim, dim, batch_first=True))),
        ]
        return Work(
            sides, f"{batch} x {length} x {dim}", batch * length, training_cost(2 * num_gates * dim**2, batch * length)
        )

    return Workload(name, about, build, (PEER,), rounds=9)


CELLS_TRAIN = [
    cell_workload("peephole-train", "a peephole LSTM forwards and backwards", CELLS["peephole_lstm"], 4),
    cell_workload("layernorm-train", "an LSTM with layer norms forwards and backwards", CELLS["layernorm_lstm"], 4),
    cell_workload("coupled-train", "an LSTM of three gates forwards and backwards", CELLS["coupled_lstm"], 3),
    cell_workload("leaky-train", "a user-defined cell forwards and backwards", Leaky, 1),
]
