from functools import partial

import pytest
import torch

from clew.bench.measuring import measure
from clew.bench.workload import Setting
from clew.bench.workloads.gpt2_train import EAGER, GPT2_TRAIN, PEER, TRIAL
from clew.kernels import cross_entropy
from clew.kernels.on_trial import are_asked_for
from clew.layers import losses
from tests.bench.fakes import fake_roofline


@pytest.mark.slow
def test_every_way_to_train_gpt2_runs_and_one_asks_for_the_loss_on_trial(monkeypatch):
    """In its small form on the CPU, without inductor, which takes minutes there."""
    asked = set()

    def choose(name, module):
        asked.add(are_asked_for())
        return cross_entropy

    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    monkeypatch.setattr("clew.bench.measuring.find_spec", lambda package: True)
    monkeypatch.setattr(losses, "choose", choose)
    result = measure(GPT2_TRAIN, Setting(torch.device("cpu"), quick=True), roofline=fake_roofline)
    assert list(result.sides) == ["clew", PEER, TRIAL, EAGER] and result.notes == []
    assert asked == {False, True}
