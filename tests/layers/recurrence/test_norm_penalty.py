"""The norm-preserving penalty against its definition: full Jacobians by autograd, for each row and step, in float64."""

import math

import pytest
import torch
from torch import Tensor, nn

from clew.core.state import leaves, with_leaves
from clew.core.types import Memory
from clew.layers.attentive import AttentiveCell
from clew.layers.cells import CELLS, Cell, Elman
from clew.layers.recurrence.lstm_cells import LSTMState
from clew.layers.recurrence.norm_penalty import Steps, penalty_of_rows, recording_steps
from clew.layers.recurrent import Bidirectional, Recurrent, unbind_steps
from clew.layers.scores import SCORES
from tests.references.agreement import randn, randomise


def flat(state: object) -> Tensor:
    return torch.cat(leaves(state), -1)


def unflat(vector: Tensor, like: object) -> object:
    return with_leaves(like, vector.split([leaf.shape[-1] for leaf in leaves(like)], -1))


def error_of(y: Tensor) -> Tensor:
    """An error that depends on the output of every step."""
    return (y.sin() * randn(*y.shape, seed=9)).sum()


def reference(cell: Cell, x: Tensor, lengths: list[int]) -> tuple[list[Tensor], list[float]]:
    """Omega's gradient by each weight, and its value for each row: mean_k (|v J| / |v| - 1)^2 with J = d f(s, u;
    weights) / d s as a full matrix, and v = dE / ds by perturbing the state itself."""
    weights = list(cell.parameters())
    gradients, values = [torch.zeros_like(weight) for weight in weights], []
    for row, length in enumerate(lengths):
        inputs = unbind_steps(cell.inputs(x[row : row + 1, :length]), length)
        states = [cell.initial_state(1, like=x)]
        for step in inputs:
            states.append(cell(step, states[-1])[1])
        states = [with_leaves(state, [leaf.detach() for leaf in leaves(state)]) for state in states]
        draws = randn(*x.shape[:2], cell.dim, seed=9)[row, :length]

        def error_from(vector: Tensor, start: int, states=states, inputs=inputs, draws=draws, length=length) -> Tensor:  # type: ignore[no-untyped-def]
            """The part of E that depends on the state after step `start`, including that step's own output."""
            state = unflat(vector[None], states[0])
            total = (leaves(state)[0][0].sin() * draws[start]).sum()
            for t in range(start + 1, length):
                y, state = cell(inputs[t], state)
                total = total + (y[0].sin() * draws[t]).sum()
            return total

        omegas = []
        for k in range(1, length):
            after = flat(states[k + 1])[0]
            v = torch.autograd.functional.jacobian(lambda s, k=k: error_from(s, k), after)
            at = flat(states[k])[0]
            step = unbind_steps(cell.inputs(x[row : row + 1, :length].detach()), length)[k]
            jacobian = torch.autograd.functional.jacobian(
                lambda s, step=step, like=states[0]: flat(cell(step, unflat(s[None], like))[1])[0],
                at,
                create_graph=True,
            )
            omegas.append(((v.detach() @ jacobian).norm() / v.norm() - 1) ** 2)
        omega = sum(omegas) / max(len(omegas), 1) if omegas else torch.zeros(())
        values.append(omega.item())
        if omegas:
            slopes = torch.autograd.grad(omega, weights, allow_unused=True)
            gradients = [total if new is None else total + new for total, new in zip(gradients, slopes, strict=True)]
    return gradients, values


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("padded", [False, True])
def test_the_penalty_and_its_gradient_equal_those_of_full_jacobians(name: str, padded: bool) -> None:
    cell = randomise(CELLS[name](2, 3))
    layer, x = Recurrent(cell), randn(3, 5, 2)
    lengths = [5, 3, 1] if padded else [5, 5, 5]
    mask = torch.arange(5) < torch.tensor(lengths)[:, None] if padded else None
    recorded_steps: list[Steps] = []
    with recording_steps(recorded_steps):
        y, _ = layer(x, mask)
    y = y if mask is None else y.masked_fill(~mask[..., None], 0.0)
    omega = penalty_of_rows(error_of(y), recorded_steps)
    gradients, values = reference(cell, x, lengths)
    torch.testing.assert_close(omega, torch.tensor(values, dtype=torch.float64))
    actual = torch.autograd.grad(omega.sum(), list(cell.parameters()), allow_unused=True)
    for each, expected in zip(actual, gradients, strict=True):
        torch.testing.assert_close(torch.zeros_like(expected) if each is None else each, expected)


