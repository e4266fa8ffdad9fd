"""The training loop: an iterator that yields a record a step. Logging, evaluating and saving are what the caller does
between two records.

It knows no config, no files and no particular task. What is random in step s is derived from (seed, s, process,
micro-batch); counts are summed over micro-batches and processes before backward, so that every term's mean is exact
however a batch is cut.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.batches import Batches, at_step, cut_rows, num_rows, rows_of, to_device
from clew.core.errors import UserError
from clew.core.processes import rank, seed_everything, sum_over_processes, world_size
from clew.core.state import detach_state, map_tree
from clew.core.types import State, Term
from clew.decoding.engine import forget_graphs
from clew.layers.recurrence.norm_penalty import Steps, penalty_of_rows, seeing_steps
from clew.training.averaging import Average
from clew.training.captured import CapturedPasses, Pass
from clew.training.feeding import Fed, Feed, is_out_of_memory
from clew.training.parallel import gradients_together, total_norm
from clew.training.records import MOST_SKIPPED, Record, Sent, Standing
from clew.training.schedules import Constant
from clew.training.skipping import have_same_shapes, lacks_momentum, reads_flag, state_where, step_where

NORM = "norm"
"""The name of the norm-preserving penalty's term."""

MOST_HALVINGS = 6
"""How often a micro-batch that does not fit into memory is halved before a run is given up."""


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
    look: bool | None = None,
    capture: bool = False,
) -> Generator[Record, None, None]:
    """Trains until `steps`, one record a step; `standing` is kept up to date before each record is given.

    `task` may be compiled, or spread over processes: only its forward is called; `counts` is the plain task's. `carry`
    hands each row's state, detached, to the next step: truncated back-propagation through time. Each process cuts its
    rows of a batch into `accumulate` micro-batches, and into twice as many where one does not fit into memory.
    `norm_penalty` times the mean over rows of the penalty in `layers.recurrence.norm_penalty` is a term of its own.
    `waiting(step)` are the parameters that a step leaves as they are.

    A step whose losses or gradient are not finite is skipped: it leaves everything as it was. With `look` the host
    looks at every step and decides; without, the device decides where it can, and the host runs up to `MOST_SKIPPED`
    steps ahead. By default the host looks where that is free: not on CUDA. `capture` runs passes of shapes that recur
    as CUDA graphs: see `CapturedPasses`.
    """
    plain_counts: Any = counts or task.counts

    def count_of(batch: Any) -> dict[str, Tensor]:
        found: dict[str, Tensor] = plain_counts(batch)
        return {**found, NORM: torch.tensor(num_rows(batch))} if norm_penalty else found

    rates = [group["lr"] for group in optimiser.param_groups]
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    device = next(task.parameters()).device
    look = device.type != "cuda" if look is None else look
    look = look or not reads_flag(optimiser)
    task.train()
    passes = (
        CapturedPasses(_one_pass(task, carry, autocast), task)
        if capture and can_capture(device, accumulate, norm_penalty)
        else None
    )
    feed = Feed(batches, standing.epoch, standing.batch, device, standing.place)
    while standing.step < steps:
        fed = feed.take()
        standing.epoch, standing.batch, batch = fed.epoch, fed.number, fed.batch
        factor = schedule.factor(standing.step, standing.epoch) * getattr(batch, "rate", 1.0)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        left = waiting(standing.step)
        while True:
            optimiser.zero_grad(set_to_none=True)
            parts = accumulate * 2**standing.halvings
            try:
                sums, whole, num_tokens, state, stop = _backward(
                    task, fed, parts, standing, seed, carry, autocast, count_of, asked_to_stop(), norm_penalty, passes
                )
                break
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            # Outside the handler, whose traceback would hold on to the memory.
            if passes is not None:
                passes.forget()
            _halve(standing, batch, parts)
        for parameter in left:
            parameter.grad = None
        norm = _clip(parameters, clip_norm, clip_value)
        count = num_tokens or int(next(iter(whole.values())))
        rate = optimiser.defaults["lr"] * factor
        values = torch.cat([sums, norm.to(sums)[None]])
        record = Record(standing.step + 1, standing.epoch, rate, count, whole, Sent(values), parts, stop)
        standing.unseen.append(record)
        is_last = standing.step + 1 == steps
        # Streams start with a state that is None, which no tensor can stand for.
        if (
            look
            or (carry and (batch.fresh or not have_same_shapes(state, standing.state)))
            or lacks_momentum(optimiser)
        ):
            if not is_last:
                feed.prepare()
            standing.look()
            if not record.skipped:
                optimiser.step()
                standing.state = state
                if average is not None:
                    average.update()
            elif carry and batch.fresh:  # what stands there is another stream's
                standing.state = None
        else:
            finite = values.isfinite().all()
            step_where(optimiser, finite)
            if average is not None:
                average.update(finite)
            standing.state = state_where(finite, state, standing.state)
            if not is_last:
                feed.prepare()
            standing.look(leave=MOST_SKIPPED)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate
        standing.step, standing.batch = standing.step + 1, standing.batch + 1
        standing.place = batches.place(standing.epoch, standing.batch)
        yield record
    standing.look()


