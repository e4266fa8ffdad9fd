"""Batches of a text for the loop: batch b of epoch e is a pure function of the config, cut by rows into shares and micro-batches."""

from functools import lru_cache
from typing import Any

import torch

from clew.data.encoded import TokenFile
from clew.data.plans import TokenBatch, stream_plan, window_plan
from clew.runs.config import Config
from clew.training.evaluation import to_device
from clew.training.loop import Batches
from clew.training.processes import rank, world_size


def language_batches(text: TokenFile, config: Config, device: torch.device) -> Batches:
    """Batch b of epoch e, cut by rows into this process's share and that into micro-batches."""
    training = config.training

    @lru_cache(maxsize=2)
    def plan(epoch: int) -> Any:
        if training.batching == "streams":
            return stream_plan(len(text), training.batch_size, training.length)
        return window_plan(len(text), training.length, training.batch_size, config.seed, epoch)

    def get(epoch: int, number: int) -> list[TokenBatch]:
        batch = plan(epoch).batch(text.tokens, number)
        share = cut_rows(batch, world_size())[rank()]
        return [to_device(micro, device) for micro in cut_rows(share, training.accumulate)]

    return Batches(lambda epoch: plan(epoch).num_batches, get)


def cut_rows(batch: TokenBatch, parts: int) -> list[TokenBatch]:
    """A batch in so many parts, as equal as can be; none where there are fewer rows than parts."""
    if parts == 1:
        return [batch]
    tokens, targets = batch.tokens.tensor_split(parts), batch.targets.tensor_split(parts)
    masks = batch.mask.tensor_split(parts) if batch.mask is not None else [None] * parts
    return [TokenBatch(*part, batch.fresh) for part in zip(tokens, targets, masks, strict=True)]
