"""The training loop: an iterator that yields a record a step. Logging, evaluating and saving are what the caller does between two records.

It knows no config, no files and no particular task. What is random in step s is derived from (seed, s, process, micro-batch);
counts are summed over micro-batches and processes before backward, so that every term's mean is exact however a batch is cut.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.batches import Batches, at_step, cut_rows, num_rows, to_device
from clew.core.errors import UserError
from clew.core.processes import rank, seed_everything, share_of, sum_over_processes, world_size
from clew.core.state import detach_state, map_tree
from clew.core.types import State, Term
from clew.layers.norm_penalty import Steps, penalty_of_rows, seeing_steps
from clew.training.averaging import Average
from clew.training.parallel import gradients_together, total_norm
from clew.training.schedules import Constant

MOST_SKIPPED = 10
"""Steps in a row without a finite gradient after which a run is given up."""

NORM = "norm"
"""The name of the norm-preserving penalty's term."""

MOST_HALVINGS = 6
"""How often a micro-batch that does not fit into memory is halved before a run is given up."""


@dataclass(frozen=True)
class Record:
    """What one step did. `losses` are means over the term's own count; a skipped step left the weights as they were.

    `counts` has those counts; `count` is how many tokens the step learnt from: those that the batch says it reads, else the first term's
    count. `parts` is into how many micro-batches each process cut its share; `stop` says that some process has been asked to stop.
    """

    step: int
    epoch: int
    losses: dict[str, float]
    gradient_norm: float
    learning_rate: float
    count: int
    skipped: bool = False
    parts: int = 1
    stop: bool = False
    counts: dict[str, float] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        return sum(self.losses.values())


@dataclass
class Standing:
    """Where training stands: all that is needed to go on, besides weights, optimiser, schedule and averages.

    `state` is what is carried for this process's rows; `halvings` how often micro-batches had to be halved to fit into memory;
    `seconds` and `tokens` are how long training has taken and how much it has read, which the caller keeps.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    state: State = None
    skipped: int = 0
    halvings: int = 0
    seconds: float = 0.0
    tokens: int = 0


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
    accumulate: int = 1,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    norm_penalty: float = 0.0,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    counts: Callable[[Any], dict[str, Tensor]] | None = None,
    average: Average | None = None,
    asked_to_stop: Callable[[], bool] = lambda: False,
    waiting: Callable[[int], Sequence[nn.Parameter]] = lambda step: (),
) -> Iterator[Record]:
    """Trains until `steps`, one record a step; `standing` is kept up to date before each record is given.

    `task` may be compiled, or spread over processes: only its forward is called; `counts` is the plain task's. `carry` hands each
    row's state, detached, to the next step: truncated back-propagation through time. Each process cuts its rows of a batch into
    `accumulate` micro-batches, and into twice as many where one does not fit into memory. `norm_penalty` times the mean over rows of the
    penalty in `layers.norm_penalty` is a term of its own. `waiting(step)` are the parameters that a step leaves as they are.
    """
    plain_counts: Any = counts or task.counts

    def count_of(batch: Any) -> dict[str, Tensor]:
        found: dict[str, Tensor] = plain_counts(batch)
        return {**found, NORM: torch.tensor(num_rows(batch))} if norm_penalty else found

    rates = [group["lr"] for group in optimiser.param_groups]
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    task.train()
    source = batches.ahead(standing.epoch, standing.batch)
    while standing.step < steps:
        standing.epoch, standing.batch, batch = next(source)
        batch = at_step(batch, standing.step)
        factor = schedule.factor(standing.step, standing.epoch) * getattr(batch, "rate", 1.0)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        left = waiting(standing.step)
        while True:
            optimiser.zero_grad(set_to_none=True)
            parts = accumulate * 2**standing.halvings
            try:
                totals, state, stop = _backward(
                    task, batch, parts, standing, seed, carry, autocast, count_of, asked_to_stop(), norm_penalty
                )
                break
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            _halve(standing, batch, parts)  # outside the handler, whose traceback would hold on to the memory
        for parameter in left:
            parameter.grad = None
        norm = _clip(parameters, clip_norm, clip_value)
        losses = {name: float(mean) for name, (mean, _) in totals.items()}
        skipped = not math.isfinite(norm) or not all(math.isfinite(loss) for loss in losses.values())
        if skipped:
            standing.skipped += 1
            if carry and batch.fresh:  # what stands there is another stream's
                standing.state = None
            if standing.skipped >= MOST_SKIPPED:
                raise UserError(
                    f"{MOST_SKIPPED} steps in a row had no finite gradient (step {standing.step + 1}: loss {sum(losses.values())}, "
                    f"gradient norm {norm}); lower training.learning_rate or set training.clip_norm"
                )
        else:
            optimiser.step()
            standing.skipped = 0
            standing.state = state
            if average is not None:
                average.update()
        counts_of = {name: count.item() for name, (_, count) in totals.items()}
        count = getattr(batch, "num_tokens", 0) or int(next(iter(counts_of.values())))
        record = Record(
            standing.step + 1, standing.epoch, losses, norm, optimiser.defaults["lr"] * factor, count, skipped, parts, stop, counts_of
        )
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate
        standing.step, standing.batch = standing.step + 1, standing.batch + 1
        yield record


def _backward(
    task: nn.Module,
    batch: Any,
    parts: int,
    standing: Standing,
    seed: int,
    carry: bool,
    autocast: Callable[[], AbstractContextManager[Any]],
    counts: Callable[[Any], dict[str, Tensor]],
    asked: bool,
    penalty: float,
) -> tuple[dict[str, tuple[Tensor, Tensor]], State, bool]:
    """Gradients of the sum over terms of weight * sum / count; each term's mean and count over everything, the state to carry, and whether
    any process was asked to stop."""
    device = next(task.parameters()).device
    micro_batches = [share_of(batch, parts, part) for part in range(parts)]
    whole, stop = _total_counts([counts(micro) for micro, is_real in micro_batches if is_real], counts, micro_batches[0][0], asked, device)
    before = _carried(standing.state, parts) if carry and not batch.fresh else [None] * parts
    sums: dict[str, Tensor] = {}
    states: list[State] = []
    for number, (micro, is_real) in enumerate(micro_batches):
        seed_everything(seed, standing.step, rank(), number)
        micro = to_device(micro, device)
        with autocast(), gradients_together(task, last=number == parts - 1):
            seen: list[Steps] = []
            with seeing_steps(seen) if penalty else nullcontext():
                terms, state = task(micro, before[number])
            states.append(detach_state(state) if carry else None)
            del state  # the keys and values of every layer would otherwise be held through the backward pass
            # Gradients are averaged over processes; the counts are sums over them already.
            loss = sum(term.weight * term.sum / whole[name] for name, term in terms.items())
            if penalty:
                terms = {**terms, NORM: Term(penalty_of_rows(loss, seen).sum(), whole[NORM], penalty)}
                loss = loss + terms[NORM].weight * terms[NORM].sum / whole[NORM]
            (loss * (world_size() if is_real else 0)).backward()
        for name, term in terms.items():
            sums[name] = sums.get(name, torch.zeros((), device=device)) + term.weight * term.sum.detach() * is_real
    names = list(sums)
    added = sum_over_processes(torch.stack([sums[name].double() if device.type != "mps" else sums[name] for name in names]))
    means = {name: (total / whole[name], whole[name]) for name, total in zip(names, added, strict=True)}
    return means, map_tree(lambda *leaves: torch.cat(leaves), *states) if carry else None, stop


def _carried(state: State, parts: int) -> list[State]:
    """What was carried for this process's rows, cut as the rows are."""
    return [None] * parts if state is None else cut_rows(state, parts)


