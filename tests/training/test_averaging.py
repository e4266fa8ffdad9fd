import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.training.averaging import Exponential, Triggered


def one_weight(value: float) -> nn.Module:
    task = nn.Module()
    task.weight = nn.Parameter(torch.tensor([value], dtype=torch.float64))
    return task


def set_to(task: nn.Module, value: float) -> None:
    with torch.no_grad():
        task.weight.fill_(value)


def test_a_moving_average_follows_its_equation() -> None:
    task = one_weight(1.0)
    average = Exponential(task, decay=0.5)
    expected = 1.0
    for step, value in enumerate((3.0, -1.0, 8.0, 2.0), 1):
        set_to(task, value)
        average.update()
        decay = min(0.5, step / (9 + step))
        expected = decay * expected + (1 - decay) * value
    assert average.means["weight"].item() == pytest.approx(expected, rel=1e-12)


def test_a_triggered_average_starts_once_evaluations_stop_improving() -> None:
    """With a patience of 2, a value triggers if it is worse than the best before the last two: 5.5 after 6, 5 and 4."""
    average = Triggered(one_weight(0.0), patience=2)
    started = []
    for value in (6.0, 5.0, 4.0, 4.8, 4.5, 5.5):
        average.observe(value)
        started.append(average.active)
    assert started == [False, False, False, False, False, True]


def test_a_triggered_average_is_the_plain_mean_of_later_weights() -> None:
    task = one_weight(100.0)
    average = Triggered(task, patience=1)
    average.update()
    for value in (2.0, 1.0, 3.0):
        average.observe(value)
    for value in (1.0, 5.0, 9.0):
        set_to(task, value)
        average.update()
    assert average.means["weight"].item() == pytest.approx(5.0)


def test_in_place_swaps_averages_in_and_restores_the_weights() -> None:
    task = one_weight(1.0)
    average = Exponential(task, decay=0.0)
    average.means["weight"].fill_(7.0)
    with pytest.raises(ZeroDivisionError), average.in_place():
        assert task.weight.item() == 7.0
        raise ZeroDivisionError
    assert task.weight.item() == 1.0
    assert average.means["weight"].item() == 7.0


def test_frozen_weights_are_not_averaged() -> None:
    task = one_weight(1.0)
    task.weight.requires_grad_(False)
    assert Exponential(task).means == {}


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: Exponential(one_weight(0.0), decay=1.0),
            r"the decay of a moving average \(1.0\) must be at least 0 and below 1",
        ),
        (lambda: Triggered(one_weight(0.0), patience=0), "patience of a triggered average .0. must be at least 1"),
    ],
)
def test_invalid_averages_are_rejected(build, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        build()
