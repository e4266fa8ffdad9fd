"""A peephole LSTM forwards and backwards beside torch.nn.LSTM, which has no peepholes: what their equation costs beside a fused kernel."""

import torch
from torch import nn

from clew.bench.timing import Call
from clew.bench.workload import OURS, Setting, Side, Work, Workload, trained
from clew.layers.cells import CELLS
from clew.layers.recurrent import Recurrent

PEER = "nn.LSTM"


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
        Side(OURS, lambda: both_ways(Recurrent(CELLS["peephole_lstm"](dim, dim)))),
        Side(PEER, lambda: both_ways(nn.LSTM(dim, dim, batch_first=True))),
    ]
    return Work(sides, f"{batch} x {length} x {dim}", batch * length, trained(8 * dim**2, batch * length))


PEEPHOLE = Workload("peephole-train", "a peephole LSTM forwards and backwards", build, (PEER,), rounds=9)
