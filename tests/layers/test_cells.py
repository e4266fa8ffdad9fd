import math

import numpy as np
import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.core.types import Memory
from clew.kernels import only_equations
from clew.layers.cells import CELLS, GRU, LSTM, Elman, ProjectedLSTM
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.recurrence.nested_cells import DroppedCell, StackedCell
from clew.layers.recurrence.residual_cell import ResidualCell
from clew.layers.recurrent import Recurrent, unbind_steps
from clew.layers.wiring import Residual
from tests.references import cells as references
from tests.references.agreement import assert_agrees, randn, randomise


def by_equation(layer):
    """A function that runs the layer by its equation, without a kernel."""

    def run(x):
        with only_equations():
            return layer(x)[0]

    return run


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_equals_its_paper_in_values_and_gradients(name):
    cell = randomise(CELLS[name](2, 3))
    assert_agrees(cell, by_equation(Recurrent(cell)), references.REFERENCES[name], randn(2, 4, 2))


@pytest.mark.parametrize(("nonlinearity", "function"), [("relu", references.relu), ("sigmoid", references.sigmoid)])
def test_an_elman_cell_supports_other_nonlinearities(nonlinearity, function):
    cell = randomise(Elman(2, 3, nonlinearity=nonlinearity))
    assert_agrees(cell, by_equation(Recurrent(cell)), lambda p, x: references.elman(p, x, function), randn(2, 4, 2))


def test_an_lstm_may_output_its_cell_without_tanh():
    cell = randomise(LSTM(2, 3, cell_output="identity"))
    assert_agrees(
        cell, by_equation(Recurrent(cell)), lambda p, x: references.lstm(p, x, output=lambda c: c), randn(2, 4, 2)
    )


def test_a_gru_that_resets_before_the_product_equals_its_paper_without_a_kernel():
    cell = randomise(GRU(2, 3, reset="before"))
    x = randn(2, 4, 2)
    assert_agrees(cell, lambda x: Recurrent(cell)(x)[0], references.published_gru, x)
    assert_agrees(cell, by_equation(Recurrent(cell)), references.published_gru, x)
    after = GRU(2, 3).double()
    after.load_state_dict({**cell.state_dict(), "candidate_bias": torch.zeros(3)})
    assert (Recurrent(after)(x)[0] - Recurrent(cell)(x)[0]).abs().max() > 0.01


@pytest.mark.parametrize("scale", [0.0, 0.7])
def test_both_forms_of_a_gru_are_equal_if_the_recurrent_matrix_is_diagonal(scale):
    """U (r * h) = r * (U h) for a diagonal U."""
    before = randomise(GRU(2, 3, reset="before"))
    after = GRU(2, 3).double()
    with torch.no_grad():
        before.hidden_weight[6:] = scale * torch.eye(3)
        after.load_state_dict({**before.state_dict(), "candidate_bias": torch.zeros(3)})
    x = randn(2, 4, 2)
    torch.testing.assert_close(Recurrent(after)(x)[0], Recurrent(before)(x)[0])


def test_two_steps_of_an_elman_cell_by_hand():
    cell = Elman(1, 1).double()
    with torch.no_grad():
        cell.input_weight.fill_(0.5)
        cell.hidden_weight.fill_(-2.0)
        cell.bias.fill_(0.1)
    y, _ = Recurrent(cell)(torch.tensor([[[1.0], [2.0]]], dtype=torch.float64))
    first = math.tanh(0.5 * 1 + 0.1)
    second = math.tanh(0.5 * 2 - 2.0 * first + 0.1)
    np.testing.assert_allclose(y[0, :, 0].detach(), [first, second], rtol=1e-12)


def test_an_open_forget_gate_and_a_closed_input_gate_keep_the_cell():
    cell = LSTM(2, 3).double()
    with torch.no_grad():
        cell.bias[:3] = -1e4
        cell.bias[3:6] = 1e4
    previous = randn(4, 3)
    _, state = Recurrent(cell)(
        randn(4, 9, 2),
        None,
        Recurrent(cell).initial_state(4, Memory(None, None, (randn(4, 3), previous)), like=previous),
    )
    assert torch.equal(state.cell.cell, previous)


def test_a_closed_forget_gate_and_an_open_input_gate_write_the_candidate():
    cell = LSTM(2, 3).double()
    with torch.no_grad():
        cell.bias[:3] = 1e4
        cell.bias[3:6] = -1e4
        cell.hidden_weight.zero_()
    x = randn(4, 5, 2)
    _, state = Recurrent(cell)(x)
    candidate = torch.tanh(x[:, -1] @ cell.input_weight[6:9].T + cell.bias[6:9])
    torch.testing.assert_close(state.cell.cell, candidate)


def test_a_full_update_gate_keeps_the_hidden_state():
    cell = GRU(2, 3).double()
    with torch.no_grad():
        cell.bias[3:6] = 1e4
    before = randn(4, 3)
    layer = Recurrent(cell)
    _, state = layer(randn(4, 7, 2), None, layer.initial_state(4, Memory(None, None, before), like=before))
    torch.testing.assert_close(state.cell, before)