def test_one_step_of_an_elman_cell_by_hand() -> None:
    """Omega = (|u (1 - h_2^2)| - 1)^2 for one unit, for any error."""
    cell = Elman(1, 1).double()
    with torch.no_grad():
        cell.input_weight.fill_(0.5)
        cell.hidden_weight.fill_(1.7)
        cell.bias.fill_(0.0)
    recorded_steps: list[Steps] = []
    with recording_steps(recorded_steps):
        y, _ = Recurrent(cell)(torch.tensor([[[1.0], [2.0]]], dtype=torch.float64))
    omega = penalty_of_rows(3 * y.sum(), recorded_steps)
    second = math.tanh(1.0 + 1.7 * math.tanh(0.5))
    assert omega.item() == pytest.approx((1.7 * (1 - second**2) - 1) ** 2)


def test_the_penalty_gives_inputs_no_gradient_and_changes_no_output() -> None:
    layer, x = Recurrent(randomise(CELLS["lstm"](2, 3))), randn(2, 4, 2).requires_grad_()
    recorded_steps: list[Steps] = []
    with recording_steps(recorded_steps):
        y, state = layer(x)
    plain, plain_state = layer(x)
    torch.testing.assert_close(y, plain)
    torch.testing.assert_close(state.cell.cell, plain_state.cell.cell)
    assert isinstance(state.cell, LSTMState)
    assert torch.autograd.grad(penalty_of_rows(error_of(y), recorded_steps).sum(), x, allow_unused=True) == (None,)


def test_documents_do_not_continue_each_other() -> None:
    layer, x = Recurrent(randomise(CELLS["gru"](2, 3))), randn(1, 6, 2)
    recorded_steps: list[Steps] = []
    with recording_steps(recorded_steps):
        y, _ = layer(x, torch.tensor([[1, 1, 1, 2, 2, 2]]))
    together = penalty_of_rows(error_of(y), recorded_steps).item()
    apart = []
    for part in (slice(0, 3), slice(3, 6)):
        each: list[Steps] = []
        with recording_steps(each):
            y, _ = layer(x[:, part])
        apart.append(penalty_of_rows((y.sin() * randn(1, 6, 3, seed=9)[:, part]).sum(), each).item())
    assert together == pytest.approx(sum(apart) / 2)


def test_both_readers_are_summed_and_cells_around_attention_are_skipped() -> None:
    ahead, back = (Recurrent(randomise(CELLS["lstm"](2, 3), seed)) for seed in (0, 1))
    layer: nn.Module = Bidirectional(ahead, back)
    recorded_steps: list[Steps] = []
    with recording_steps(recorded_steps):
        y, _ = layer(randn(2, 4, 2))
    assert len(recorded_steps) == 2 and all(steps.is_fit for steps in recorded_steps)
    error = error_of(y)
    torch.testing.assert_close(
        penalty_of_rows(error, recorded_steps),
        penalty_of_rows(error, recorded_steps[:1]) + penalty_of_rows(error, recorded_steps[1:]),
    )
    attentive = Recurrent(AttentiveCell(2, 3, CELLS["gru"](5, 4), SCORES["general"](4, 3))).double()
    memory = Memory(randn(2, 5, 3), None, None)
    recorded_steps = []
    with recording_steps(recorded_steps):
        y, _ = attentive(randn(2, 4, 2), None, attentive.initial_state(2, memory, like=randn(1)))
    assert not recorded_steps[0].is_fit and penalty_of_rows(y.sum(), recorded_steps).sum().item() == 0.0
