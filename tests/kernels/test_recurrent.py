import itertools

import pytest
import torch

from clew.core.types import Memory
from clew.layers.cells import GRU, LSTM, Elman, ProjectedLSTM
from clew.layers.recurrent import Recurrent
from tests.references.agreement import randn, randomise

CELLS = {"elman": Elman, "lstm": LSTM, "gru": GRU, "projected_lstm": ProjectedLSTM}
LSTMS = ("lstm", "projected_lstm")
LENGTHS = torch.tensor([5, 0, 2, 1])


@pytest.mark.parametrize(("name", "started"), list(itertools.product(CELLS, [False, True])))
def test_a_fused_recurrence_ends_in_the_state_of_each_rows_last_real_position(name, started):
    layer = Recurrent(randomise(CELLS[name](2, 3)))
    x = randn(4, 5, 2)
    state = layer.initial_state(4, like=x)
    if started:
        final = (
            type(state.cell)(randn(4, 3, seed=1), randn(*state.cell.cell.shape, seed=2))
            if name in LSTMS
            else randn(4, 3, seed=1)
        )
        state = layer.initial_state(4, Memory(None, None, final), like=x)
    mask = torch.arange(5) < LENGTHS[:, None]
    _, fused = layer(x, mask, state)
    for row, length in enumerate(LENGTHS.tolist()):
        expected = state
        for t in range(length):
            _, expected = layer.loop(x[:, t : t + 1], None, expected)
        parts = zip(fused.cell, expected.cell, strict=True) if name in LSTMS else [(fused.cell, expected.cell)]
        for ours, theirs in parts:
            torch.testing.assert_close(ours[row], theirs[row])


@pytest.mark.parametrize("name", CELLS)
def test_a_padded_row_keeps_its_state_exactly_in_float32(name):
    layer = Recurrent(CELLS[name](2, 3))
    x = 100 * torch.randn(2, 50, 2)
    final = torch.randn(2, 3)
    if name in LSTMS:
        final = (final, 7 * torch.randn(2, 12 if name == "projected_lstm" else 3))
    state = layer.initial_state(2, Memory(None, None, final), like=x)
    _, after = layer(x, torch.zeros(2, 50, dtype=torch.bool), state)
    parts = zip(after.cell, state.cell, strict=True) if name in LSTMS else [(after.cell, state.cell)]
    assert all(torch.equal(ours, before) for ours, before in parts)


@pytest.mark.parametrize("name", CELLS)
def test_padding_gets_no_gradient_from_a_fused_recurrence(name):
    layer = Recurrent(randomise(CELLS[name](2, 3)))
    x = randn(4, 5, 2).requires_grad_()
    mask = torch.arange(5) < LENGTHS[:, None]
    y, state = layer(x, mask)
    total = torch.where(mask[..., None], y, 0.0).sum() + sum(
        leaf.sum() for leaf in (state.cell if name in LSTMS else [state.cell])
    )
    (gradient,) = torch.autograd.grad(total, x)
    assert torch.equal(gradient[~mask], torch.zeros_like(gradient[~mask]))
    assert bool((gradient[mask] != 0).any())


@pytest.mark.parametrize("name", CELLS)
def test_a_fused_recurrence_under_bfloat16_autocast_is_close_to_its_equation_on_any_cpu(name):
    layer = Recurrent(CELLS[name](4, 3))
    x = torch.randn(2, 6, 4)
    for mask in (None, torch.arange(6) < torch.tensor([6, 3])[:, None]):
        with torch.autocast("cpu", torch.bfloat16):
            y, _ = layer(x.bfloat16(), mask)
        expected, _ = layer(x, mask)
        real = torch.ones(2, 6, dtype=torch.bool) if mask is None else mask
        torch.testing.assert_close(y.float()[real], expected[real], rtol=0.05, atol=0.05)
        y[real].sum().backward()
        assert all(bool(parameter.grad.isfinite().all()) for parameter in layer.parameters())
