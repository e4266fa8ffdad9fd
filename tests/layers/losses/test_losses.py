import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.kernels import only_equations
from clew.layers.losses import CrossEntropy, num_changes, squared_activations, squared_changes
from tests.crossing import quickly
from tests.references.agreement import randn


@given(
    batch=st.integers(1, 3),
    length=st.integers(0, 5),
    vocabulary=st.integers(1, 6),
    smoothing=st.sampled_from([0.0, 0.3]),
    masked=st.booleans(),
    training=st.booleans(),
)
def test_the_kernel_equals_the_equation(batch, length, vocabulary, smoothing, masked, training):
    hidden, weight, bias = (
        randn(batch, length, 3).requires_grad_(),
        randn(vocabulary, 3, seed=1).requires_grad_(),
        randn(vocabulary, seed=2),
    )
    targets = torch.randint(vocabulary, (batch, length), generator=torch.Generator().manual_seed(0))
    real = torch.arange(length) < torch.arange(1, batch + 1)[:, None] if masked else None
    loss = CrossEntropy(smoothing).train(training)
    fused = loss(hidden, weight, bias, targets, real)
    with only_equations():
        equation = loss(hidden, weight, bias, targets, real)
    for ours, theirs in zip(fused, equation, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(
        torch.autograd.grad(fused.loss, (hidden, weight)),
        torch.autograd.grad(equation.loss, (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_smoothing_is_off_in_evaluation():
    hidden, weight, targets = randn(4, 3), randn(5, 3, seed=1), torch.tensor([0, 1, 4, 2])
    loss = CrossEntropy(0.3)
    assert loss(hidden, weight, None, targets).loss > loss.eval()(hidden, weight, None, targets).loss
    torch.testing.assert_close(loss(hidden, weight, None, targets), CrossEntropy()(hidden, weight, None, targets))


def test_a_smoothed_loss_is_minimal_at_the_smoothed_target():
    """The gradient vanishes only for the logits log q."""
    q = torch.tensor([0.1 / 4, 0.9 + 0.1 / 4, 0.1 / 4, 0.1 / 4], dtype=torch.float64)
    bias = q.log().requires_grad_()
    loss = CrossEntropy(0.1)(
        torch.zeros(1, 1, dtype=torch.float64), torch.zeros(4, 1, dtype=torch.float64), bias, torch.tensor([1])
    )
    torch.testing.assert_close(torch.autograd.grad(loss.loss, bias)[0], torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(loss.loss, -(q * q.log()).sum())


@pytest.mark.parametrize("backend", quickly(["eager", "aot_eager"], "eager"))
def test_the_compiled_loss_is_one_graph_with_the_same_gradients(backend):
    torch._dynamo.reset()
    hidden, weight, targets = (
        randn(2, 3, 4).requires_grad_(),
        randn(5, 4, seed=1).requires_grad_(),
        torch.tensor([[0, 1, 2], [4, 3, 0]]),
    )
    loss = CrossEntropy(0.1)
    ours = torch.compile(loss, backend=backend, fullgraph=True)(hidden, weight, None, targets)
    theirs = loss(hidden, weight, None, targets)
    torch.testing.assert_close(ours.loss, theirs.loss)
    for actual, expected in zip(
        torch.autograd.grad(ours.loss, (hidden, weight)),
        torch.autograd.grad(theirs.loss, (hidden, weight)),
        strict=True,
    ):
        torch.testing.assert_close(actual, expected)


def test_squared_activations_and_changes_equal_hand_computed_ones():
    hidden = torch.tensor([[[1.0, 3.0], [2.0, 5.0], [4.0, 4.0]], [[0.0, 2.0], [7.0, 7.0], [9.0, 9.0]]])
    tokens = torch.zeros(2, 3, dtype=torch.long)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    assert squared_activations(hidden, mask).item() == (1 + 9 + 4 + 25 + 16 + 16 + 0 + 4) / 2
    assert squared_changes(hidden, mask).item() == (1 + 4 + 4 + 1) / 2
    assert num_changes(mask, tokens).item() == 2
    assert squared_changes(hidden, None).item() == (1 + 4 + 4 + 1 + 49 + 25 + 4 + 4) / 2
    assert num_changes(None, tokens).item() == 4


def test_a_change_of_document_is_not_counted_as_a_change():
    hidden = torch.tensor([[[1.0], [2.0], [5.0], [6.0], [0.0]]])
    documents = torch.tensor([[1, 1, 2, 2, 0]])
    assert squared_changes(hidden, documents).item() == 1 + 1
    assert num_changes(documents, documents).item() == 2
    assert squared_activations(hidden, documents).item() == 1 + 4 + 25 + 36


def test_one_position_has_no_change():
    hidden, tokens = torch.ones(3, 1, 2, requires_grad=True), torch.zeros(3, 1, dtype=torch.long)
    assert squared_changes(hidden, None).item() == 0.0 and num_changes(None, tokens).item() == 0
    assert not torch.autograd.grad(squared_changes(hidden, None), hidden)[0].any()


def test_padding_gets_no_gradient():
    hidden = torch.full((1, 3, 2), float("nan"))
    hidden[:, :2] = torch.tensor([1.0, 2.0])
    hidden.requires_grad_()
    mask = torch.tensor([[True, True, False]])
    (gradient,) = torch.autograd.grad(squared_activations(hidden, mask) + squared_changes(hidden, mask), hidden)
    assert gradient[0].tolist() == [[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]


def test_sums_of_half_precision_numbers_are_in_float32():
    hidden = torch.full((64, 65, 3), 0.25, dtype=torch.bfloat16)
    assert squared_activations(hidden, None).dtype == torch.float32
    assert squared_activations(hidden, None).item() == 64 * 65 / 16