def test_the_forget_bias_is_added_only_to_the_forget_gate():
    torch.manual_seed(0)
    plain = LSTM(2, 3)
    torch.manual_seed(0)
    biased = LSTM(2, 3, forget_bias=1.5)
    torch.testing.assert_close(biased.bias - plain.bias, torch.tensor([0.0] * 3 + [1.5] * 3 + [0.0] * 6))


@pytest.mark.parametrize("fused", [True, False])
def test_an_lstm_equals_torch(fused):
    ours, theirs = randomise(LSTM(3, 4)), nn.LSTM(3, 4, batch_first=True).double()
    copy(ours, theirs)
    x, hidden, cell = randn(2, 5, 3), randn(2, 4, seed=1), randn(2, 4, seed=2)
    layer = Recurrent(ours)
    start = layer.initial_state(2, Memory(None, None, LSTMState(hidden, cell)), like=x)
    expected, (last_hidden, last_cell) = theirs(x, (hidden[None], cell[None]))
    y, state = layer(x, None, start) if fused else layer.loop(x, None, start)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(state.cell.hidden, last_hidden[0])
    torch.testing.assert_close(state.cell.cell, last_cell[0])


@pytest.mark.parametrize("fused", [True, False])
def test_a_projected_lstm_equals_torch(fused):
    ours, theirs = randomise(ProjectedLSTM(3, 2, hidden_dim=5)), nn.LSTM(3, 5, proj_size=2, batch_first=True).double()
    copy(ours, theirs)
    with torch.no_grad():
        theirs.weight_hr_l0.copy_(ours.projection)
    x, hidden, cell = randn(2, 6, 3), randn(2, 2, seed=1), randn(2, 5, seed=2)
    layer = Recurrent(ours)
    start = layer.initial_state(2, Memory(None, None, LSTMState(hidden, cell)), like=x)
    expected, (last_hidden, last_cell) = theirs(x, (hidden[None], cell[None]))
    y, state = layer(x, None, start) if fused else layer.loop(x, None, start)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(state.cell.hidden, last_hidden[0])
    torch.testing.assert_close(state.cell.cell, last_cell[0])


def test_a_projected_lstm_may_be_as_narrow_inside_as_outside():
    for hidden_dim in (1, 3):
        cell = randomise(ProjectedLSTM(2, 3, hidden_dim=hidden_dim))
        assert_agrees(cell, lambda x, cell=cell: Recurrent(cell)(x)[0], references.projected_lstm, randn(2, 4, 2))
    with pytest.raises(UserError, match=r"hidden_dim \(0\) must be at least 1"):
        ProjectedLSTM(2, 3, hidden_dim=0)


@pytest.mark.parametrize("fused", [True, False])
def test_a_gru_equals_torch(fused):
    ours, theirs = randomise(GRU(3, 4)), nn.GRU(3, 4, batch_first=True).double()
    copy(ours, theirs)
    with torch.no_grad():
        theirs.bias_hh_l0[8:] = ours.candidate_bias
    x, layer = randn(2, 5, 3), Recurrent(ours)
    y, state = layer(x) if fused else layer.loop(x, None, layer.initial_state(2, like=x))
    expected, last = theirs(x)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(state.cell, last[0])


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_an_elman_cell_equals_torch(nonlinearity):
    ours, theirs = (
        randomise(Elman(3, 4, nonlinearity=nonlinearity)),
        nn.RNN(3, 4, nonlinearity=nonlinearity, batch_first=True).double(),
    )
    copy(ours, theirs)
    x, layer = randn(2, 5, 3), Recurrent(ours)
    expected, last = theirs(x)
    for y, state in (layer(x), layer.loop(x, None, layer.initial_state(2, like=x))):
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(state.cell, last[0])


def copy(ours, theirs):
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.input_weight)
        theirs.weight_hh_l0.copy_(ours.hidden_weight)
        theirs.bias_ih_l0.copy_(ours.bias)
        theirs.bias_hh_l0.zero_()


def test_a_stack_of_three_cells_equals_three_recurrences():
    cells = [randomise(LSTM(2, 3)), randomise(GRU(3, 4)), randomise(Elman(4, 2))]
    x = randn(2, 5, 2)
    expected = x
    for cell in cells:
        expected, _ = Recurrent(cell)(expected)
    torch.testing.assert_close(Recurrent(StackedCell(cells))(x)[0], expected)


def test_each_cell_of_a_stack_starts_from_its_own_final_state():
    cell = randomise(StackedCell([Elman(2, 3), GRU(3, 3)]))
    final = (randn(2, 3, seed=1), randn(2, 3, seed=2))
    start = cell.initial_state(2, Memory(None, None, final), like=final[0])
    assert all(torch.equal(a, b) for a, b in zip(start, final, strict=True))


