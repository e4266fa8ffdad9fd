"""The training loop: an iterator that yields a record per step. The caller logs, evaluates and saves between two
records.

It knows no config, no files and no particular task. The random numbers of a step are derived from (seed, step, process,
micro-batch).
"""

from collections.abc import Generator
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.batches import Batches, num_rows
from clew.core.errors import UserError
from clew.core.processes import rank, world_size
from clew.core.wording import argument
from clew.decoding.engine import forget_graphs
from clew.training.averaging import Average
from clew.training.backward import Gradients, StepOptions, backward, captured_passes
from clew.training.captured import CapturedPasses
from clew.training.feeding import FedBatch, Feed, is_out_of_memory
from clew.training.parallel import total_norm
from clew.training.records import MOST_SKIPPED, HostCopy, Progress, Record
from clew.training.schedules import Constant
from clew.training.skipping import have_same_shapes, lacks_momentum, reads_flag, state_where, step_where

MOST_HALVINGS = 6
"""The number of times that micro-batches are halved when they do not fit into memory, before the run fails."""


def train(
    task: nn.Module,
    batches: Batches,
    optimiser: torch.optim.Optimizer,
    schedule: Constant,
    options: StepOptions | None = None,
    *,
    steps: int,
    progress: Progress,
    average: Average | None = None,
) -> Generator[Record, None, None]:
    """Train until `steps`, yielding a record per step; `progress` is updated before each record is yielded.

    `task` may be compiled or replicated: only its forward is called. A step with a non-finite loss or gradient is
    skipped: weights, optimiser and carried state keep their values.
    """
    options = options or StepOptions()
    rates = [group["lr"] for group in optimiser.param_groups]
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    device = next(task.parameters()).device
    look = device.type != "cuda" if options.look is None else options.look
    look = look or not reads_flag(optimiser)
    task.train()
    passes = captured_passes(task, options, device)
    feed = Feed(batches, progress.epoch, progress.batch, device, progress.place)
    while progress.step < steps:
        fed = feed.take()
        progress.epoch, progress.batch, batch = fed.epoch, fed.number, fed.batch
        factor = schedule.factor(progress.step, progress.epoch) * getattr(batch, "rate", 1.0)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        frozen = options.frozen(progress.step)  # before the pass: it also says what needs a gradient
        gradients, parts = backward_in_memory(task, fed, optimiser, progress, options, passes)
        for parameter in frozen:
            parameter.grad = None
        norm = clip(parameters, options.clip_norm, options.clip_value)
        values = torch.cat([gradients.sums, norm.to(gradients.sums)[None]])
        record = Record(
            step=progress.step + 1,
            epoch=progress.epoch,
            learning_rate=optimiser.defaults["lr"] * factor,
            count=gradients.num_tokens or int(next(iter(gradients.counts.values()))),
            counts=gradients.counts,
            values=HostCopy(values),
            parts=parts,
            stop=gradients.stop,
        )
        progress.unseen.append(record)
        is_last = progress.step + 1 == steps
        # At the start of a stream the state is None or changes its shape, and state_where cannot select that.
        starts_stream = options.carry and (batch.fresh or not have_same_shapes(gradients.state, progress.state))
        if look or starts_stream or lacks_momentum(optimiser):
            if not is_last:
                feed.prepare()
            progress.look()
            if not record.skipped:
                optimiser.step()
                progress.state = gradients.state
                if average is not None:
                    average.update()
            elif options.carry and batch.fresh:  # the step was skipped, and the state is the previous stream's
                progress.state = None
        else:
            finite = values.isfinite().all()
            step_where(optimiser, finite)
            if average is not None:
                average.update(finite)
            progress.state = state_where(finite, gradients.state, progress.state)
            if not is_last:
                feed.prepare()
            progress.look(leave=MOST_SKIPPED)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate
        progress.step, progress.batch = progress.step + 1, progress.batch + 1
        progress.place = batches.place(progress.epoch, progress.batch)
        yield record
    progress.look()


def backward_in_memory(
    task: nn.Module,
    fed: FedBatch,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    options: StepOptions,
    passes: CapturedPasses | None,
) -> tuple[Gradients, int]:
    """Compute the step's gradients, and double the number of micro-batches until they fit into memory. Return both."""
    while True:
        optimiser.zero_grad(set_to_none=True)
        parts = options.accumulate * 2**progress.halvings
        try:
            return backward(task, fed, parts, progress, options, passes), parts
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        # Outside the handler, because its traceback would keep the memory allocated.
        if passes is not None:
            passes.forget()
        halve(progress, fed.batch, parts)


def halve(progress: Progress, batch: Any, parts: int) -> None:
    """Use twice as many micro-batches from this step on, or raise if that cannot help."""
    rows = num_rows(batch)
    if world_size() > 1:
        raise UserError(
            f"process {rank()} ran out of memory at step {progress.step + 1}, with micro-batches of {-(-rows // parts)}"
            f" rows; resume with {argument('resume', True)} and training.accumulate={2 * parts}"
        )
    if progress.halvings >= MOST_HALVINGS or parts >= rows:
        raise UserError(
            f"out of memory at step {progress.step + 1} even with {parts} micro-batches of {-(-rows // parts)} rows; "
            "lower training.length or the model's size, or set training.recompute=true"
        )
    progress.halvings += 1
    forget_graphs()  # an evaluation's decoding graphs hold attention caches
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def clip(parameters: list[nn.Parameter], clip_norm: float | None, clip_value: float | None) -> Tensor:
    """Clip the gradient and return its norm before clipping."""
    norm = total_norm(parameters)
    if clip_value is not None:
        nn.utils.clip_grad_value_(parameters, clip_value)
    if clip_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm if clip_value is None else total_norm(parameters))
    return norm
