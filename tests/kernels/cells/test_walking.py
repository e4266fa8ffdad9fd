"""The written-out walk over a sequence against the equation under autograd, in float64."""

import logging

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from clew.core.errors import UserError
from clew.core.state import leaves, map_tree, where_rows
from clew.core.types import Fixed
from clew.kernels import only_equations
from clew.kernels.cells import plans, walking, written_out
from clew.kernels.cells.tracing import trace_step
from clew.kernels.cells.written_out import walk_written_out
from clew.layers.cells import CELLS, Cell
from clew.layers.recurrence.nested_cells import DroppedCell
from clew.layers.recurrent import Recurrent, RecurrentState, unbind_steps
from tests.kernels.cells.built import BUILT
from tests.kernels.cells.own_cells import OWN, Leaky

MASKS = {
    "whole": None,
    "ragged": torch.arange(7) < torch.tensor([[7], [3], [1]]),
    "empty": torch.arange(7) < torch.tensor([[0], [7], [2]]),
}


def drawn(build, length: int = 7):
    torch.manual_seed(3)
    cell = build(5, 6).double()
    x = torch.randn(3, length, cell.input_dim, dtype=torch.double, requires_grad=True)
    state = map_tree(lambda leaf: torch.randn_like(leaf).requires_grad_(), cell.initial_state(3, like=x))
    return cell, x, state


def looped(cell, inputs, real, state):
    outputs = []
    for t, step in enumerate(unbind_steps(inputs, len(leaves(inputs, keep=(Fixed,))[0][0]))):
        y, new = cell(step, state)
        state = new if real is None else where_rows(real[:, t], new, state)
        outputs.append(y)
    return torch.stack(outputs, 1), state


def with_gradients(y, state, real, tensors):
    y = y if real is None else torch.where(real[..., None], y, 0.0)
    loss = y.sin().sum() + sum((place + 1.5) * each.cos().sum() for place, each in enumerate(leaves(state)))
    gradients = torch.autograd.grad(loss, tensors, retain_graph=True, allow_unused=True)
    return [
        y,
        *leaves(state),
        *(torch.zeros_like(x) if g is None else g for x, g in zip(tensors, gradients, strict=True)),
    ]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", BUILT)
def test_values_and_gradients_are_those_of_the_equation(name, mask):
    cell, x, state = drawn(BUILT[name])
    inputs, real = cell.inputs(x), MASKS[mask]
    tensors = [x, *leaves(state), *cell.parameters()]
    expected = with_gradients(*looped(cell, inputs, real, state), real, tensors)
    actual = with_gradients(*walk_written_out(trace_step(cell, inputs, state), real), real, tensors)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_a_gradient_of_a_gradient_is_refused():
    cell, x, state = drawn(BUILT["lstm"])
    y, _ = walk_written_out(trace_step(cell, cell.inputs(x), state), None)
    with pytest.raises(
        UserError,
        match=r"this recurrence runs on a kernel whose gradient cannot be differentiated again \(create_graph=True\);"
        r" run it inside `with clew.kernels.only_equations\(\):`",
    ):
        torch.autograd.grad(y.sum(), x, create_graph=True)


@pytest.mark.parametrize("name", ["peephole_lstm", "RowMasked", "Clipped", "Normed", "Shared"])
def test_gradients_are_those_of_differences(name):
    cell, x, state = drawn(BUILT[name], length=3)
    cell.eval()
    real = torch.arange(3) < torch.tensor([[3], [2], [1]])

    def outputs(x, *states):
        each = iter(states)
        y, after = walk_written_out(
            trace_step(cell, inputs := cell.inputs(x), map_tree(lambda _: next(each), state)), real
        )
        assert inputs is not None
        return torch.where(real[..., None], y, 0.0), *leaves(after)

    assert torch.autograd.gradcheck(outputs, (x, *leaves(state)))


@pytest.mark.parametrize(
    "name", ["peephole_lstm", "coupled_lstm", "elman sigmoid", "lstm identity", "Leaky", "Joined", "Shared"]
)
def test_a_layer_walks_and_gives_what_its_equation_gives(name, caplog):
    cell, x, state = drawn(BUILT[name])
    layer, mask = Recurrent(cell.eval()), MASKS["ragged"]
    before = RecurrentState(state, torch.zeros(3, dtype=torch.long))
    tensors = [x, *leaves(state), *cell.parameters()]

    def run() -> list[torch.Tensor]:
        y, after = layer(x, mask, before)
        return [y, *with_gradients(y, after.cell, mask, tensors)]

    y, *actual = run()
    assert type(y.grad_fn).__name__ == "_WalkBackward"
    with only_equations():
        y, *expected = run()
    assert type(y.grad_fn).__name__ != "_WalkBackward"
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["peephole_lstm", "Leaky"])
def test_nothing_is_read_from_padding(name):
    cell, x, state = drawn(BUILT[name])
    layer, mask, before = (
        Recurrent(cell.eval()),
        MASKS["ragged"],
        RecurrentState(state, torch.zeros(3, dtype=torch.long)),
    )
    parameters = list(cell.parameters())
    clean, after = layer(x, mask, before)
    spoiled, again = layer(torch.where(mask[..., None], x, torch.nan), mask, before)
    assert torch.equal(clean[mask], spoiled[mask]) and all(map(torch.equal, leaves(after.cell), leaves(again.cell)))
    gradients = (torch.autograd.grad(y[mask].sum(), parameters) for y in (clean, spoiled))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_chunks_carry_the_state():
    cell, x, state = drawn(OWN["Shared"])
    layer, before = Recurrent(cell), RecurrentState(state, torch.zeros(3, dtype=torch.long))
    whole, end = layer(x, None, before)
    first, between = layer(x[:, :3], None, before)
    second, after = layer(x[:, 3:], None, between)
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    torch.testing.assert_close(after.cell, end.cell)


