import math
from typing import NamedTuple

import pytest
import torch

from clew.core.batches import Batches
from clew.core.errors import UserError
from clew.core.processes import seed_everything
from clew.training import loop
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import adamw, sgd
from clew.training.records import MOST_SKIPPED, Progress, Record
from clew.training.schedules import Constant, Linear
from tests.thread.models import MODELS, batches_of, lines_batch
from tests.training.tasks import Adder, Noisy, Rows, TwoTerms, each


def run(task, batches: Batches, steps: int, learning_rate: float = 0.1, **options) -> list[Record]:
    progress = options.pop("progress", None) or Progress()
    optimiser = options.pop("optimiser", None) or sgd(task.parameters(), learning_rate)
    schedule = options.pop("schedule", Constant(steps))
    average = options.pop("average", None)
    return list(
        train(
            task, batches, optimiser, schedule, StepOptions(**options), steps=steps, progress=progress, average=average
        )
    )


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_batch_cut_into_micro_batches_trains_to_the_same_weights(parts: int) -> None:
    """The counts of two terms differ between the parts, so a mean of means would be wrong."""
    torch.manual_seed(1)
    x = torch.randn(8, 4, dtype=torch.float64)
    whole, cut = TwoTerms(), TwoTerms()
    expected = run(whole, each(Rows(x)), 3)
    actual = run(cut, each(Rows(x)), 3, accumulate=parts)
    torch.testing.assert_close(cut.weight, whole.weight, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(cut.bias, whole.bias, rtol=1e-12, atol=1e-12)
    for expected_record, actual_record in zip(expected, actual, strict=True):
        assert actual_record.losses == pytest.approx(expected_record.losses, rel=1e-12)
        assert actual_record.gradient_norm == pytest.approx(expected_record.gradient_norm, rel=1e-12)
        assert actual_record.count == expected_record.count


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_ragged_lines_in_micro_batches_train_to_the_same_weights(name: str) -> None:
    whole, cut = MODELS[name]().double(), MODELS[name]().double()
    batch = lines_batch(whole)
    run(whole, batches_of([batch]), 2, optimiser=adamw(whole.parameters(), 0.01))
    run(cut, batches_of([batch]), 2, optimiser=adamw(cut.parameters(), 0.01), accumulate=4)
    for key, value in whole.state_dict().items():
        torch.testing.assert_close(cut.state_dict()[key], value, rtol=1e-10, atol=1e-12)


def test_a_micro_batch_without_rows_changes_nothing() -> None:
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    whole, cut = TwoTerms(), TwoTerms()
    run(whole, each(Rows(x)), 1)
    run(cut, each(Rows(x)), 1, accumulate=5)
    torch.testing.assert_close(cut.weight, whole.weight, rtol=1e-12, atol=1e-12)


def test_the_recorded_loss_is_weighted_and_divided_by_the_count_of_each_term() -> None:
    task = TwoTerms()
    batch = Rows(torch.tensor([[1.0, -1.0, 2.0, -3.0], [0.5, -1.0, -2.0, -3.0]], dtype=torch.float64))
    terms, _ = task(batch)
    rows, positive = terms["rows"].sum.item(), terms["positive"].sum.item()
    (record,) = run(task, each(batch), 1)
    assert record.losses == pytest.approx({"rows": rows / 2, "positive": 0.3 * positive / 3})
    assert record.loss == pytest.approx(rows / 2 + 0.3 * positive / 3)
    assert record.count == 2


def test_clipping_by_norm_scales_the_step_and_records_the_unclipped_norm() -> None:
    task = Adder()
    (record,) = run(task, each(Rows(torch.tensor([[8.0]], dtype=torch.float64))), 1, learning_rate=1.0, clip_norm=0.5)
    assert record.gradient_norm == pytest.approx(8.0)
    assert task.weight.item() == pytest.approx(1.0 - 0.5, abs=1e-6)


def test_a_gradient_below_the_norm_is_unchanged() -> None:
    task = Adder()
    run(task, each(Rows(torch.tensor([[0.25]], dtype=torch.float64))), 1, learning_rate=1.0, clip_norm=0.5)
    assert task.weight.item() == pytest.approx(0.75)


def test_clipping_by_value_limits_each_entry_and_records_the_unclipped_norm() -> None:
    task, plain = TwoTerms(), TwoTerms()
    batch = Rows(torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3)))
    before = task.weight.detach().clone()
    (unclipped,) = run(plain, each(batch), 1, learning_rate=1.0)
    (record,) = run(task, each(batch), 1, learning_rate=1.0, clip_value=0.01)
    gradient = before - plain.weight.detach()
    torch.testing.assert_close(before - task.weight.detach(), gradient.clamp(-0.01, 0.01), rtol=1e-9, atol=1e-12)
    assert record.gradient_norm == unclipped.gradient_norm > 0.1


