"""Batches of a text for the loop: batch b of epoch e is a pure function of the config."""

from functools import lru_cache
from typing import Any

from clew.data.encoded import TokenFile
from clew.data.plans import stream_plan, varied_stream_plan, window_plan
from clew.runs.config import Config
from clew.training.loop import Batches


def language_batches(text: TokenFile, config: Config) -> Batches:
    training = config.training

    @lru_cache(maxsize=2)
    def plan(epoch: int) -> Any:
        if training.vary_length:
            return varied_stream_plan(len(text), training.batch_size, training.length, config.seed, epoch)
        if training.batching == "streams":
            return stream_plan(len(text), training.batch_size, training.length)
        return window_plan(len(text), training.length, training.batch_size, config.seed, epoch)

    return Batches(lambda epoch: plan(epoch).num_batches, lambda epoch, number: plan(epoch).batch(text.tokens, number))
