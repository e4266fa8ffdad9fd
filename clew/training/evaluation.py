"""The loss of a language model on a text, every token scored once."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from clew.core.batches import to_device
from clew.core.processes import share_of, sum_over_processes, world_size
from clew.data.encoded import TokenFile
from clew.data.plans import Plan, stream_evaluation_plan, window_evaluation_plan
from clew.metrics.perplexity import Likelihood
from clew.runs.config import TrainingConfig
from clew.tasks.language_model import LanguageModel


def evaluation_plan(num_tokens: int, training: TrainingConfig) -> Plan:
    """As in training, streams carry their state and windows do not."""
    batch_size = training.evaluate_batch or training.batch_size
    if training.batching == "streams":
        return stream_evaluation_plan(num_tokens, batch_size, training.length)
    return window_evaluation_plan(num_tokens, training.length, batch_size)


@torch.no_grad()
def evaluate(
    task: LanguageModel,
    text: TokenFile,
    training: TrainingConfig,
    *,
    forward: Callable[..., Any] | None = None,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    interrupted: Callable[[], bool] = lambda: False,
) -> Likelihood | None:
    """The likelihood of the whole text, each process reading its share of every batch's rows; None if `interrupted` says to stop, which a
    process alone may do. `forward` is the task, or its compiled form."""
    model = task if forward is None else forward
    plan = evaluation_plan(len(text), training)
    device = next(task.parameters()).device
    was_training = task.training
    task.eval()
    names = ("loss", *getattr(task, "directions", ()))
    totals = torch.zeros(len(names), dtype=torch.float64)
    state = None
    try:
        for number in range(plan.num_batches):
            if interrupted() and world_size() == 1:
                return None
            share, is_real = share_of(plan.batch(text.tokens, number, apart=text.apart))
            batch = to_device(share, device)
            with autocast():
                terms, after = model(batch, None if batch.fresh else state)
            state = after if training.batching == "streams" else None
            if is_real:
                totals += torch.stack([terms[name].sum for name in names]).cpu().double()
    finally:
        task.train(was_training)
    nats, *directions = sum_over_processes(totals).tolist()
    unpredicted = len(text.unpredicted)
    num_targets = plan.num_targets - unpredicted
    num_characters = text.num_characters_apart if unpredicted else text.num_target_characters
    return Likelihood(nats, num_targets, num_characters, dict(zip(names[1:], directions, strict=True)))
