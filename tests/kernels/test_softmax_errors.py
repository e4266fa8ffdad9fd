"""The loss's kernel for a GPU, against float64: on a GPU if there is one, and by hand on the CPU in Triton's
interpreter.

TRITON_INTERPRET=1 python -m pytest tests/kernels/test_softmax_errors.py
"""

import math
import os
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F

from clew.kernels.cross_entropy import ALIGNED, cross_entropy, walk_on_gpu
from clew.kernels.softmax_errors import softmax_errors_, triton

IS_INTERPRETED = triton is not None and os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(
    not (IS_INTERPRETED or (triton is not None and torch.cuda.is_available())),
    reason="a GPU or Triton's interpreter runs this kernel",
)
DEVICE = "cpu" if IS_INTERPRETED else "cuda"
WALKS = import_module("clew.kernels.cross_entropy")  # the package also has a function of this name
ALLOWED = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""Relative errors, of sums in another order and of products in bfloat16."""


def error(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours.double() - theirs).norm() / theirs.norm().clamp(min=1e-12))


def problem(rows: int, dim: int, vocabulary: int, ignored: int, dtype: torch.dtype):
    """Hidden in the dtype of the products, weight and bias in float32, and targets, of which the first `ignored` are
    -100."""
    torch.manual_seed(rows + vocabulary)
    hidden, weight, bias = torch.randn(rows, dim).to(dtype), torch.randn(vocabulary, dim), torch.randn(vocabulary)
    targets = torch.randint(vocabulary, (rows,))
    targets[:ignored] = -100
    return [part.to(DEVICE) for part in (hidden, weight, bias, targets)]


def exact(hidden, weight, bias, targets, smoothing):
    """Loss, loss without smoothing, and the gradients of the loss, in float64."""
    parts = [None if part is None else part.detach().double().requires_grad_() for part in (hidden, weight, bias)]
    logits = F.linear(*parts)
    loss = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    plain = F.cross_entropy(logits, targets, reduction="sum")
    return [loss.detach(), plain.detach(), *torch.autograd.grad(loss, [part for part in parts if part is not None])]


@pytest.mark.parametrize("dtype", ALLOWED)
@pytest.mark.parametrize(
    "rows, vocabulary, chunk, bias, ignored, smoothing",
    [
        (7, 100, 3, False, 0, 0.0),
        (6, 128, 3, True, 2, 0.1),
        (5, 100, 8, True, 0, 0.2),
        (1, 65, 1, False, 0, 0.0),
        (4, 70, 3, True, 4, 0.1),
        (3, 4097, 2, False, 1, 0.0),
        (0, 70, 2, True, 0, 0.1),
        (9, 1, 4, True, 3, 0.0),
    ],
    ids=["plain", "aligned", "one chunk", "one row", "all ignored", "two steps a row", "no rows", "one word"],
)
def test_the_walk_over_chunks_equals_the_equation(dtype, rows, vocabulary, chunk, bias, ignored, smoothing):
    hidden, weight, offset, targets = problem(rows, 16, vocabulary, ignored, dtype)
    offset = offset if bias else None
    walked = walk_on_gpu(
        hidden, weight, offset, targets, smoothing, -100 if ignored else None, chunk, (True, True, bias)
    )
    expected = exact(hidden, weight, offset, targets, smoothing)
    for name, ours, theirs in zip(walked._fields, walked, expected, strict=False):
        assert error(ours, theirs) < ALLOWED[dtype], name
    assert [walked.hidden.dtype, walked.weight.dtype, walked.loss.dtype] == [dtype, torch.float32, torch.float32]
    assert walked.weight.shape == weight.shape


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_logits_become_errors_and_padded_columns_become_zero(smoothing):
    width, columns = 70, 128
    logits, targets = torch.randn(5, columns, device=DEVICE), torch.tensor([0, 69, 3, -100, 7], device=DEVICE)
    costs, real = torch.full((2, 5), 9.0, device=DEVICE), targets >= 0
    exact_logits = logits[:, :width].double().requires_grad_()
    per_row = F.cross_entropy(exact_logits, targets, reduction="none", label_smoothing=smoothing)
    (expected,) = torch.autograd.grad(per_row.sum(), exact_logits)
    softmax_errors_(logits, width, targets, costs[0], costs[1], label_smoothing=smoothing, ignore_index=-100)
    torch.testing.assert_close(logits[:, :width].double(), expected, rtol=1e-5, atol=1e-6)
    assert not logits[:, width:].any() and not logits[3].any()
    log_probs = exact_logits.detach().log_softmax(-1)
    plain = -log_probs.gather(1, targets.clamp(min=0)[:, None])[:, 0] * real
    torch.testing.assert_close(costs[0].double(), plain, rtol=1e-5, atol=1e-5)
    if smoothing:
        torch.testing.assert_close(costs[1].double(), -log_probs.mean(1) * real, rtol=1e-5, atol=1e-5)


def test_without_gradients_logits_are_unchanged():
    logits, targets = torch.randn(2, 64, device=DEVICE), torch.tensor([1, 2], device=DEVICE)
    original, costs = logits.clone(), torch.zeros(2, 2, device=DEVICE)
    softmax_errors_(logits, 64, targets, costs[0], costs[1], errors=False)
    assert torch.equal(logits, original) and costs[0].all()


def test_logits_too_large_for_exp_are_handled():
    logits = torch.tensor([[1e4, -1e4, 0.0], [-300.0, -300.0, -300.0]], device=DEVICE)
    costs = torch.zeros(2, 2, device=DEVICE)
    softmax_errors_(logits, 3, torch.tensor([1, 2], device=DEVICE), costs[0], costs[1])
    assert costs[0].tolist() == pytest.approx([2e4, math.log(3)], rel=1e-4)
    torch.testing.assert_close(
        logits.cpu(), torch.tensor([[1.0, -1.0, 0.0], [1 / 3, 1 / 3, -2 / 3]]), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("target", [-1, 70, 127])
def test_a_target_outside_the_vocabulary_costs_nan(target):
    """70 is a padded column."""
    hidden, weight, _, targets = problem(3, 8, 70, 0, torch.float32)
    targets[1] = target
    walked = walk_on_gpu(hidden, weight, None, targets, 0.0, None, 2, (True, True, False))
    assert walked.loss.isnan()


def test_padding_never_matters():
    hidden, weight, bias, targets = problem(6, 8, 70, 2, torch.float32)
    clean = walk_on_gpu(hidden, weight, bias, targets, 0.1, -100, 4, (True, True, True))
    hidden[:2] = math.nan
    for ours, theirs in zip(
        walk_on_gpu(hidden, weight, bias, targets, 0.1, -100, 4, (True, True, True)), clean, strict=True
    ):
        assert torch.equal(ours, theirs)


def test_unneeded_gradients_are_not_computed():
    hidden, weight, bias, targets = problem(5, 8, 70, 0, torch.float32)
    whole = walk_on_gpu(hidden, weight, bias, targets, 0.0, None, 2, (True, True, True))
    part = walk_on_gpu(hidden, weight, bias, targets, 0.0, None, 2, (False, True, False))
    assert torch.equal(part.weight, whole.weight) and part.hidden.numel() == part.bias.numel() == 0


@pytest.mark.parametrize("compiles", [False, True])
def test_the_loss_uses_the_kernel(monkeypatch, compiles):
    """From the layer's call to the weights' gradients, with an unaligned vocabulary, under autocast."""
    monkeypatch.setattr(WALKS.softmax_errors, "is_supported", lambda x: True)
    walked = []
    monkeypatch.setattr(
        WALKS, "walk_on_gpu", lambda *arguments: walked.append(len(arguments[0])) or walk_on_gpu(*arguments)
    )
    hidden, weight, _, targets = problem(12, 16, ALIGNED + 7, 3, torch.float32)
    hidden, weight = hidden.requires_grad_(), weight.requires_grad_()

    def cost(hidden):
        return cross_entropy(hidden, weight, None, targets, ignore_index=-100, rows=5)[0] / 9

    torch._dynamo.reset()
    called = torch.compile(cost, backend="aot_eager", fullgraph=True) if compiles else cost
    with torch.autocast(DEVICE, torch.bfloat16):
        loss = called(hidden)
    gradients = torch.autograd.grad(loss, (hidden, weight))
    expected = exact(hidden, weight, None, targets, 0.0)
    assert walked == [12]
    assert error(9 * loss.detach(), expected[0]) < 1e-2
    for ours, theirs in zip(gradients, expected[2:], strict=True):
        assert ours.dtype == torch.float32 and error(9 * ours, theirs) < ALLOWED[torch.bfloat16]


@pytest.mark.skipif(IS_INTERPRETED, reason="a GPU alone captures graphs")
def test_a_captured_walk_equals_an_eager_one():
    hidden, weight, _, targets = problem(300, 64, 500, 0, torch.bfloat16)

    def walk():
        return walk_on_gpu(hidden, weight, None, targets, 0.0, None, 128, (True, True, False))

    expected = walk()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        replayed = walk()
    graph.replay()
    for ours, theirs in zip(replayed, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
