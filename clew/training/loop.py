"""The training loop: an iterator that yields a record a step. Logging, evaluating and saving are what the caller does between two records.

It knows no config, no files and no particular task. What is random in step s is derived from (seed, s, process, micro-batch);
counts are summed over micro-batches and processes before backward, so that every term's mean is exact however a batch is cut.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.state import detach_state
from clew.core.types import State
from clew.training.processes import rank, seed_everything, sum_over_processes, world_size
from clew.training.schedules import Constant

MOST_SKIPPED = 10
"""Steps in a row without a finite gradient after which a run is given up."""


@dataclass(frozen=True)
class Record:
    """What one step did. `losses` are means over the term's own count; a skipped step left the weights as they were."""

    step: int
    epoch: int
    losses: dict[str, float]
    gradient_norm: float
    learning_rate: float
    count: int
    skipped: bool = False

    @property
    def loss(self) -> float:
        return sum(self.losses.values())


@dataclass
class Standing:
    """Where training stands: all that is needed to go on, besides weights, optimiser and schedule."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    states: list[State] = field(default_factory=list)
    skipped: int = 0


@dataclass(frozen=True)
class Batches:
    """Batch b of epoch e, made when asked for: a pure function, so that the position (epoch, batch) is all there is to remember.

    `get(epoch, batch)` gives the micro-batches of this process's share; each carries `fresh`, which says that its streams start there.
    """

    per_epoch: Callable[[int], int]
    get: Callable[[int, int], list[Any]]


def train(
    task: nn.Module,
    batches: Batches,
    optimiser: torch.optim.Optimizer,
    schedule: Constant,
    *,
    steps: int,
    standing: Standing,
    seed: int,
    carry: bool = False,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    counts: Callable[[Any], dict[str, Tensor]] | None = None,
) -> Iterator[Record]:
    """Trains until `steps`, one record a step; `standing` is kept up to date before each record is given.

    `task` may be compiled or under DistributedDataParallel: only its forward is called; `counts` is the plain task's. `carry` hands each
    micro-batch's state, detached, to the next step: truncated back-propagation through time.
    """
    count_of: Any = counts or task.counts
    rates = [group["lr"] for group in optimiser.param_groups]
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    task.train()
    while standing.step < steps:
        if standing.batch >= batches.per_epoch(standing.epoch):
            standing.epoch, standing.batch = standing.epoch + 1, 0
        micro_batches = batches.get(standing.epoch, standing.batch)
        factor = schedule.factor(standing.step, standing.epoch)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        optimiser.zero_grad(set_to_none=True)
        totals, states = _backward(task, micro_batches, standing, seed, carry, autocast, count_of)
        norm = _clip(parameters, clip_norm, clip_value)
        losses = {name: float(value) for name, (value, _) in totals.items()}
        skipped = not math.isfinite(norm) or not all(math.isfinite(loss) for loss in losses.values())
        if skipped:
            standing.skipped += 1
            if standing.skipped >= MOST_SKIPPED:
                raise UserError(
                    f"{MOST_SKIPPED} steps in a row had no finite gradient (step {standing.step + 1}: loss {sum(losses.values())}, "
                    f"gradient norm {norm}); lower training.learning_rate or set training.clip_norm"
                )
        else:
            optimiser.step()
            standing.skipped = 0
            standing.states = states
        record = Record(
            standing.step + 1, standing.epoch, losses, norm, rates[0] * factor, sum(int(count) for _, count in totals.values()), skipped
        )
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate
        standing.step, standing.batch = standing.step + 1, standing.batch + 1
        yield record


def _backward(
    task: nn.Module,
    micro_batches: list[Any],
    standing: Standing,
    seed: int,
    carry: bool,
    autocast: Callable[[], AbstractContextManager[Any]],
    counts: Callable[[Any], dict[str, Tensor]],
) -> tuple[dict[str, tuple[Tensor, Tensor]], list[State]]:
    """Gradients of the sum over terms of weight * sum / count; each term's mean and count over everything, and the states to carry."""
    whole = _total_counts([counts(batch) for batch in micro_batches])
    sums: dict[str, Tensor] = {}
    states: list[State] = []
    for number, batch in enumerate(micro_batches):
        seed_everything(seed, standing.step, rank(), number)
        before = standing.states[number] if carry and standing.states and not batch.fresh else None
        with autocast(), _gradients_together(task, last=number == len(micro_batches) - 1):
            terms, state = task(batch, before)
            loss = sum(term.weight * term.sum / whole[name] for name, term in terms.items())
            # DistributedDataParallel averages gradients over processes; the counts are sums over them already.
            (loss * world_size()).backward()  # type: ignore[union-attr]
        for name, term in terms.items():
            sums[name] = sums.get(name, torch.zeros((), device=term.sum.device)) + term.weight * term.sum.detach()
        states.append(detach_state(state) if carry else None)
    means = {name: sum_over_processes(total) / whole[name] for name, total in sums.items()}
    return {name: (mean, whole[name]) for name, mean in means.items()}, states


def _total_counts(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Every term's count over micro-batches and processes; at least 1, so that an empty share divides nothing by zero."""
    names = list(parts[0])
    totals = sum_over_processes(torch.stack([torch.stack([part[name] for part in parts]).sum() for name in names]))
    return {name: total.clamp(min=1) for name, total in zip(names, totals, strict=True)}


def _gradients_together(task: nn.Module, last: bool) -> AbstractContextManager[Any]:
    """Processes exchange gradients once a step, with the last micro-batch."""
    if last or not isinstance(task, nn.parallel.DistributedDataParallel):
        return nullcontext()
    return task.no_sync()


def _clip(parameters: list[nn.Parameter], clip_norm: float | None, clip_value: float | None) -> float:
    """The gradient's norm before clipping."""
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if clip_value is not None:
        nn.utils.clip_grad_value_(parameters, clip_value)
    if clip_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm if clip_value is None else _norm(parameters))
    return float(norm)


def _norm(parameters: list[nn.Parameter]) -> Tensor:
    return nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
