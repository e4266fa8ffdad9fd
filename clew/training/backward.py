"""The gradients of one step: forward and backward over this process's micro-batches.

Counts are summed over micro-batches and processes before the first backward pass, and each term of the loss is divided
by its own count. So means are exact for every division of a batch into micro-batches and processes.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.batches import at_step, cut_rows, num_rows, rows_of, to_device
from clew.core.processes import rank, seed_everything, sum_over_processes, world_size
from clew.core.state import detach_state, map_tree
from clew.core.types import State, Term
from clew.layers.recurrence.norm_penalty import Steps, penalty_of_rows, recording_steps
from clew.training.captured import CapturedPasses, Pass
from clew.training.feeding import FedBatch
from clew.training.parallel import exchange_gradients
from clew.training.records import Progress

NORM = "norm"
"""The name of the loss term of the norm-preserving penalty."""

Counts = Callable[[Any], dict[str, Tensor]]


@dataclass(frozen=True)
class StepOptions:
    """Options of a training step.

    `carry` passes each row's state, detached, to the next step: truncated back-propagation through time. Each process
    splits its rows of a batch into `accumulate` micro-batches. `norm_penalty` is the weight of the penalty in
    `layers.recurrence.norm_penalty`, a separate loss term. `counts` is the method of the plain task, needed if the task
    is compiled or replicated. `frozen(step)` are the parameters that a step does not change.

    With `look` the host reads the losses of every step and decides whether to skip it. Otherwise the device decides if
    it can, and the host runs ahead by up to `MOST_SKIPPED` steps. The default is True except on CUDA, where reading
    would wait for the device. `capture` runs passes of recurring shapes as CUDA graphs: see `CapturedPasses`.
    """

    seed: int = 0
    carry: bool = False
    accumulate: int = 1
    clip_norm: float | None = None
    clip_value: float | None = None
    norm_penalty: float = 0.0
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    counts: Counts | None = None
    frozen: Callable[[int], Sequence[nn.Parameter]] = lambda step: ()
    asked_to_stop: Callable[[], bool] = lambda: False
    look: bool | None = None
    capture: bool = False

    def counts_of(self, task: nn.Module) -> Counts:
        """The function that counts a batch's terms, the penalty's rows included."""
        plain: Any = self.counts or task.counts
        if not self.norm_penalty:
            return plain  # type: ignore[no-any-return]
        return lambda batch: {**plain(batch), NORM: torch.tensor(num_rows(batch))}


class Gradients(NamedTuple):
    """The result of a step's backward pass, besides the gradients, which are in the parameters' `grad`."""

    sums: Tensor
    """weight * sum of each term over all processes  (terms,)"""
    counts: dict[str, float]
    num_tokens: int
    """The number of tokens in the batches; 0 if the batches have no `num_tokens`."""
    state: State
    """The state to carry to the next step."""
    stop: bool
    """Whether any process was asked to stop."""


def captured_passes(task: nn.Module, options: StepOptions, device: torch.device) -> CapturedPasses | None:
    """Return passes as CUDA graphs, if one process trains whole batches on CUDA; else None."""
    can_capture = device.type == "cuda" and world_size() == 1 and options.accumulate == 1 and not options.norm_penalty
    return CapturedPasses(one_pass(task, options), task) if options.capture and can_capture else None


def backward(
    task: nn.Module, fed: FedBatch, parts: int, progress: Progress, options: StepOptions, passes: CapturedPasses | None
) -> Gradients:
    """Add the gradient of the sum over terms of weight * sum / count to the parameters, in `parts` micro-batches."""
    device = next(task.parameters()).device
    batch = at_step(fed.batch, progress.step)
    on_host = micro_batches(batch, parts)
    on_device = on_host if fed.copy is None else micro_batches(at_step(fed.copy, progress.step), parts)
    counts, num_tokens, stop = total_counts(fed, on_host, options.counts_of(task), options.asked_to_stop())
    carried = carried_parts(progress.state, parts) if options.carry and not batch.fresh else [None] * parts
    divisors = to_divisors(counts, device)
    sums: dict[str, Tensor] = {}
    states: list[State] = []
    for number, (micro, has_rows) in enumerate(on_device):
        is_real = has_rows and fed.is_real
        seed_step = partial(seed_everything, options.seed, progress.step, rank(), number)
        micro = to_device(micro, device)
        if passes is not None and parts == 1:
            added, state = passes(seed_step, micro, carried[number], divisors)
        else:
            seed_step()
            with exchange_gradients(task, last=number == parts - 1):
                added, state = one_pass(task, options, world_size() if is_real else 0)(micro, carried[number], divisors)
        states.append(state)
        for name, value in added.items():
            sums[name] = sums.get(name, 0.0) + value * is_real
    total = sum_over_processes(torch.stack(list(sums.values())))
    state = states[0] if parts == 1 else map_tree(lambda *leaves: torch.cat(leaves), *states)
    return Gradients(total, {name: counts[name] for name in sums}, num_tokens, state, stop)


def one_pass(task: nn.Module, options: StepOptions, scale: int = 1) -> Pass:
    """Return the forward and backward pass of a micro-batch. It adds the gradient of scale * sum over terms of
    weight * sum / count to the parameters' gradients."""

    def run(micro: Any, carried: State, counts: dict[str, Tensor]) -> tuple[dict[str, Tensor], State]:
        with options.autocast():
            recorded: list[Steps] = []
            with recording_steps(recorded) if options.norm_penalty else nullcontext():
                terms, state = task(micro, carried)
            # Without carry the state is dropped here, else all layers' keys and values would outlive the backward pass.
            state = detach_state(state) if options.carry else None
            # Gradients are averaged over processes, but counts are sums over processes: hence the factor `scale`.
            loss = sum(term.weight * term.sum / counts[name].to(term.sum.dtype) for name, term in terms.items())
            if options.norm_penalty:
                penalty = penalty_of_rows(loss, recorded).sum()
                terms = {**terms, NORM: Term(penalty, counts[NORM], options.norm_penalty)}
                loss = loss + terms[NORM].weight * terms[NORM].sum / counts[NORM].to(loss.dtype)
            (loss * scale).backward()
        return {name: (term.weight * term.sum.detach()).to(counts[name].dtype) for name, term in terms.items()}, state

    return run