def test_under_autocast_it_is_in_the_weights_own_type():
    layer, x = Recurrent(CELLS["peephole_lstm"](5, 6)), torch.randn(2, 4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = layer(x)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, layer(x)[0])


def test_a_chunk_without_rows_is_that_of_the_loop():
    layer, x = Recurrent(Leaky(5, 6)), torch.randn(0, 4, 5)
    y, after = layer(x)
    assert y.shape == (0, 4, 6) and after.cell.shape == (0, 6)
    y.sum().backward()
    assert all(torch.equal(each.grad, torch.zeros_like(each)) for each in layer.parameters())


class Halved(Leaky):
    """h' = f(x, h) + U h / 2, where `inputs` computes U / 2."""

    def inputs(self, x):
        return self.input(x), Fixed(self.recurrent.weight / 2)

    def forward(self, inputs, state):
        hidden = super().forward(inputs[0], state)[1] + F.linear(state, inputs[1].value)
        return hidden, hidden


def test_a_weight_computed_in_inference_mode_is_walked(monkeypatch):
    monkeypatch.setattr(walking, "_agreement", {})
    layer, x = Recurrent(Halved(5, 6)), torch.randn(2, 4, 5)
    with torch.inference_mode():
        y, _ = layer(x)
    trained, _ = layer(x)
    assert type(trained.grad_fn).__name__ == "_WalkBackward"
    assert [key[-1] for key in walking._agreement] == [True, False] and all(walking._agreement.values())
    with only_equations():
        torch.testing.assert_close(torch.stack([y, trained]), layer(x)[0].expand(2, -1, -1, -1))


def test_what_needs_no_gradient_gets_none():
    cell, x, state = drawn(OWN["Leaky"])
    cell.recurrent.weight.requires_grad_(False)
    x, state = x.detach(), state.detach()
    y, _ = Recurrent(cell)(x, None, RecurrentState(state, torch.zeros(3, dtype=torch.long)))
    y.sum().backward()
    assert cell.recurrent.weight.grad is None and x.grad is None
    assert all(each.grad is not None for each in (cell.leak, cell.input.weight, cell.input.bias))
    with torch.no_grad():
        assert not Recurrent(cell)(x)[0].requires_grad


class Unsaid(Cell):
    """h' = softmax(x + h), of which there is no walk."""

    def forward(self, x, state):
        hidden = torch.softmax(x + state, -1)
        return hidden, hidden


def test_a_cell_without_a_walk_is_looped_and_debugging_says_why(caplog):
    caplog.set_level(logging.DEBUG, "clew")
    x = torch.randn(2, 4, 5)
    for _ in range(2):
        y, _ = Recurrent(Unsaid(5, 5))(x)
    with only_equations():
        assert torch.equal(y, Recurrent(Unsaid(5, 5))(x)[0])
    assert caplog.messages == ["the steps of a Unsaid run as a loop: it calls softmax, which is not supported"]


class Outer(Cell):
    """M' = 0.9 M + x x^T,  y = M' x: a matrix for a state (as the fast weights of Ba et al. 2016)."""

    def initial_state(self, batch_size, memory=None, *, like):
        return like.new_zeros(batch_size, self.dim, self.dim)

    def forward(self, x, state):
        matrix = 0.9 * state + x[:, :, None] * x[:, None]
        return (matrix @ x[:, :, None])[..., 0], matrix


class Counting(Cell):
    """n' = n + 1,  y = x / n': one number a row for a state."""

    def initial_state(self, batch_size, memory=None, *, like):
        return like.new_zeros(batch_size)

    def forward(self, x, state):
        count = state + 1
        return x / count[:, None], count


class Stateless(Cell):
    """y = tanh(x)."""

    def initial_state(self, batch_size, memory=None, *, like):
        return ()

    def forward(self, x, state):
        return torch.tanh(x), ()


@pytest.mark.parametrize("cell", [Outer, Counting, Stateless])
def test_cells_whose_state_is_no_vector_are_looped(cell):
    layer, x = Recurrent(cell(5, 5)), torch.randn(2, 4, 5)
    y, _ = layer(x)
    with only_equations():
        assert torch.equal(y, layer(x)[0])


