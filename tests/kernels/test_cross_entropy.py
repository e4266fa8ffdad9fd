import math
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from clew.kernels import choose, only_equations
from clew.kernels.cross_entropy import LEAST_ROWS, LOGITS, chunk_rows, cross_entropy
from clew.layers.losses import CrossEntropy
from tests.crossing import quickly
from tests.references.agreement import randn


def problem(
    rows: int, dim: int, vocabulary: int, bias: bool = True, ignored: int = 0, dtype: torch.dtype = torch.float64
):
    """Hidden, weight, bias and targets, the last `ignored` of them -100."""
    hidden, weight = (
        randn(rows, dim).to(dtype).requires_grad_(),
        randn(vocabulary, dim, seed=1).to(dtype).requires_grad_(),
    )
    targets = torch.randint(vocabulary, (rows,), generator=torch.Generator().manual_seed(2))
    targets[rows - min(ignored, rows) :] = -100
    return hidden, weight, randn(vocabulary, seed=3).to(dtype).requires_grad_() if bias else None, targets


def gradients(loss, *inputs):
    return torch.autograd.grad(loss, [x for x in inputs if x is not None and x.requires_grad])


@given(
    rows=st.integers(0, 9),
    dim=st.integers(1, 5),
    vocabulary=st.integers(1, 7),
    bias=st.booleans(),
    ignored=st.integers(0, 9),
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
    chunk=st.integers(1, 10),
)
def test_chunks_equal_the_equation_in_values_and_gradients(rows, dim, vocabulary, bias, ignored, smoothing, chunk):
    hidden, weight, offset, targets = problem(rows, dim, vocabulary, bias, ignored)
    expected = F.cross_entropy(F.linear(hidden, weight, offset), targets, reduction="sum", label_smoothing=smoothing)
    actual, plain = cross_entropy(
        hidden, weight, offset, targets, label_smoothing=smoothing, ignore_index=-100, rows=chunk
    )
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
    unsmoothed = F.cross_entropy(F.linear(hidden, weight, offset), targets, reduction="sum")
    torch.testing.assert_close(plain, unsmoothed.detach(), rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(
        gradients(3 * actual, hidden, weight, offset), gradients(3 * expected, hidden, weight, offset), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradients_equal_finite_differences(smoothing):
    hidden, weight, bias, targets = problem(5, 3, 4, ignored=1)
    torch.autograd.gradcheck(
        lambda *inputs: cross_entropy(*inputs, targets, label_smoothing=smoothing, ignore_index=-100, rows=2)[0],
        (hidden, weight, bias),
    )


def test_three_targets_by_hand():
    """Logits 0 and log 3: probabilities 1/4 and 3/4."""
    hidden, weight, bias = torch.zeros(3, 1), torch.zeros(2, 1), torch.tensor([0.0, math.log(3)])
    loss, plain = cross_entropy(hidden, weight, bias, torch.tensor([0, 1, 1]), label_smoothing=0.5)
    surprises = math.log(4), math.log(4 / 3)
    assert plain.item() == pytest.approx(surprises[0] + 2 * surprises[1])
    assert loss.item() == pytest.approx(0.5 * plain.item() + 0.5 * 3 * sum(surprises) / 2)


def test_batches_of_any_shape_are_flattened_to_rows():
    hidden, weight, bias, targets = problem(6, 3, 4)
    flat, _ = cross_entropy(hidden, weight, bias, targets, rows=6)
    shaped, _ = cross_entropy(hidden.view(2, 3, 3), weight, bias, targets.view(2, 3), rows=6)
    assert torch.equal(flat, shaped)
    assert gradients(shaped, hidden)[0].shape == (6, 3)


@pytest.mark.parametrize("frozen", ["hidden", "weight", "bias"])
def test_frozen_arguments_get_no_gradient_and_others_do(frozen):
    arguments = dict(zip(("hidden", "weight", "bias", "targets"), problem(5, 3, 4), strict=True))
    whole = dict(
        zip(
            ("hidden", "weight", "bias"),
            gradients(cross_entropy(*arguments.values())[0], *arguments.values()),
            strict=True,
        )
    )
    arguments[frozen].requires_grad_(False)
    loss, _ = cross_entropy(*arguments.values(), rows=2)
    loss.backward()
    assert arguments[frozen].grad is None
    for name in whole.keys() - {frozen}:
        torch.testing.assert_close(arguments[name].grad, whole[name], rtol=1e-12, atol=1e-12)


def test_a_weight_used_twice_gets_both_gradients():
    _, weight, bias, targets = problem(6, 3, 4)
    tokens = torch.tensor([0, 1, 2, 3, 1, 0])

    def tied(loss_of):
        hidden = torch.tanh(F.embedding(tokens, weight)) @ weight.T[:, :3]
        return torch.autograd.grad(loss_of(hidden) / 6 + weight.square().sum(), (weight, bias))

    ours = tied(lambda hidden: cross_entropy(hidden, weight, bias, targets, rows=4)[0])
    theirs = tied(lambda hidden: F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum"))
    for actual, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_a_batch_of_padding_has_zero_loss_and_gradients():
    hidden, weight, bias, targets = problem(4, 3, 5, ignored=4)
    loss, plain = cross_entropy(hidden, weight, bias, targets, label_smoothing=0.1, ignore_index=-100, rows=3)
    assert loss.item() == plain.item() == 0.0
    assert not any(gradient.any() for gradient in gradients(loss, hidden, weight, bias))


def test_padding_never_matters():
    hidden, weight, bias, targets = problem(4, 3, 5, ignored=2)
    clean = cross_entropy(hidden, weight, bias, targets, ignore_index=-100, rows=3)[0]
    poisoned = hidden.detach().clone().requires_grad_()
    with torch.no_grad():
        poisoned[2:] = math.nan
    loss = cross_entropy(poisoned, weight, bias, targets, ignore_index=-100, rows=3)[0]
    assert torch.equal(loss, clean)
    for ours, theirs in zip(
        gradients(loss, poisoned, weight, bias), gradients(clean, hidden, weight, bias), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_a_retained_graph_gives_the_same_gradients_twice():
    hidden, weight, bias, targets = problem(4, 3, 5)
    loss, plain = cross_entropy(hidden, weight, bias, targets, rows=3)
    first = torch.autograd.grad(loss, weight, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, weight)[0])
    assert not plain.requires_grad


def test_logits_too_large_for_exp_are_handled():
    hidden = torch.tensor([[1e4]], requires_grad=True)
    loss, _ = cross_entropy(hidden, torch.tensor([[1.0], [-1.0]]), None, torch.tensor([1]), rows=1)
    assert loss.item() == pytest.approx(2e4)
    assert gradients(loss, hidden)[0].item() == pytest.approx(2.0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_under_autocast_products_are_in_half_precision_and_the_softmax_is_not(smoothing):
    hidden, weight, bias, targets = problem(40, 16, 30, ignored=3, dtype=torch.float32)
    exact = F.cross_entropy(F.linear(hidden, weight, bias), targets, reduction="sum", label_smoothing=smoothing)
    with torch.autocast("cpu", torch.bfloat16):
        loss, plain = cross_entropy(hidden, weight, bias, targets, label_smoothing=smoothing, ignore_index=-100, rows=7)
        logits = F.linear(hidden, weight, bias)
    assert logits.dtype == torch.bfloat16 and loss.dtype == plain.dtype == torch.float32
    rounded = F.cross_entropy(logits.float(), targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(loss, rounded, rtol=1e-6, atol=1e-6)
    for ours, theirs in zip(gradients(loss, hidden, weight, bias), gradients(exact, hidden, weight, bias), strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


def test_under_autocast_float64_stays_float64():
    hidden, weight, bias, targets = problem(4, 3, 5)
    expected, _ = cross_entropy(hidden, weight, bias, targets, rows=4)
    with torch.autocast("cpu", torch.bfloat16):
        actual, _ = cross_entropy(hidden, weight, bias, targets, rows=4)
    assert actual.dtype == torch.float64 and torch.equal(actual, expected)


def test_it_runs_on_devices_without_autocast():
    hidden, weight, bias, targets = (x.to("meta") for x in problem(4, 3, 5))
    assert gradients(cross_entropy(hidden, weight, bias, targets, rows=3)[0], weight)[0].shape == weight.shape


class Operations(TorchDispatchMode):
    """Records the largest tensor that any operation returned, and the number of matrix products."""

    def __init__(self):
        super().__init__()
        self.largest, self.products = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.largest = max(
            [
                self.largest,
                *(leaf.untyped_storage().nbytes() for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)),
            ]
        )
        self.products += func._schema.name.split("::")[1] in ("mm", "addmm", "addmm_")
        return out


def test_no_tensor_holds_all_logits():
    rows, vocabulary = 1024, 16384
    hidden, weight, bias, targets = problem(rows, 2, vocabulary, dtype=torch.float32)
    with Operations() as operations:
        cross_entropy(hidden, weight, bias, targets, label_smoothing=0.1, ignore_index=-100)[0].backward()
    assert operations.largest == 4 * LOGITS["cpu"] < 4 * rows * vocabulary
    with Operations() as operations, only_equations():
        loss = CrossEntropy()
        loss(hidden, weight, bias, targets).loss.backward()
    assert operations.largest >= 4 * rows * vocabulary


@given(
    rows=st.integers(0, 3), bias=st.booleans(), ignored=st.integers(0, 3), ignore_index=st.sampled_from([None, -100, 2])
)
def test_a_small_problem_is_computed_by_torch(rows, bias, ignored, ignore_index):
    hidden, weight, offset, targets = problem(rows, 2, 4, bias, ignored if ignore_index == -100 else 0)
    small = cross_entropy(hidden, weight, offset, targets, ignore_index=ignore_index)
    walked = cross_entropy(hidden, weight, offset, targets, ignore_index=ignore_index, rows=2)
    for ours, theirs in zip(small, walked, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    assert "Chunked" not in type(small[0].grad_fn).__name__ and "Chunked" in type(walked[0].grad_fn).__name__


def test_without_gradients_there_is_one_product_per_chunk():
    hidden, weight, bias, targets = problem(6, 2, 5)
    with Operations() as operations, torch.no_grad():
        cross_entropy(hidden, weight, bias, targets, rows=3)
    assert operations.products == 2
    with Operations() as operations:
        cross_entropy(hidden, weight, bias, targets, rows=3)
    assert operations.products == 6


@given(rows=st.integers(1, 5000), vocabulary=st.integers(1, 300_000))
def test_chunks_are_equal_within_the_limit_of_logits(rows, vocabulary):
    chunk = chunk_rows(rows, vocabulary, LOGITS["cpu"])
    assert chunk >= 1 and chunk * vocabulary <= max(LOGITS["cpu"], LEAST_ROWS * vocabulary)
    if rows * vocabulary <= LOGITS["cpu"]:
        assert chunk >= rows, "a batch that fits into one chunk is one chunk"
    num_chunks = math.ceil(rows / chunk)
    assert num_chunks * chunk - rows < num_chunks, "the last chunk is not much shorter than the others"


def test_compiled_code_uses_it_but_equations_and_exported_programs_do_not():
    loss = CrossEntropy()
    assert choose("cross_entropy", loss) is cross_entropy
    with only_equations():
        assert choose("cross_entropy", loss) is None
    assert torch.compile(lambda: choose("cross_entropy", loss) is cross_entropy, backend="eager", fullgraph=True)()
    hidden, weight, bias, targets = problem(600, 2, 500, dtype=torch.float32)
    program = torch.export.export(Costing(weight, bias), (hidden.detach(), targets))
    assert not any("clew" in str(node.target) for node in program.graph.nodes)


class Costing(nn.Module):
    """A loss whose weights are used twice: the input is also multiplied with them."""

    def __init__(self, weight, bias=None, smoothing=0.0):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight.detach()), None if bias is None else nn.Parameter(bias.detach())
        self.loss = CrossEntropy(smoothing)

    def forward(self, hidden, targets, real=None):
        costs = self.loss(torch.tanh(hidden) + self.weight[targets.clamp(min=0)], self.weight, self.bias, targets, real)
        return costs.loss / 3, costs.plain


@pytest.mark.filterwarnings("default")  # imports inside inductor warn
@pytest.mark.parametrize("backend", quickly(["aot_eager", "eager", "inductor"], "aot_eager"))
@pytest.mark.parametrize(
    "smoothing, bias, padded, dtype",
    [
        (0.0, False, False, None),
        (0.1, True, True, None),
        (0.0, True, True, torch.bfloat16),
        (0.2, False, True, torch.bfloat16),
    ],
)
def test_compiled_it_is_one_operator_with_the_values_and_gradients_of_the_equation(
    backend, smoothing, bias, padded, dtype
):
    torch._dynamo.reset()
    hidden, weight, offset, targets = problem(600, 8, 501, bias, dtype=torch.float32)
    real = torch.arange(600) < 450 if padded else None
    model = Costing(weight, offset, smoothing)
    compiled = torch.compile(model, backend=backend, fullgraph=True)

    def run(called, autocast=None):
        with nullcontext() if autocast is None else torch.autocast("cpu", autocast):
            loss, plain = called(hidden, targets, real)
        assert loss.dtype == plain.dtype == torch.float32 and not plain.requires_grad
        return [loss.detach(), plain, *gradients(loss, hidden, *model.parameters())]

    with only_equations():
        exact = run(model)
    compiled_results = run(compiled, dtype)
    for ours, theirs in zip(compiled_results, exact, strict=True):
        assert ours.dtype == theirs.dtype
        assert (ours - theirs).norm() <= (1e-5 if dtype is None else 0.02) * theirs.norm()
    for ours, theirs in zip(compiled_results, run(model, dtype), strict=True):
        assert (ours - theirs).norm() <= (1e-5 if dtype is None else 5e-3) * theirs.norm()


def test_no_tensor_of_a_compiled_graph_holds_all_logits():
    torch._dynamo.reset()
    hidden, weight, bias, targets = problem(600, 8, 500, dtype=torch.float32)
    shapes = []

    def seeing(graph, _):
        for node in graph.graph.nodes:
            shapes.extend(leaf.numel() for leaf in tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor))
        return make_boxed_func(graph.forward)

    compiled = torch.compile(
        Costing(weight, bias, 0.1), backend=aot_autograd(fw_compiler=seeing, bw_compiler=seeing), fullgraph=True
    )
    compiled(hidden, targets)[0].backward()
    assert max(shapes) < 600 * 500


def test_compiled_in_its_own_autocast_region_products_are_in_half_precision():
    torch._dynamo.reset()
    hidden, weight, bias, targets = problem(600, 8, 500, dtype=torch.float32)

    def within(hidden):
        with torch.autocast("cpu", torch.bfloat16):
            return cross_entropy(hidden, weight, bias, targets)[0]

    ours, theirs = torch.compile(within, backend="aot_eager", fullgraph=True)(hidden), within(hidden)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients(ours, hidden), gradients(theirs, hidden))


OF_TORCH_2_11 = "|does not require grad" if torch.__version__.startswith("2.11.") else ""


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
def test_gradients_of_gradients_are_rejected(backend):
    torch._dynamo.reset()
    hidden, weight, bias, targets = problem(5, 3, 4)

    def cost(hidden):
        return cross_entropy(hidden, weight, bias, targets, rows=2)[0].square()

    loss = (cost if backend is None else torch.compile(cost, backend=backend, fullgraph=True))(hidden)
    with pytest.raises(
        RuntimeError, match="once_differentiable|does not currently support double backward" + OF_TORCH_2_11
    ):
        torch.autograd.grad(loss, hidden, create_graph=True)[0].sum().backward()


def test_compiled_frozen_arguments_get_no_gradient():
    torch._dynamo.reset()
    hidden, weight, bias, targets = problem(7, 3, 4)
    compiled = torch.compile(
        lambda *inputs: cross_entropy(*inputs, targets, rows=3)[0], backend="aot_eager", fullgraph=True
    )
    expected = gradients(cross_entropy(hidden, weight, bias, targets, rows=3)[0], hidden, bias)
    weight.requires_grad_(False)
    torch.testing.assert_close(gradients(compiled(hidden, weight, bias), hidden, bias), expected)
    with torch.no_grad():
        assert not compiled(hidden, weight, bias).requires_grad


def test_compiled_batches_may_have_other_sizes():
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *inputs: cross_entropy(*inputs, rows=3)[0], backend="aot_eager", fullgraph=True, dynamic=True
    )
    for rows in (7, 12, 5):
        hidden, weight, bias, targets = problem(rows, 3, 4)
        ours, theirs = compiled(hidden, weight, bias, targets), cross_entropy(hidden, weight, bias, targets, rows=3)[0]
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(gradients(ours, hidden, weight), gradients(theirs, hidden, weight))