def _backward(
    task: nn.Module,
    fed: Fed,
    parts: int,
    standing: Standing,
    seed: int,
    carry: bool,
    autocast: Callable[[], AbstractContextManager[Any]],
    counts: Callable[[Any], dict[str, Tensor]],
    asked: bool,
    penalty: float,
    passes: CapturedPasses | None,
) -> tuple[Tensor, dict[str, float], int, State, bool]:
    """Gradients of the sum over terms of weight * sum / count; each term's weight * sum (terms,) and count over
    everything, the tokens that batches say they read, the state to carry, and whether any process was asked to stop."""
    device = next(task.parameters()).device
    batch = at_step(fed.batch, standing.step)
    on_host = _micro_batches(batch, parts)
    micro_batches = on_host if fed.copy is None else _micro_batches(at_step(fed.copy, standing.step), parts)
    whole, num_tokens, stop = _total_counts(fed, on_host, counts, asked)
    before = _carried(standing.state, parts) if carry and not batch.fresh else [None] * parts
    divisors = _on_device(whole, device)
    sums: dict[str, Tensor] = {}
    states: list[State] = []
    for number, (micro, has_rows) in enumerate(micro_batches):
        is_real = has_rows and fed.is_real
        seed_step = partial(seed_everything, seed, standing.step, rank(), number)
        micro = to_device(micro, device)
        if passes is not None and parts == 1:
            added, state = passes(seed_step, micro, before[number], divisors)
        else:
            seed_step()
            with gradients_together(task, last=number == parts - 1):
                one_pass = _one_pass(task, carry, autocast, penalty, world_size() if is_real else 0)
                added, state = one_pass(micro, before[number], divisors)
        states.append(state)
        for name, value in added.items():
            sums[name] = sums.get(name, 0.0) + value * is_real
    total = sum_over_processes(torch.stack(list(sums.values())))
    carried = states[0] if parts == 1 else map_tree(lambda *leaves: torch.cat(leaves), *states)
    return total, {name: whole[name] for name in sums}, num_tokens, carried, stop


def can_capture(device: torch.device, accumulate: int, norm_penalty: float) -> bool:
    """Whether passes can be CUDA graphs: where one process trains whole batches."""
    return device.type == "cuda" and world_size() == 1 and accumulate == 1 and not norm_penalty


