import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.core.state import detach_state
from clew.core.taps import watching
from clew.kernels import choose, only_equations
from clew.layers.attention import SelfAttention
from clew.layers.cells import CELLS, GRU, LSTM, Elman
from clew.layers.recurrent import Backward, Bidirectional, Recurrent
from clew.layers.sequence import Stack
from tests.references.agreement import randn, randomise


def test_a_bidirectional_lstm_equals_torch_on_rows_of_different_lengths():
    layer = Bidirectional(Recurrent(randomise(LSTM(3, 4), 0)), Recurrent(randomise(LSTM(3, 4), 1)))
    theirs = nn.LSTM(3, 4, batch_first=True, bidirectional=True).double()
    with torch.no_grad():
        for suffix, reader in (("", layer.forward_layer), ("_reverse", layer.backward_layer)):
            getattr(theirs, f"weight_ih_l0{suffix}").copy_(reader.cell.input_weight)
            getattr(theirs, f"weight_hh_l0{suffix}").copy_(reader.cell.hidden_weight)
            getattr(theirs, f"bias_ih_l0{suffix}").copy_(reader.cell.bias)
            getattr(theirs, f"bias_hh_l0{suffix}").zero_()
    x, lengths = randn(3, 6, 3), torch.tensor([6, 2, 4])
    mask = torch.arange(6) < lengths[:, None]
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, (hidden, cell) = theirs(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)
    y, (ahead, back) = layer(x, mask)
    torch.testing.assert_close(y[mask], expected[mask])
    for state, h, c in zip((ahead, back), hidden, cell, strict=True):
        torch.testing.assert_close(state.cell.hidden, h)
        torch.testing.assert_close(state.cell.cell, c)


def test_a_backward_reader_is_the_backward_half_of_two_readers():
    ahead, back = Recurrent(randomise(GRU(3, 4))), Recurrent(randomise(GRU(3, 4), 1))
    x, mask = randn(3, 6, 3), torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    joined, (_, state) = Bidirectional(ahead, back)(x, mask)
    y, ended = Backward(back)(x, mask)
    assert torch.equal(y, joined[..., 4:]) and torch.equal(ended.cell, state.cell)
    with pytest.raises(UserError, match="Backward sees the whole sequence at once, so it cannot continue from a state"):
        Backward(back)(x, mask, ended)


def test_two_stacks_joined_at_the_top_are_independent_below():
    """As in ELMo: the forward half must not change when the backward reader does."""
    ahead = Stack([Recurrent(randomise(LSTM(3, 4))), Recurrent(randomise(LSTM(4, 4), 1))])
    x = randn(2, 5, 3)
    halves = [Bidirectional(ahead, Stack([Recurrent(randomise(LSTM(3, 4), seed))]))(x)[0] for seed in (2, 3)]
    assert torch.equal(halves[0][..., :4], halves[1][..., :4])
    assert not torch.allclose(halves[0][..., 4:], halves[1][..., 4:])


def test_the_backward_reader_of_a_bidirectional_layer_sees_the_future():
    layer = Bidirectional(Recurrent(randomise(Elman(1, 2))), Recurrent(randomise(Elman(1, 2), 1)))
    x = randn(1, 4, 1).requires_grad_()
    y, _ = layer(x)
    (gradient,) = torch.autograd.grad(y[0, 0, 2:].sum(), x)
    assert bool((gradient[0, :, 0] != 0).all())
    (gradient,) = torch.autograd.grad(layer(x)[0][0, 0, :2].sum(), x)
    assert torch.equal(gradient[0, 1:, 0], torch.zeros(3, dtype=torch.float64))


def test_a_bidirectional_layer_rejects_a_state():
    layer = Bidirectional(Recurrent(Elman(1, 2)), Recurrent(Elman(1, 2)))
    with pytest.raises(
        UserError, match="Bidirectional sees the whole sequence at once, so it cannot continue from a state"
    ):
        layer(torch.zeros(1, 1, 1), None, ())


@pytest.mark.parametrize("name", CELLS)
def test_truncation_cuts_gradients_and_not_values(name):
    layer = Recurrent(randomise(CELLS[name](2, 3)))
    x = randn(2, 6, 2).requires_grad_()
    whole, _ = layer(x)
    first, state = layer(x[:, :3])
    second, _ = layer(x[:, 3:], None, detach_state(state))
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    (gradient,) = torch.autograd.grad(second.sum(), x)
    assert torch.equal(gradient[:, :3], torch.zeros(2, 3, 2, dtype=torch.float64))


def test_recorded_gates_are_stacked_in_reading_order_in_both_directions():
    layer = Bidirectional(Recurrent(randomise(LSTM(1, 2))), Recurrent(randomise(LSTM(1, 2), 1)))
    x, mask = randn(2, 5, 1), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    recorded: dict[str, list] = {"ahead": [], "back": []}
    taps = {
        layer.forward_layer.cell.hidden: recorded["ahead"].append,
        layer.backward_layer.cell.hidden: recorded["back"].append,
    }
    with watching(taps):
        y, _ = layer(x, mask)
    assert [len(values) for values in recorded.values()] == [1, 1]
    torch.testing.assert_close(torch.cat([recorded["ahead"][0], recorded["back"][0]], -1)[mask], y[mask])


def test_a_reader_inside_a_backward_reader_is_recorded_in_reading_order():
    inner = Bidirectional(Recurrent(randomise(Elman(1, 2))), Recurrent(randomise(Elman(1, 2), 1)))
    layer = Bidirectional(Recurrent(randomise(Elman(1, 4), 2)), inner)
    recorded: list = []
    with watching({inner.backward_layer.cell.hidden: recorded.append}):
        y, _ = layer(randn(1, 5, 1))
    torch.testing.assert_close(recorded[0], y[..., -2:])


def test_a_stacks_levels_are_its_input_and_every_layers_output():
    stack = Stack([Recurrent(randomise(Elman(2, 3))), Recurrent(randomise(Elman(3, 3), 1))])
    x = randn(1, 4, 2)
    levels, _ = stack.levels(x)
    assert levels[0] is x
    torch.testing.assert_close(levels[1], stack.layers[0](x)[0])
    torch.testing.assert_close(levels[2], stack(x)[0])


def test_a_stack_with_a_non_causal_layer_rejects_a_state():
    stack = Stack([Recurrent(Elman(2, 4)), SelfAttention(4, 2, causal=False)])
    x = torch.zeros(1, 3, 2)
    _, state = stack(x)
    with pytest.raises(UserError, match="Stack sees the whole sequence at once, so it cannot continue from a state"):
        stack(x, None, state)


@pytest.mark.parametrize("cell", [LSTM, GRU, Elman])
def test_dropped_weights_run_fused_and_are_sampled_once_per_chunk(cell):
    layer = Recurrent(randomise(cell(2, 5, weight_drop=0.5)))
    x = randn(3, 7, 2)
    assert choose(layer.cell.kernel, layer.cell) is not None

    def run():
        torch.manual_seed(4)
        y, _ = layer(x)
        return y, *torch.autograd.grad(y.square().sum(), list(layer.cell.parameters()))

    fused = run()
    with only_equations():
        equation = run()
    for ours, theirs in zip(fused, equation, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    torch.manual_seed(4)
    dropped = layer.cell.dropped_hidden_weight() == 0
    gradient = dict(zip(dict(layer.cell.named_parameters()), fused[1:], strict=True))["hidden_weight"]
    assert bool(dropped.any()) and not gradient[dropped].any(), "a weight that is dropped is dropped at every step"
    torch.manual_seed(5)
    assert not torch.equal(layer(x)[0], layer(x)[0])
