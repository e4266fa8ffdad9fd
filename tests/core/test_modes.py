import torch
from torch import Tensor, nn

from clew.core.modes import is_exporting


class Telling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + (2 if is_exporting() else 1)


def test_compiled_code_is_not_a_program():
    telling, x = Telling(), torch.zeros(1)
    torch._dynamo.reset()
    assert telling(x) == torch.compile(telling, backend="eager", fullgraph=True)(x) == 1
    assert torch.export.export(telling, (x,)).module()(x) == 2
