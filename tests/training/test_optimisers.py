import pytest
import torch
from torch import nn

from clew.training.observers import Best
from clew.training.optimisers import OPTIMISERS, adam, adamw, sgd


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.full((2, 2), 4.0)), nn.Parameter(torch.full((2,), 4.0)), nn.Parameter(torch.tensor(4.0))]


def test_adamw_decays_matrices_and_nothing_else() -> None:
    matrix, vector, scalar = given = parameters()
    optimiser = adamw(given, 0.1, weight_decay=0.5)
    for parameter in given:
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    assert torch.equal(matrix, torch.full((2, 2), 4.0 * (1 - 0.1 * 0.5)))
    assert torch.equal(vector, torch.full((2,), 4.0))
    assert scalar.item() == 4.0


def test_adamw_without_a_vector_has_one_group() -> None:
    assert len(adamw([parameters()[0]], 0.1).param_groups) == 1


def test_sgd_with_momentum_steps_as_by_hand() -> None:
    weight = nn.Parameter(torch.tensor(1.0))
    optimiser = sgd([weight], 0.1, momentum=0.5)
    for _ in range(2):
        weight.grad = torch.tensor(2.0)
        optimiser.step()
    assert weight.item() == pytest.approx(1.0 - 0.1 * 2.0 - 0.1 * (0.5 * 2.0 + 2.0))


@pytest.mark.parametrize("build", [adam, adamw])
def test_the_first_step_of_adam_is_the_learning_rate_whatever_the_gradient(build) -> None:
    weight = nn.Parameter(torch.tensor([1.0, 1.0]))
    optimiser = build([weight], 0.25)
    weight.grad = torch.tensor([1e-3, -1e3])
    optimiser.step()
    torch.testing.assert_close(weight.detach(), torch.tensor([0.75, 1.25]))


def test_every_optimiser_lowers_a_parabola() -> None:
    for name, build in OPTIMISERS.items():
        weight = nn.Parameter(torch.tensor([3.0]))
        optimiser = build([weight], 0.1)
        for _ in range(100):
            optimiser.zero_grad()
            (weight**2).sum().backward()
            optimiser.step()
        assert abs(weight.item()) < 0.5, name


def test_best_counts_evaluations_without_a_better_one() -> None:
    best = Best(patience=2)
    assert [best.observe(value, step) for step, value in enumerate([3.0, 2.0, 2.0, float("nan")], start=1)] == [True, True, False, False]
    assert (best.value, best.step, best.is_exhausted) == (2.0, 2, True)
    other = Best(patience=2)
    other.load_state_dict(best.state_dict())
    assert other.is_exhausted and other.value == 2.0
    assert not Best().is_exhausted
