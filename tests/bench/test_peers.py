"""Peers do the work for which they are timed."""

import copy
import logging
from importlib.util import find_spec

import pytest
import torch

from clew.bench.captured_gpt import CapturedGPT
from clew.bench.published import gpt2_generate, llama_generate, marian_generate
from clew.bench.workload import Setting
from clew.bench.workloads import WORKLOADS, llama_decode, mixed_decode
from clew.bench.workloads.gpt_sizes import SMALL
from clew.bench.workloads.steps import decode_eagerly, decode_greedily

QUICK = Setting(torch.device("cpu"), quick=True)
SIZES = {"vocabulary": 30, "dim": 16, "num_layers": 2, "num_heads": 2, "hidden_dim": 40, "max_length": 32}


def test_a_fixed_cache_generates_the_same_as_a_growing_one() -> None:
    torch.manual_seed(1)
    model = SMALL.minimal(torch.device("cpu")).eval()
    captured = CapturedGPT(copy.deepcopy(model), batch=3, capacity=24)
    for length in (16, 5):  # the cache content of an earlier call has no effect
        prompt = torch.randint(SMALL.vocabulary, (3, length))
        assert captured.greedy(prompt, 8).tolist() == model.greedy(prompt, 8).tolist()


def test_the_minimal_gpt_has_the_same_number_of_weights() -> None:
    device = torch.device("cpu")
    matrices = [
        sum(p.numel() for p in model.parameters() if p.dim() == 2)
        for model in (SMALL.ours(device), SMALL.minimal(device))
    ]
    assert matrices[0] == matrices[1] == SMALL.weights + SMALL.max_length * SMALL.dim


@pytest.mark.parametrize("sizes", [llama_decode.QUICK, mixed_decode.QUICK])
def test_a_step_reads_all_matrices_but_the_embedding(
    sizes: llama_decode.LlamaSizes | mixed_decode.MixedSizes,
) -> None:
    matrices = sum(p.numel() for p in sizes.ours(torch.device("cpu"), torch.float32).parameters() if p.dim() == 2)
    assert matrices == sizes.weights + sizes.vocabulary * sizes.dim


def test_an_eager_step_generates_the_same_tokens(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(1)
    task = mixed_decode.QUICK.ours(torch.device("cpu"), torch.float64).eval()
    prompt = torch.randint(mixed_decode.QUICK.vocabulary, (3, 5))
    with caplog.at_level(logging.DEBUG, "clew.decoding"):
        captured = decode_greedily(task, prompt, 8)()
        assert not caplog.messages
        eager = decode_eagerly(task, prompt, 8)()
    assert caplog.messages == ["decoding runs eagerly: a part of the step does not say what it depends on"]
    assert eager.tokens.tolist() == captured.tokens.tolist()


@pytest.mark.slow
def test_transformers_generate_the_requested_length() -> None:
    pytest.importorskip("transformers")
    prompt = torch.randint(1, 30, (2, 7))
    assert gpt2_generate(SIZES, prompt, 9, torch.float32)().shape == (2, 7 + 9)
    assert llama_generate(SIZES, prompt, 9, torch.float32)().shape == (2, 7 + 9)
    assert marian_generate(SIZES, prompt, torch.ones(2, 7, dtype=torch.bool), 9, 5, torch.float32)().shape == (2, 1 + 9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
# Workloads of 256 rows are the same as those of 32 with more rows.
@pytest.mark.parametrize("name", [name for name in WORKLOADS if not name.endswith("-256")])
def test_every_side_of_every_workload_runs_in_its_quick_form(name: str) -> None:
    """Sides for CUDA run too, without compilation and without a CUDA graph."""
    if "transformers" in WORKLOADS[name].peers:
        pytest.importorskip("transformers")
    with torch.compiler.set_stance("force_eager"):
        work = WORKLOADS[name].build(QUICK)
        assert [side.name for side in work.sides] == ["clew", *WORKLOADS[name].peers]
        assert work.tokens > 0 and work.cost is not None and work.cost.flops > 0
        for side in work.sides:
            if side.needs and find_spec(side.needs) is None:
                continue  # such a peer is skipped with a note
            call = side.make()
            call(), call()