def test_values_are_clipped_before_the_norm() -> None:
    task = TwoTerms()
    before = [p.detach().clone() for p in task.parameters()]
    batch = Rows(torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3)))
    run(task, each(batch), 1, learning_rate=1.0, clip_value=0.05, clip_norm=0.06)
    moved = torch.cat([(old - new.detach()).flatten() for old, new in zip(before, task.parameters(), strict=True)])
    assert moved.norm() == pytest.approx(0.06, abs=1e-6)


NAN = Rows(torch.tensor([[math.nan]], dtype=torch.float64))
ONE = Rows(torch.tensor([[1.0]], dtype=torch.float64))


def test_a_step_without_a_finite_loss_changes_no_weights_state_or_optimiser() -> None:
    task = Adder()
    optimiser = adamw(task.parameters(), 0.1)
    progress = Progress()
    records = run(
        task,
        each(ONE, NAN._replace(fresh=False), ONE._replace(fresh=False)),
        3,
        optimiser=optimiser,
        progress=progress,
        carry=True,
    )
    assert [record.skipped for record in records] == [False, True, False]
    assert progress.skipped == 0 and progress.step == 3
    steps = next(iter(optimiser.state.values()))["step"]
    assert int(steps) == 2
    assert task.carried_in[1] is not None and task.carried_in[2] == task.carried_in[1]
    assert math.isfinite(task.weight.item())


def test_streams_that_start_with_a_skipped_step_carry_no_earlier_state() -> None:
    task, progress = Adder(), Progress()
    run(task, each(ONE, NAN, ONE._replace(fresh=False)), 3, progress=progress, carry=True)
    assert task.carried_in == [None, None, None]


def test_ten_skipped_steps_in_a_row_end_the_run_with_a_message() -> None:
    task = Adder()
    progress = Progress()
    message = (
        r"10 steps in a row had no finite gradient \(step 11: loss nan, gradient norm nan\); "
        r"lower training.learning_rate or set training.clip_norm"
    )
    with pytest.raises(UserError, match=message):
        run(task, Batches(lambda epoch: 100, lambda epoch, number: ONE if number == 0 else NAN), 50, progress=progress)
    assert progress.skipped == MOST_SKIPPED
    assert task.weight.item() == pytest.approx(0.9)


def test_a_finite_step_resets_the_count_of_skipped_steps() -> None:
    task = Adder()
    batches = Batches(lambda epoch: 100, lambda epoch, number: ONE if number % 5 == 0 else NAN)
    records = run(task, batches, 40)
    assert sum(record.skipped for record in records) == 32


def test_the_state_is_carried_by_value_but_gradients_stop_at_the_chunk() -> None:
    """s_2 = w x_1 + w x_2: with a detached state the second gradient is x_2, not x_1 + x_2."""
    task = Adder(weight=2.0)
    chunks = [
        Rows(torch.tensor([[3.0]], dtype=torch.float64)),
        Rows(torch.tensor([[5.0]], dtype=torch.float64), fresh=False),
    ]
    first, second = run(task, each(*chunks), 2, learning_rate=0.1, carry=True)
    assert first.loss == pytest.approx(6.0)
    assert second.loss == pytest.approx(6.0 + (2.0 - 0.1 * 3.0) * 5.0)
    assert second.gradient_norm == pytest.approx(5.0)
    assert not task.carried_in[1].requires_grad