@pytest.mark.parametrize(
    "cell",
    [StackedCell([LSTM(5, 3), GRU(3, 4)]), DroppedCell(GRU(5, 4), 0.5), ResidualCell(GRU(5, 5))],
    ids=["stack", "dropped", "residual"],
)
def test_composed_cells_accept_late_features_like_early_ones(cell):
    cell = randomise(cell).eval()
    x = randn(2, 1, 5)
    state = cell.initial_state(2, like=x)
    expected, _ = Recurrent(cell)(x)
    (early,) = unbind_steps(cell.early_inputs(x[..., :2]), 1)
    torch.testing.assert_close(cell(cell.late_inputs(early, x[:, 0, 2:]), state)[0], expected[:, 0])


def test_a_residual_cell_equals_a_residual_connection_around_its_recurrence():
    cell = randomise(LSTM(3, 3))
    x, mask = randn(2, 5, 3), torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    expected, state = Residual(3, Recurrent(cell))(x, mask)
    actual, after = Recurrent(ResidualCell(cell))(x, mask)
    torch.testing.assert_close(actual[mask], expected[mask])
    torch.testing.assert_close(after.cell, state.cell)


@pytest.mark.parametrize("kind", ["plain", "locked"])
def test_a_dropped_cell_drops_its_output_and_not_its_state(kind):
    torch.manual_seed(0)
    inner = randomise(GRU(2, 40))
    layer = Recurrent(DroppedCell(inner, 0.5, kind))
    x = randn(2, 6, 2)
    whole, state = Recurrent(inner)(x)
    y, after = layer(x)
    torch.testing.assert_close(after.cell, state.cell)
    nonzero = y != 0
    torch.testing.assert_close(y[nonzero], 2 * whole[nonzero])
    assert 0.35 < float(nonzero.double().mean()) < 0.65
    assert torch.equal(nonzero, nonzero[:, :1].expand_as(nonzero)) == (kind == "locked")
    torch.testing.assert_close(layer.eval()(x)[0], whole)


def test_weight_drop_is_constant_within_a_chunk_and_resampled_for_the_next():
    """With W = 0, b = 0 and h = 1 at all steps, y_t counts the kept weights, so all steps must agree."""
    torch.manual_seed(0)
    cell = Elman(1, 6, nonlinearity="relu", weight_drop=0.5).double()
    with torch.no_grad():
        cell.input_weight.zero_()
        cell.bias.zero_()
        cell.hidden_weight.copy_(torch.eye(6))
    layer = Recurrent(cell)
    ones = layer.initial_state(1, Memory(None, None, torch.ones(1, 6, dtype=torch.float64)), like=cell.bias)
    masks = set()
    for _ in range(8):
        y, _ = layer(torch.zeros(1, 4, 1, dtype=torch.float64), None, ones)
        nonzero = y[0, 0] > 0
        for t in range(4):
            torch.testing.assert_close(y[0, t], torch.where(nonzero, 2.0 ** (t + 1), 0.0).double())
        masks.add(tuple(nonzero.tolist()))
    assert len(masks) > 1
    cell.eval()
    torch.testing.assert_close(
        layer(torch.zeros(1, 4, 1, dtype=torch.float64), None, ones)[0], torch.ones(1, 4, 6, dtype=torch.float64)
    )


def test_weight_drop_in_a_stack_is_the_same_at_every_step():
    torch.manual_seed(0)
    bottom, top = Elman(1, 6, nonlinearity="relu"), Elman(6, 6, nonlinearity="relu", weight_drop=0.5)
    with torch.no_grad():
        for parameter in [*bottom.parameters(), *top.parameters()]:
            parameter.zero_()
        top.hidden_weight.copy_(torch.eye(6))
    layer = Recurrent(StackedCell([bottom, top]))
    start = layer.initial_state(1, Memory(None, None, (torch.zeros(1, 6), torch.ones(1, 6))), like=top.bias)
    y, _ = layer(torch.zeros(1, 4, 1), None, start)
    assert torch.equal(y[0] > 0, (y[0, :1] > 0).expand(4, -1))


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(
        UserError, match=r"unknown nonlinearity 'tan'; did you mean 'tanh'\? known: relu, sigmoid, tanh"
    ):
        Elman(2, 3, nonlinearity="tan")
    with pytest.raises(UserError, match="unknown cell_output 'none'; known: identity, tanh"):
        LSTM(2, 3, cell_output="none")
    with pytest.raises(
        UserError, match=r"a residual connection adds its input \(2 wide\) to its output \(3 wide\); make them equal"
    ):
        ResidualCell(GRU(2, 3))
    with pytest.raises(UserError, match="a cell's widths must be at least 1, not input_dim=0, dim=3"):
        GRU(0, 3)
    with pytest.raises(UserError, match="unknown reset 'befor'; did you mean 'before'[?] known: after, before"):
        GRU(2, 3, reset="befor")
    with pytest.raises(UserError, match="unknown dropout_kind 'plane'; did you mean 'plain'"):
        DroppedCell(GRU(2, 3), 0.5, "plane")
    for share in (-0.1, 1.0, 7.0):
        with pytest.raises(UserError, match=rf"weight_drop \({share}\) must be at least 0 and below 1"):
            GRU(2, 3, weight_drop=share)
    with pytest.raises(UserError, match="a cell of width 3 cannot feed one that takes 4; make the two equal"):
        StackedCell([Elman(2, 3), Elman(4, 3)])
