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


def test_a_triggered_average_starts_when_an_evaluation_is_worse_than_the_best_before_the_last_few() -> None:
    """With a patience of 2: at 4.5 the values before the last two are 6 and 5, at 5.5 they are 6, 5 and 4."""
    average = Triggered(one_weight(0.0), patience=2)
    started = []
    for value in (6.0, 5.0, 4.0, 4.8, 4.5, 5.5):
        average.observe(value)
        started.append(average.active)
    assert started == [False, False, False, False, False, True]


def test_a_triggered_average_is_the_plain_mean_of_what_came_after() -> None:
    task = one_weight(100.0)
    average = Triggered(task, patience=1)
    average.update()
    for value in (2.0, 1.0, 3.0):
        average.observe(value)
    for value in (1.0, 5.0, 9.0):
        set_to(task, value)
        average.update()
    assert average.means["weight"].item() == pytest.approx(5.0)


def test_the_task_has_the_averages_inside_the_context_and_its_own_weights_after_it() -> None:
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
def test_impossible_averages_are_refused(build, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        build()
