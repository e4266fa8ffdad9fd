from functools import partial

import pytest
import torch

from clew.bench.measuring import measure_workload
from clew.bench.workload import Setting
from clew.bench.workloads.gpt2_train import EAGER, GPT2_TRAIN, PEER
from tests.bench.fakes import fake_roofline


@pytest.mark.slow
def test_every_side_of_gpt2_training_runs(monkeypatch):
    """The quick form on the CPU, without inductor, which takes minutes."""
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    result = measure_workload(GPT2_TRAIN, Setting(torch.device("cpu"), quick=True), roofline=fake_roofline)
    assert list(result.sides) == ["clew", PEER, EAGER] and result.notes == []