def _total_counts(
    found: list[dict[str, Tensor]], counts: Callable[[Any], dict[str, Tensor]], any_batch: Any, asked: bool, device: torch.device
) -> tuple[dict[str, Tensor], bool]:
    """Every term's count over micro-batches and processes, 1 where there is none, and whether any process was asked to stop, in one
    exchange. Counts are whole numbers but where examples have weights."""
    names = list(counts(any_batch))
    sums = [sum(float(part[name]) for part in found) for name in names]
    values = sum_over_processes(torch.tensor([*sums, float(asked)], dtype=torch.float64)).tolist()
    whole = [int(value) if value.is_integer() else value for value in values]
    return {name: torch.tensor(value or 1, device=device) for name, value in zip(names, whole, strict=False)}, values[-1] > 0


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch could not get the memory it asked for, on any device."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error)


def _halve(standing: Standing, batch: Any, parts: int) -> None:
    """Twice as many micro-batches from here on, the batch staying what it is; or the end, where that cannot help."""
    rows = -(-num_rows(batch) // world_size())
    if world_size() > 1:
        raise UserError(
            f"process {rank()} ran out of memory at step {standing.step + 1}, with micro-batches of {-(-rows // parts)} rows; "
            f"go on by --resume with training.accumulate={2 * parts}"
        )
    if standing.halvings >= MOST_HALVINGS or parts >= rows:
        raise UserError(
            f"out of memory at step {standing.step + 1} even with {parts} micro-batches of {-(-rows // parts)} rows; "
            "lower training.length or the model's size, or set training.recompute=true"
        )
    standing.halvings += 1
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _clip(parameters: list[nn.Parameter], clip_norm: float | None, clip_value: float | None) -> float:
    """The gradient's norm before clipping."""
    norm = total_norm(parameters)
    if clip_value is not None:
        nn.utils.clip_grad_value_(parameters, clip_value)
    if clip_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm if clip_value is None else total_norm(parameters))
    return float(norm)
