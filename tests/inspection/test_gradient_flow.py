from copy import deepcopy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import clew
from clew.inspection.gradient_flow import (
    choose_ends,
    clip_factor,
    input_gradients,
    reach,
    state_gradients,
    token_losses,
    with_gradients,
)
from clew.instruments.spectra import recurrent_matrices, spectrum
from clew.layers.cells import CELLS, Elman
from clew.layers.recurrent import Recurrent
from tests.instruments.small_runs import small_run
from tests.references.gradient_flow import elman_gradients

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


def double(name: str):
    torch.manual_seed(0)
    task = deepcopy(small_run(name).task).double()
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.normal_(std=0.5)
    return task


def step_of(task):
    ids = torch.tensor([TOKENS])

    def step(t, state):
        hidden, state = task.body(ids[:, t : t + 1], None, state)
        return token_losses(task.logits(hidden)[0].log_softmax(-1), ids[0, t + 1 : t + 2])[0], state

    return step


def test_past_gradients_of_an_elman_network_are_products_of_jacobians() -> None:
    task = double("elman")
    with with_gradients(task):
        gradients = state_gradients(step_of(task), task.initial_state(1), [6, 9], 5)
    cell = task.body.layers.layers[0].layer.cell
    names = {
        "embedding": task.body.embedding.tokens.weight,
        "W": cell.input_weight,
        "U": cell.hidden_weight,
        "b": cell.bias,
        "V": task.weight,
        "a": task.output_bias,
    }
    numbers = {name: value.detach().numpy() for name, value in names.items()}
    for row, t in enumerate([6, 9]):
        np.testing.assert_allclose(gradients["0.h"][row].numpy(), elman_gradients(numbers, TOKENS, t, 5), rtol=1e-9)


def test_past_gradients_of_a_cell_without_feedback_are_products_of_forget_gates() -> None:
    task = double("lstm")
    with torch.no_grad():
        task.body.layers.layers[0].layer.cell.hidden_weight.zero_()
    with torch.no_grad(), clew.record(task, "*.gates.*", "*.cell_state") as recorded:
        hidden, _ = task.body(torch.tensor([TOKENS[:-1]]))
    forget, output, cell = (recorded[f"*.{name}"][0] for name in ("gates.forget", "gates.output", "cell_state"))
    errors = task.logits(hidden)[0, 9].softmax(-1) - F.one_hot(torch.tensor(TOKENS[10]), task.body.vocabulary)
    by_cell = (errors @ task.weight) * output[9] * (1 - cell[9].tanh() ** 2)
    with with_gradients(task):
        gradients = state_gradients(step_of(task), task.initial_state(1), [9], 4)
    for k in range(5):
        expected = by_cell * forget[10 - k : 10].prod(0)
        assert gradients["0.c"][0, k].item() == pytest.approx(expected.norm().item(), rel=1e-9)
    assert gradients["0.h"][0, 1:].eq(0).all()  # h goes to the output, not to the next step


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_gradients_by_the_input_equal_finite_differences(name: str) -> None:
    """Central differences along the gradient itself."""
    task = double(name)
    x = torch.randn(1, 10, task.body.embedding.dim, dtype=torch.double, requires_grad=True)

    def loss(x, t):
        hidden, _ = task.body.layers(x)
        return token_losses(task.logits(task.body.norm(hidden))[0].log_softmax(-1), torch.tensor(TOKENS[1:]))[t]

    with with_gradients(task):
        gradients = input_gradients([loss(x, 8)], x, [8], 6)
        (gradient,) = torch.autograd.grad(loss(x, 8), x)
    for k in (0, 3, 6):
        along = torch.zeros_like(x)
        along[0, 8 - k] = gradient[0, 8 - k] / gradient[0, 8 - k].norm()
        with torch.no_grad():
            slope = (loss(x + 1e-5 * along, 8) - loss(x - 1e-5 * along, 8)) / 2e-5
        assert gradients[0, k].item() == pytest.approx(slope.item(), rel=1e-5)


def test_the_reach_is_the_last_step_above_the_threshold() -> None:
    curve = torch.tensor([2.0, 1.0, 0.1, 0.019, 0.5], dtype=torch.double)
    assert reach(curve) == (3, 1.0)
    assert reach(curve, 0.001) == (None, 1.0)
    assert reach(torch.tensor([1.0, 3.0, 9.0], dtype=torch.double)) == (None, 9.0)  # it explodes
    assert reach(torch.zeros(3, dtype=torch.double)).steps == 0


def test_chosen_ends_have_enough_steps_before_them() -> None:
    ends, steps = choose_ends(100, 40, 4)
    assert steps == 40 and ends[0] == 40 and ends[-1] == 99 and len(ends) == 4
    ends, steps = choose_ends(5, 40, 10)
    assert steps == 2 and ends == [2, 3, 4]


def test_a_gradient_is_clipped_to_the_allowed_norm() -> None:
    w = torch.tensor([3.0, 4.0], requires_grad=True)
    losses = (w * torch.tensor([[6.0, 8.0], [0.0, 0.0]])).sum(1)
    assert clip_factor([w], losses, 1.0) == pytest.approx((5.0, 0.2))
    assert clip_factor([w], losses, 10.0) == pytest.approx((5.0, 1.0))
    assert clip_factor([w], losses, None) == pytest.approx((5.0, 1.0))


def test_a_rotation_has_singular_values_and_radius_of_its_scale() -> None:
    angle = 0.3
    turn = 0.9 * torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    values = spectrum(turn)
    assert values.singular_values.tolist() == pytest.approx([0.9, 0.9])
    assert values.radius == pytest.approx(0.9)
    sheared = spectrum(torch.tensor([[0.5, 7.0], [0.0, 0.25]], dtype=torch.double))
    assert sheared.radius == pytest.approx(0.5)
    assert sheared.singular_values.prod().item() == pytest.approx(0.125)


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_has_a_recurrent_matrix_for_each_gate(name: str) -> None:
    cell = CELLS[name](3, 4)
    matrices = recurrent_matrices(cell)
    gates = [gate for gate, _ in cell.gates.named_children()] if hasattr(cell, "gates") else ["hidden"]
    assert list(matrices) == gates
    if name == "lstm":
        torch.testing.assert_close(matrices["forget"], cell.hidden_weight[4:8].double())
    if name == "projected_lstm":
        torch.testing.assert_close(matrices["output"], cell.projection.double() @ cell.hidden_weight[-16:].double())


def test_a_recurrent_matrix_beyond_one_makes_gradients_explode() -> None:
    """While the rectifier passes everything, J = U = 1.5 I: the gradient grows by half at every step."""
    layer = Recurrent(Elman(2, 2, nonlinearity="relu")).double()
    with torch.no_grad():
        layer.cell.hidden_weight.copy_(1.5 * torch.eye(2))
        layer.cell.bias.fill_(5.0)
    x = torch.zeros(1, 8, 2, dtype=torch.double)

    def step(t, state):
        y, state = layer(x[:, t : t + 1], None, state)
        return y.sum(), state

    with with_gradients(layer):
        norms = state_gradients(step, layer.initial_state(1, like=x), [7], 6)["0.h"][0]
    assert norms.tolist() == pytest.approx([2**0.5 * 1.5**k for k in range(7)])
    assert reach(norms) == (None, pytest.approx(1.5**6))