def test_a_fresh_batch_drops_the_state() -> None:
    task = Adder()
    run(task, each(ONE, ONE._replace(fresh=False)), 4, carry=True)
    assert [state is None for state in task.carried_in] == [True, False, True, False]


def test_no_state_is_carried_by_default() -> None:
    task = Adder()
    run(task, each(ONE, ONE._replace(fresh=False)), 3)
    assert task.carried_in == [None, None, None]


def test_every_micro_batch_gets_its_own_state_back() -> None:
    task = Adder(weight=1.0)
    both = Rows(torch.tensor([[1.0], [100.0]], dtype=torch.float64), fresh=False)
    run(task, each(both), 2, learning_rate=0.0, carry=True, accumulate=2)
    assert [None if state is None else state.item() for state in task.carried_in] == [None, None, 1.0, 100.0]


def test_randomness_in_a_step_depends_only_on_the_seed_and_the_step() -> None:
    def losses(first: int, steps: int, seed: int = 7) -> list[float]:
        torch.rand(first + 3)
        return [
            record.loss
            for record in run(Noisy(), each(ONE), steps, learning_rate=0.0, seed=seed, progress=Progress(step=first))
        ]

    uninterrupted = losses(0, 5)
    assert losses(3, 5) == uninterrupted[3:]
    assert len(set(uninterrupted)) == 5
    assert losses(0, 5, seed=8) != uninterrupted


def test_a_batch_with_a_step_field_receives_the_current_step() -> None:
    class WithStep(NamedTuple):
        x: torch.Tensor
        step: torch.Tensor | None

    class RecordsStep(Noisy):
        def forward(self, batch, state=None):
            steps_seen.append(None if batch.step is None else batch.step.tolist())
            return super().forward(Rows(batch.x), state)

        def counts(self, batch):
            return super().counts(Rows(batch.x))

    steps_seen: list[list[int] | None] = []
    x, task = torch.ones(3, 4, dtype=torch.float64), RecordsStep()
    run(task, each(WithStep(x, torch.zeros(3, dtype=torch.long))), 2)
    run(task, each(WithStep(x, torch.zeros(3, dtype=torch.long))), 7, progress=Progress(step=6), accumulate=2)
    run(task, each(WithStep(x, None)), 1)
    assert steps_seen == [[0, 0, 0], [1, 1, 1], [6, 6], [6], None]


def test_micro_batches_draw_different_random_numbers() -> None:
    draws = []
    for numbers in ((1, 0, 0, 0), (1, 0, 0, 1), (1, 0, 1, 0), (1, 1, 0, 0), (2, 0, 0, 0)):
        seed_everything(*numbers)
        draws.append(tuple(torch.rand(4).tolist()))
    assert len(set(draws)) == 5


def test_the_learning_rate_follows_the_schedule_and_is_restored() -> None:
    task = Adder()
    optimiser = sgd(task.parameters(), 0.4)
    records = run(task, each(ONE), 4, optimiser=optimiser, schedule=Linear(4))
    assert [record.learning_rate for record in records] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert optimiser.param_groups[0]["lr"] == 0.4
    assert task.weight.item() == pytest.approx(1.0 - 0.4 - 0.3 - 0.2 - 0.1)


def test_an_epoch_ends_with_its_last_batch() -> None:
    requested: list[tuple[int, int]] = []

    def get(epoch: int, number: int) -> Rows:
        requested.append((epoch, number))
        return ONE

    progress = Progress()
    records = run(Adder(), Batches(lambda epoch: 2 + epoch, get), 6, progress=progress)
    assert requested == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert [record.epoch for record in records] == [0, 0, 1, 1, 1, 2]
    assert (progress.step, progress.epoch, progress.batch) == (6, 2, 1)


