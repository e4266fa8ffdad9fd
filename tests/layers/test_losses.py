import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.kernels import only_equations
from clew.layers.losses import CrossEntropy
from tests.references.agreement import randn


@given(
    batch=st.integers(1, 3),
    length=st.integers(0, 5),
    vocabulary=st.integers(1, 6),
    smoothing=st.sampled_from([0.0, 0.3]),
    masked=st.booleans(),
    training=st.booleans(),
)
def test_the_kernel_is_the_equation(batch, length, vocabulary, smoothing, masked, training):
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
        written = loss(hidden, weight, bias, targets, real)
    for ours, theirs in zip(fused, written, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(
        torch.autograd.grad(fused.loss, (hidden, weight)), torch.autograd.grad(written.loss, (hidden, weight)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