def _one_pass(
    task: nn.Module,
    carry: bool,
    autocast: Callable[[], AbstractContextManager[Any]],
    penalty: float = 0.0,
    scale: int = 1,
) -> Pass:
    """Forward and backward of a micro-batch: the gradient of scale * sum over terms of weight * sum / count is added to
    the parameters'."""

    def run(micro: Any, before: State, counts: dict[str, Tensor]) -> tuple[dict[str, Tensor], State]:
        with autocast():
            seen: list[Steps] = []
            with seeing_steps(seen) if penalty else nullcontext():
                terms, state = task(micro, before)
            state = (
                detach_state(state) if carry else None
            )  # the keys and values of every layer are not held through the backward pass
            # Gradients are averaged over processes; the counts are sums over them already.
            loss = sum(term.weight * term.sum / counts[name].to(term.sum.dtype) for name, term in terms.items())
            if penalty:
                terms = {**terms, NORM: Term(penalty_of_rows(loss, seen).sum(), counts[NORM], penalty)}
                loss = loss + terms[NORM].weight * terms[NORM].sum / counts[NORM].to(loss.dtype)
            (loss * scale).backward()
        return {name: (term.weight * term.sum.detach()).to(counts[name].dtype) for name, term in terms.items()}, state

    return run


def _on_device(whole: dict[str, float], device: torch.device) -> dict[str, Tensor]:
    """The counts of the terms, in double precision where the device has it, copied without waiting."""
    counts = torch.tensor(list(whole.values()), dtype=torch.float32 if device.type == "mps" else torch.float64)
    counts = counts.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else counts.to(device)
    return dict(zip(whole, counts.unbind(), strict=True))


def _micro_batches(batch: Any, parts: int) -> list[tuple[Any, bool]]:
    """A batch in parts, and whether each has rows; one that has none gets the batch's first."""
    return [
        (micro, True) if num_rows(micro) else (rows_of(batch, slice(0, 1)), False) for micro in cut_rows(batch, parts)
    ]


def _carried(state: State, parts: int) -> list[State]:
    """What was carried for this process's rows, cut as the rows are."""
    return [None] * parts if state is None else cut_rows(state, parts)


def _total_counts(
    fed: Fed, micro_batches: list[tuple[Any, bool]], counts: Callable[[Any], dict[str, Tensor]], asked: bool
) -> tuple[dict[str, float], int, bool]:
    """Every term's count over micro-batches and processes, 1 where there is none, the tokens that batches say they
    read, and whether any process was asked to stop, in one exchange between hosts, which no device waits for. Counts
    are whole numbers but where examples have weights."""
    found = [counts(micro) for micro, has_rows in micro_batches if has_rows]
    sums = {name: sum(float(part[name]) for part in found) * fed.is_real for name in found[0]}
    num_tokens = getattr(fed.batch, "num_tokens", 0) * fed.is_real
    *values, tokens, stop = sum_over_processes(
        torch.tensor([*sums.values(), num_tokens, asked], dtype=torch.float64)
    ).tolist()
    whole = {name: (int(value) if value.is_integer() else value) or 1 for name, value in zip(sums, values, strict=True)}
    return whole, int(tokens), stop > 0


def _halve(standing: Standing, batch: Any, parts: int) -> None:
    """Twice as many micro-batches from here on, the batch staying what it is; or the end, where that cannot help."""
    rows = num_rows(batch)
    if world_size() > 1:
        raise UserError(
            f"process {rank()} ran out of memory at step {standing.step + 1}, with micro-batches of {-(-rows // parts)}"
            f" rows; go on by --resume with training.accumulate={2 * parts}"
        )
    if standing.halvings >= MOST_HALVINGS or parts >= rows:
        raise UserError(
            f"out of memory at step {standing.step + 1} even with {parts} micro-batches of {-(-rows // parts)} rows; "
            "lower training.length or the model's size, or set training.recompute=true"
        )
    standing.halvings += 1
    forget_graphs()  # those of an evaluation that decoded hold attention caches
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _clip(parameters: list[nn.Parameter], clip_norm: float | None, clip_value: float | None) -> Tensor:
    """The gradient's norm before clipping."""
    norm = total_norm(parameters)
    if clip_value is not None:
        nn.utils.clip_grad_value_(parameters, clip_value)
    if clip_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm if clip_value is None else total_norm(parameters))
    return norm