def test_the_position_is_up_to_date_when_a_record_arrives() -> None:
    progress = Progress()
    steps = train(
        Adder(),
        each(ONE),
        sgd([torch.nn.Parameter(torch.ones(()))], 0.1),
        Constant(3),
        StepOptions(seed=0),
        steps=3,
        progress=progress,
    )
    assert [(record.step, progress.step) for record in steps] == [(1, 1), (2, 2), (3, 3)]


class Greedy(Adder):
    """Runs out of memory with more rows than a limit."""

    def __init__(self, most: int):
        super().__init__()
        self.most = most
        self.sizes: list[int] = []

    def forward(self, batch: Rows, state=None):
        self.sizes.append(len(batch.x))
        if len(batch.x) > self.most:
            raise torch.OutOfMemoryError("no room")
        return super().forward(batch, state)


def test_a_micro_batch_that_does_not_fit_is_halved() -> None:
    batches = each(
        *(
            Rows(torch.tensor([[float(row + 8 * chunk)] for row in range(8)], dtype=torch.float64), chunk == 0)
            for chunk in range(3)
        )
    )
    whole, cut, progress = Adder(), Greedy(most=2), Progress()
    expected = run(whole, batches, 3, carry=True)
    actual = run(cut, batches, 3, carry=True, progress=progress)
    assert cut.sizes == [8, 4, *[2] * 12]
    assert progress.halvings == 2 and [record.parts for record in actual] == [4, 4, 4]
    assert [record.loss for record in actual] == pytest.approx([record.loss for record in expected], rel=1e-12)
    assert cut.weight.item() == pytest.approx(whole.weight.item(), rel=1e-12)


def test_a_row_that_does_not_fit_ends_the_run_with_a_message() -> None:
    message = (
        r"out of memory at step 1 even with 4 micro-batches of 1 rows; lower training.length or the model's size,"
        r" or set"
    )
    with pytest.raises(UserError, match=message):
        run(Greedy(most=0), each(Rows(torch.ones(4, 1, dtype=torch.float64))), 2)


def test_a_process_of_several_that_lacks_memory_says_how_to_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "world_size", lambda: 2)
    batch = Rows(torch.ones(4, 1, dtype=torch.float64))
    with pytest.raises(
        UserError, match="process 0 ran out of memory at step 1, with micro-batches of 2 rows; resume with "
    ):
        loop.halve(Progress(), batch, 2)


def test_another_error_is_not_taken_for_lack_of_memory() -> None:
    class Broken(Adder):
        def forward(self, batch, state=None):
            raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes do not fit"):
        run(Broken(), each(ONE), 1)


def test_the_rate_of_a_batch_scales_only_its_own_step() -> None:
    class Rated(NamedTuple):
        x: torch.Tensor
        fresh: bool = True
        rate: float = 1.0

    task = Adder()
    records = run(task, each(Rated(ONE.x), Rated(ONE.x, rate=0.5)), 2, learning_rate=0.2)
    assert [record.learning_rate for record in records] == pytest.approx([0.2, 0.1])
    assert task.weight.item() == pytest.approx(1 - 0.2 - 0.1)


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_a_hundred_steps_with_accumulation_give_the_same_weights(kind: torch.dtype, tolerance: float) -> None:
    x = torch.randn(7, 32, 4, generator=torch.Generator().manual_seed(5)).to(kind)
    tasks = [TwoTerms().to(kind) for _ in range(3)]
    for task, parts in zip(tasks, (1, 2, 4), strict=True):
        run(task, each(*(Rows(batch) for batch in x)), 100, learning_rate=0.02, accumulate=parts)
    for task in tasks[1:]:
        torch.testing.assert_close(task.weight, tasks[0].weight, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(task.bias, tasks[0].bias, rtol=tolerance, atol=tolerance)
