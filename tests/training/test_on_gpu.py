"""Training on a GPU: no step waits for the device, and decisions on the device match those on the host."""

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clew.core.batches import Batches, map_batch, num_rows, to_device
from clew.core.types import Term
from clew.training.averaging import Exponential
from clew.training.backward import StepOptions
from clew.training.compiled import Carrying
from clew.training.feeding import Feed
from clew.training.loader import Loader
from clew.training.loop import train
from clew.training.optimisers import adamw
from clew.training.records import Progress
from clew.training.schedules import Constant
from tests.thread.models import MODELS, batches_of, chunks_of, whole_batch
from tests.training.tasks import Rows

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def steps_of(
    name: str, task: Any, steps: int, length: int, progress: Progress, average: Any = None, **options: Any
) -> Any:
    whole = to_device(whole_batch(name, task), torch.device("cpu"))
    batches = batches_of(chunks_of(whole, length))
    loader = Loader(batches, 0, pin=True)
    carry = name == "lstm"
    return train(
        task,
        loader,
        adamw(task.parameters(), 0.01),
        Constant(steps),
        StepOptions(seed=1, carry=carry, clip_norm=0.5, **options),
        steps=steps,
        progress=progress,
        average=average,
    )


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_no_step_waits_for_the_device(name: str) -> None:
    task = MODELS[name](dim=32).cuda()
    progress = Progress()
    steps = steps_of(name, task, 9, 2, progress=progress)
    records = [next(steps) for _ in range(4)]
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning that the mode misses some synchronisations
            torch.cuda.set_sync_debug_mode("error")
        records += [next(steps) for _ in range(4)]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not any(record.is_read for record in records[4:]) and len(progress.unseen) >= 4
    assert all(math.isfinite(record.loss) for record in records) and not any(record.skipped for record in records)