def to_divisors(counts: dict[str, float], device: torch.device) -> dict[str, Tensor]:
    """Copy the counts of the terms to the device without waiting, in float64 if the device supports it."""
    values = torch.tensor(list(counts.values()), dtype=torch.float32 if device.type == "mps" else torch.float64)
    values = values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)
    return dict(zip(counts, values.unbind(), strict=True))


def micro_batches(batch: Any, parts: int) -> list[tuple[Any, bool]]:
    """Split a batch into parts, each with a flag whether it has rows. An empty part gets the batch's first row, whose
    gradient is multiplied by 0, because every process must run the same number of passes."""
    return [
        (micro, True) if num_rows(micro) else (rows_of(batch, slice(0, 1)), False) for micro in cut_rows(batch, parts)
    ]


def carried_parts(state: State, parts: int) -> list[State]:
    """Split the carried state of this process's rows in the same way as the rows."""
    return [None] * parts if state is None else cut_rows(state, parts)


def total_counts(
    fed: FedBatch, parts: list[tuple[Any, bool]], counts: Counts, asked_to_stop: bool
) -> tuple[dict[str, float], int, bool]:
    """Return every term's count over micro-batches and processes (1 instead of 0), the number of tokens, and whether
    any process was asked to stop.

    This is one exchange between hosts; no device waits for it. Counts are integers unless examples are weighted.
    """
    counted = [counts(micro) for micro, has_rows in parts if has_rows]
    sums = {name: sum(float(part[name]) for part in counted) * fed.is_real for name in counted[0]}
    num_tokens = getattr(fed.batch, "num_tokens", 0) * fed.is_real
    values = torch.tensor([*sums.values(), num_tokens, asked_to_stop], dtype=torch.float64)
    *totals, tokens, stop = sum_over_processes(values).tolist()
    whole = {name: (int(total) if total.is_integer() else total) or 1 for name, total in zip(sums, totals, strict=True)}
    return whole, int(tokens), stop > 0