def test_inputs_of_a_looped_cell_are_drawn_once():
    torch.manual_seed(1)
    cell, x = CELLS["gru"](5, 6, reset="before", weight_drop=0.5), torch.randn(2, 4, 5)
    torch.manual_seed(2)
    y, _ = Recurrent(cell)(x)
    torch.manual_seed(2)
    with only_equations():
        assert torch.equal(y, Recurrent(cell)(x)[0])


class BatchNormed(Leaky):
    """Leaky on BN(W x) (Laurent et al. 2016)."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__(input_dim, dim)
        self.norm = nn.BatchNorm1d(dim)

    def inputs(self, x):
        return self.norm(self.input(x).mT).mT


def test_the_trial_of_a_walk_leaves_running_statistics_as_they_were():
    layer, x = Recurrent(BatchNormed(5, 6)), torch.randn(2, 4, 5)
    with torch.no_grad():
        inputs = layer.cell.input(x)
    assert type(layer(x)[0].grad_fn).__name__ == "_WalkBackward"
    assert layer.cell.norm.num_batches_tracked == 1
    torch.testing.assert_close(layer.cell.norm.running_mean, 0.1 * inputs.mean((0, 1)))


class Rooted(Leaky):
    """A structure that no other test walks: it is compared here for the first time."""

    def forward(self, inputs, state):
        hidden = torch.tanh(super().forward(inputs, state)[1] * 0.7531)
        return hidden, hidden


def test_a_walk_that_gives_other_numbers_is_not_taken(monkeypatch, caplog):
    monkeypatch.setitem(plans.IN_STEPS, "tanh", torch.sin)  # as wrong as a fault would make it
    monkeypatch.setattr(walking, "_agreement", {})
    monkeypatch.setattr(written_out, "_plans", {})
    layer, x = Recurrent(Rooted(5, 6)), torch.randn(2, 4, 5)
    y, _ = layer(x)
    with only_equations():
        assert torch.equal(y, layer(x)[0])
    assert caplog.messages == ["a Rooted runs as a loop: its walk differs from its steps; this is a bug in clew"]


class Annealed(Leaky):
    """h' = tanh(s (W x + U h)), with another slope s in every call."""

    slope = 1.0

    def inputs(self, x):
        self.slope *= 1.01
        return super().inputs(x)

    def forward(self, inputs, state):
        hidden = torch.tanh(self.slope * (inputs + self.recurrent(state)))
        return hidden, hidden


def test_a_cell_with_another_number_in_every_call_is_soon_looped(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, "clew")
    monkeypatch.setattr(walking, "_agreement", {})
    monkeypatch.setattr(written_out, "_plans", {})
    layer, x = Recurrent(Annealed(5, 6)), torch.randn(2, 4, 5)
    is_walked = [type(layer(x)[0].grad_fn).__name__ == "_WalkBackward" for _ in range(walking.MOST_STRUCTURES + 4)]
    assert is_walked == [True] * walking.MOST_STRUCTURES + [False] * 4
    assert len(walking._agreement) == len(written_out._plans) == walking.MOST_STRUCTURES
    assert caplog.messages == ["a Annealed runs as a loop: its step has other numbers in every call"]
    x, slope = x[:1], layer.cell.slope
    y, _ = layer(x)
    layer.cell.slope = slope
    with only_equations():
        assert torch.equal(y, layer(x)[0])


def test_a_single_step_and_a_watched_cell_are_looped():
    layer = Recurrent(Leaky(5, 6))
    for x in (torch.randn(2, 1, 5), torch.randn(2, 4, 5)):
        y, _ = layer(x)
        assert (type(y.grad_fn).__name__ == "_WalkBackward") == (x.shape[1] > 1)
    assert isinstance(layer, nn.Module)


@pytest.mark.parametrize("name", ["peephole_lstm", "Clipped"])
def test_long_walks_in_float32_are_near_the_equation(name):
    torch.manual_seed(1)
    layer, x = Recurrent(BUILT[name](20, 64).eval()), torch.randn(16, 20, 20)

    def run() -> list[torch.Tensor]:
        y, _ = layer(x)
        return [y, *torch.autograd.grad(y.sin().sum(), list(layer.parameters()))]

    actual = run()
    with only_equations():
        expected = run()
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_a_cell_is_looped_while_a_hook_is_on_it_and_walked_after():
    layer, x, seen = Recurrent(Leaky(5, 6)), torch.randn(2, 4, 5), []
    handle = layer.cell.recurrent.register_forward_hook(lambda *_: seen.append(1))
    layer(x)
    assert len(seen) == 4
    handle.remove()
    assert type(layer(x)[0].grad_fn).__name__ == "_WalkBackward"


def test_a_cell_that_draws_in_training_is_walked_in_evaluation():
    layer, x = Recurrent(DroppedCell(CELLS["coupled_lstm"](5, 6), 0.5)), torch.randn(2, 4, 5)
    for _ in range(2):
        assert type(layer.train()(x)[0].grad_fn).__name__ != "_WalkBackward"
    assert type(layer.eval()(x)[0].grad_fn).__name__ == "_WalkBackward"