@pytest.mark.parametrize("name", ["lstm", "gpt"])
def test_training_does_not_depend_on_the_host_reading_each_step(name: str) -> None:
    tasks = [MODELS[name]().cuda() for _ in range(2)]
    losses = [
        [record.loss for record in list(steps_of(name, task, 12, 5, look=look, progress=Progress()))]
        for task, look in zip(tasks, (True, False), strict=True)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    for (key, expected), actual in zip(tasks[0].state_dict().items(), tasks[1].state_dict().values(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4, msg=key)


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    task = MODELS["gpt"]().cuda()
    weight = task.body.embedding.tokens.weight
    optimiser = adamw(task.parameters(), 0.01)
    batches = Loader(batches_of([to_device(whole_batch("gpt", task), torch.device("cpu"))]), 0, pin=True)
    steps = train(
        task, batches, optimiser, Constant(9), StepOptions(seed=1, clip_norm=1.0), steps=9, progress=Progress()
    )
    next(steps), next(steps)
    before_poisoning = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] = math.nan
    before = [value.clone() for state in optimiser.state.values() for value in state.values()]
    assert next(steps).skipped
    assert all(map(torch.equal, before, (value for state in optimiser.state.values() for value in state.values())))
    with torch.no_grad():
        weight[0, 0] = before_poisoning[0, 0]
    assert torch.equal(weight, before_poisoning) and not next(steps).skipped


def test_batches_copied_ahead_arrive_complete_and_in_order() -> None:
    batches = Batches(
        lambda epoch: 5, lambda epoch, number: Rows(torch.full((64, 1000), 10.0 * epoch + number), number == 0)
    )
    feed = Feed(Loader(batches, 0, pin=True), 0, 3, torch.device("cuda"))
    for position in ((0, 3), (0, 4), (1, 0), (1, 1)):
        fed = feed.take()
        assert (fed.epoch, fed.number, fed.is_real, num_rows(fed.batch)) == (*position, True, 64)
        if fed.copy is not None:
            map_batch(lambda tensor: tensor.mul_(1.0), fed.copy)
            assert torch.equal(fed.copy.x.cpu(), fed.batch.x) and fed.copy.fresh == fed.batch.fresh
        feed.prepare()
        torch.cuda._sleep(10**7)  # simulates a running step
    assert fed.copy is not None and fed.copy.x.is_cuda


@pytest.mark.parametrize("name", ["lstm", "gpt", "decoder"])
def test_captured_passes_equal_eager_passes(name: str) -> None:
    """With dropout, an average, and alternating row lengths."""
    tasks = [MODELS[name](dropout=0.3, dim=32).cuda() for _ in range(2)]
    means, losses = [], []
    for task, capture in zip(tasks, (False, True), strict=True):
        average = Exponential(task, decay=0.9)
        progress = Progress()
        steps = steps_of(name, task, 24, 5, progress=progress, capture=capture, average=average)
        losses.append([record.loss for record in list(steps)])
        means.append(average.means)
        assert average.state_dict() == {"updates": 24}
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    for key, expected in means[0].items():
        torch.testing.assert_close(means[1][key], expected, rtol=1e-3, atol=1e-4, msg=key)


def test_compiled_and_captured_training_equals_plain_training() -> None:
    tasks = [MODELS["gpt"](dim=32).cuda() for _ in range(2)]
    plain = [record.loss for record in list(steps_of("gpt", tasks[0], 8, 100, progress=Progress()))]
    compiled = torch.compile(Carrying(tasks[1], carry=False))
    batches = Loader(batches_of([to_device(whole_batch("gpt", tasks[1]), torch.device("cpu"))]), 0, pin=True)
    options = StepOptions(seed=1, clip_norm=0.5, counts=tasks[1].counts, capture=True)
    optimiser = adamw(tasks[1].parameters(), 0.01)
    steps = train(compiled, batches, optimiser, Constant(8), options, steps=8, progress=Progress())  # type: ignore[arg-type]
    assert [record.loss for record in list(steps)] == pytest.approx(plain, rel=1e-3)


def test_a_captured_step_that_is_not_finite_changes_nothing() -> None:
    task = MODELS["gpt"]().cuda()
    weight, average = task.body.embedding.tokens.weight, Exponential(task, decay=0.9)
    steps = steps_of("gpt", task, 9, 100, progress=Progress(), capture=True, average=average)
    for _ in range(3):
        next(steps)
    before_poisoning = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] = math.nan
    means = {name: mean.clone() for name, mean in average.means.items()}
    assert next(steps).skipped and average.state_dict() == {"updates": 3}
    assert all(torch.equal(means[name], mean) for name, mean in average.means.items() if not mean.isnan().any())
    with torch.no_grad():
        weight[0, 0] = before_poisoning[0, 0]
    assert torch.equal(weight, before_poisoning) and not next(steps).skipped


class ReadsOnHost(nn.Module):
    """A task whose loss depends on a value that the host reads."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(10, 1)

    def forward(self, batch: Rows, state: None = None) -> tuple[dict[str, Term], None]:
        y = self.linear(batch.x)
        return {"loss": Term((y if y.sum().item() > 0 else 2 * y).square().sum(), torch.tensor(len(y)))}, None

    def counts(self, batch: Rows) -> dict[str, Tensor]:
        return {"loss": torch.tensor(len(batch.x))}


def test_a_pass_that_reads_a_value_on_the_host_runs_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "clew.training")
    torch.manual_seed(1)
    task = ReadsOnHost().cuda()
    batches = Loader(Batches(lambda epoch: 5, lambda epoch, number: Rows(torch.randn(8, 10), True)), 0, pin=True)
    steps = train(
        task,
        batches,
        adamw(task.parameters(), 0.01),
        Constant(9),
        StepOptions(seed=1, capture=True),
        steps=9,
        progress=Progress(),
    )
    assert not any(record.skipped for record in list(steps))
    assert "a training step runs eagerly" in caplog.text
