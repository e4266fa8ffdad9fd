import torch
from torch import Tensor, nn

from clew.kernels.on_trial import are_asked_for, asking


def test_the_environment_asks_unless_a_context_says_otherwise(monkeypatch):
    monkeypatch.delenv("CLEW_TRIAL_KERNELS", raising=False)
    assert not are_asked_for()
    with asking():
        assert are_asked_for()
        with asking(False):
            assert not are_asked_for()
        assert are_asked_for()
    monkeypatch.setenv("CLEW_TRIAL_KERNELS", "1")
    assert are_asked_for()
    with asking(False):
        assert not are_asked_for()


class Choosing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + (2 if are_asked_for() else 1)


def test_code_that_was_compiled_outside_is_not_used_inside(monkeypatch):
    monkeypatch.delenv("CLEW_TRIAL_KERNELS", raising=False)
    torch._dynamo.reset()
    first, second, x = (*(torch.compile(Choosing(), backend="eager", fullgraph=True) for _ in range(2)), torch.zeros(1))
    assert first(x) == 1
    with asking():
        assert second(x) == 2
    assert first(x) == second(x) == 1
