"""Steps that are decided on the device and read later equal steps that the host reads at once. torch's fused optimisers
read the same flag on the CPU, so these tests run on any machine."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clew.core.batches import Batches
from clew.core.errors import UserError
from clew.core.state import leaves
from clew.core.types import State, Term
from clew.training.averaging import Exponential
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import adagrad, adam, adamw, sgd
from clew.training.records import MOST_SKIPPED, Progress, Record
from clew.training.schedules import Constant
from clew.training.skipping import lacks_momentum, reads_flag
from tests.thread.models import MODELS, batches_of, chunks_of, whole_batch
from tests.training.tasks import Adder, Rows, each

POISONED = {0: "loss", 3: "gradient", 4: "loss", 9: "loss", 10: "gradient"}
OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": sgd,
    "momentum": lambda parameters, rate: sgd(parameters, rate, momentum=0.9, weight_decay=0.01),
    "adam": adam,
    "adamw": adamw,
}


class Poisoned(nn.Module):
    """A language model with NaN in the loss of some steps, or infinity only in their gradient."""

    def __init__(self, poisons: dict[int, str]):
        super().__init__()
        self.task = MODELS["lstm"]()
        self.poisons = poisons
        self.step = -1
        self.counts = self.task.counts

    def forward(self, batch: Any, state: State = None) -> tuple[dict[str, Term], State]:
        self.step += 1
        terms, state = self.task(batch, state)
        loss: Tensor = terms["loss"].sum
        match self.poisons.get(self.step):
            case "loss":
                return {"loss": terms["loss"]._replace(sum=loss * math.nan)}, state
            case "gradient":
                loss.register_hook(lambda gradient: gradient * math.inf)
        return terms, state


def steps_of(
    name: str, look: bool, progress: Progress, poisons: dict[int, str] = POISONED
) -> tuple[Poisoned, torch.optim.Optimizer, Iterator[Record]]:
    torch.manual_seed(3)
    task = Poisoned(poisons)
    optimiser = OPTIMISERS[name](task.parameters(), 0.05)
    batches = batches_of(chunks_of(whole_batch("lstm", task.task), 5))
    return (
        task,
        optimiser,
        train(
            task,
            batches,
            optimiser,
            Constant(14),
            StepOptions(seed=1, carry=True, clip_norm=0.5, look=look),
            steps=14,
            progress=progress,
        ),
    )


def all_state(task: nn.Module, optimiser: torch.optim.Optimizer, progress: Progress) -> list[Tensor]:
    moments = [value for entries in optimiser.state.values() for value in entries.values() if isinstance(value, Tensor)]
    return [tensor.detach().clone() for tensor in (*task.state_dict().values(), *moments, *leaves(progress.state))]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_decisions_on_the_device_and_on_the_host_are_bit_identical(name: str) -> None:
    host_progress, device_progress = Progress(), Progress()
    task, optimiser, steps = steps_of(name, True, host_progress)
    expected = list(steps)
    other, other_optimiser, steps = steps_of(name, False, device_progress)
    actual = list(steps)
    assert (
        [record.skipped for record in actual]
        == [record.skipped for record in expected]
        == [step in POISONED for step in range(14)]
    )
    for expected_value, actual_value in zip(expected, actual, strict=True):
        assert (
            math.isnan(expected_value.loss)
            if math.isnan(actual_value.loss)
            else expected_value.loss == actual_value.loss
        )
        assert (
            math.isnan(expected_value.gradient_norm)
            if math.isnan(actual_value.gradient_norm)
            else expected_value.gradient_norm == actual_value.gradient_norm
        )
    for expected_value, actual_value in zip(
        all_state(task, optimiser, host_progress), all_state(other, other_optimiser, device_progress), strict=True
    ):
        assert torch.equal(expected_value, actual_value)
    assert device_progress.skipped == host_progress.skipped == 0


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_step_skipped_on_the_device_changes_no_weights_moments_or_state(name: str) -> None:
    progress = Progress()
    task, optimiser, steps = steps_of(name, False, progress)
    before: list[Tensor] = []
    for record in steps:
        after = all_state(task, optimiser, progress)
        if record.step - 1 in (4, 10):  # after other steps of the same streams, when every kind of state exists
            assert all(map(torch.equal, before, after))
        before = after


def test_no_step_is_read_before_it_is_needed() -> None:
    progress = Progress()
    _, _, steps = steps_of("adamw", False, progress, {})
    records = [next(steps) for _ in range(5)]
    is_fresh = [True, False, False, False, False]  # the first step of a stream has no state; the host decides it
    assert [record.is_read for record in records] == is_fresh
    assert progress.unseen == records[1:] and progress.skipped == 0
    progress.look()
    assert all(record.is_read for record in records) and not progress.unseen


def test_ten_skipped_steps_end_the_run_although_later_steps_are_finite() -> None:
    nan, one = (Rows(torch.tensor([[value]], dtype=torch.float64)) for value in (math.nan, 1.0))
    batches = Batches(lambda epoch: 100, lambda epoch, number: nan if 4 <= number < 4 + MOST_SKIPPED else one)
    task, progress, last_step = Adder(), Progress(), 0
    message = (
        rf"10 steps in a row had no finite gradient \(step {4 + MOST_SKIPPED}: loss nan, gradient norm nan\); lower"
    )
    with pytest.raises(UserError, match=message):
        for record in train(
            task,
            batches,
            sgd(task.parameters(), 0.1),
            Constant(100),
            StepOptions(seed=0, look=False),
            steps=100,
            progress=progress,
        ):
            last_step = record.step
    assert last_step < 4 + 2 * MOST_SKIPPED
    assert math.isfinite(task.weight.item())


def test_ten_skipped_steps_at_the_end_of_training_raise_the_same_error() -> None:
    nan = Rows(torch.tensor([[math.nan]], dtype=torch.float64))
    task = Adder()
    with pytest.raises(UserError, match="10 steps in a row had no finite gradient"):
        list(
            train(
                task,
                each(nan),
                sgd(task.parameters(), 0.1),
                Constant(10),
                StepOptions(seed=0, look=False),
                steps=10,
                progress=Progress(),
            )
        )
    assert task.weight.item() == 1.0


def test_averages_ignore_skipped_steps() -> None:
    values = [1.0, math.nan, 2.0, math.nan]
    actual = []
    for look in (True, False):
        task = Adder()
        average = Exponential(task, decay=0.5)
        batches = each(*(Rows(torch.tensor([[value]], dtype=torch.float64)) for value in values))
        list(
            train(
                task,
                batches,
                sgd(task.parameters(), 0.1),
                Constant(4),
                StepOptions(seed=0, look=look),
                steps=4,
                progress=Progress(),
                average=average,
            )
        )
        actual.append((average.updates.item(), average.means["weight"].item()))
    assert actual[0] == actual[1] and actual[0][0] == 2


def test_only_optimisers_that_read_the_flag_are_left_to_the_device() -> None:
    def stepped(make: Callable[..., torch.optim.Optimizer], steps: int = 0) -> torch.optim.Optimizer:
        weight = nn.Parameter(torch.ones(3))
        optimiser = make([weight])
        weight.grad = torch.ones(3)
        for _ in range(steps):
            optimiser.step()
        return optimiser

    assert reads_flag(stepped(lambda p: adamw(p, 0.1))) and not lacks_momentum(stepped(lambda p: adamw(p, 0.1)))
    assert reads_flag(stepped(lambda p: sgd(p, 0.1))) and not lacks_momentum(stepped(lambda p: sgd(p, 0.1)))
    assert not reads_flag(stepped(lambda p: adagrad(p, 0.1)))
    assert not reads_flag(stepped(lambda p: torch.optim.AdamW(p, fused=False)))
    momentum = partial(sgd, learning_rate=0.1, momentum=0.9)
    assert lacks_momentum(stepped(momentum)), "its buffers would be left uninitialised"
    assert not lacks_momentum(stepped(momentum, steps=1))
