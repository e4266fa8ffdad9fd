"""The written-out gradient of a peephole LSTM against its equation under autograd, in float64."""

import pytest
import torch

from clew.kernels import only_equations
from clew.layers.cells import CELLS, LSTMState
from clew.layers.recurrent import Recurrent, RecurrentState

MASKS = {
    "whole": None,
    "ragged": torch.arange(7) < torch.tensor([[7], [3], [1]]),
    "empty": torch.arange(7) < torch.tensor([[0], [7], [2]]),
}


@pytest.fixture
def layer() -> Recurrent:
    torch.manual_seed(3)
    return Recurrent(CELLS["peephole_lstm"](5, 6)).double()


def state(layer: Recurrent) -> RecurrentState:
    hidden, cell = (torch.randn(3, 6, dtype=torch.double, requires_grad=True) for _ in range(2))
    return RecurrentState(LSTMState(hidden, cell), torch.zeros(3, dtype=torch.long))


@pytest.mark.parametrize("name", MASKS)
def test_values_and_gradients_are_those_of_the_equation(layer, name):
    x, before, mask = torch.randn(3, 7, 5, dtype=torch.double, requires_grad=True), state(layer), MASKS[name]

    def run() -> list[torch.Tensor]:
        y, after = layer(x, mask, before)
        y = y if mask is None else torch.where(mask[..., None], y, 0.0)
        loss = y.sin().sum() + (2 * after.cell.hidden).sin().sum() + (1.5 * after.cell.cell).cos().sum()
        return [y, *after.cell, *torch.autograd.grad(loss, [x, *layer.parameters(), *before.cell])]

    found = run()
    with only_equations():
        wanted = run()
    for each, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(each, right, rtol=1e-12, atol=1e-12)


def test_gradients_are_those_of_differences(layer):
    x, before = torch.randn(3, 4, 5, dtype=torch.double, requires_grad=True), state(layer)
    mask = torch.arange(4) < torch.tensor([[4], [2], [1]])

    def outputs(x, hidden, cell):
        y, after = layer(x, mask, RecurrentState(LSTMState(hidden, cell), before.document))
        return torch.where(mask[..., None], y, 0.0), *after.cell

    assert torch.autograd.gradcheck(outputs, (x, *before.cell))


def test_nothing_is_read_from_padding(layer):
    x, before, mask = torch.randn(3, 7, 5, dtype=torch.double), state(layer), MASKS["ragged"]
    clean, after = layer(x, mask, before)
    spoiled, again = layer(torch.where(mask[..., None], x, torch.nan), mask, before)
    assert torch.equal(clean[mask], spoiled[mask]) and all(map(torch.equal, after.cell, again.cell))


def test_chunks_carry_the_state(layer):
    x, before = torch.randn(3, 7, 5, dtype=torch.double), state(layer)
    whole, end = layer(x, None, before)
    first, between = layer(x[:, :3], None, before)
    second, after = layer(x[:, 3:], None, between)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    torch.testing.assert_close(after.cell, end.cell)


def test_under_autocast_it_is_in_the_weights_own_type(layer):
    layer.float()
    x = torch.randn(2, 4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = layer(x)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, layer(x)[0])
