"""A run that writes, ready for an algorithm of `decoding` to be watched: what the instruments on search and sampling share."""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field
from torch import Tensor

from clew.core.config import Section
from clew.decoding.stepper import Stepper
from clew.instruments.instrument import HeadsOff
from clew.instruments.stepping import beginning
from clew.runs.loaded import Run
from clew.tasks.generation import continuation, ends_of, stepper_of
from clew.tasks.writing import DecodingConfig, filtered_as, without_end
from clew.text.tokenizer import Tokenizer


class WritingOptions(Section):
    """What is written, and how much of it."""

    text: str = Field("", description="what a language model goes on from, or a translator translates")
    into: str = Field("", description="the language to write, where a translator writes several")
    off: HeadsOff = ()
    max_new: int = Field(24, ge=1, le=500, description="tokens written at most")


class Writer(NamedTuple):
    """`stepper` goes on from `start` (1, length), for `most` tokens or up to one of `ends`."""

    run: Run
    prompt: str
    stepper: Stepper
    start: Tensor
    ends: Sequence[int]
    most: int
    tokenizer: Tokenizer

    def text(self, tokens: Sequence[int]) -> str:
        """What tokens say that come after the prompt, or stand for a source."""
        ids = without_end(list(tokens), list(self.ends))
        return continuation(self.tokenizer, self.prompt, ids) if self.run.verb == "generate" else self.tokenizer.decode(ids)


def writer_of(run: Run, options: WritingOptions, config: DecodingConfig) -> Writer:
    """Under the filters that a config asks for; what a run never writes is banned as it is when it writes."""
    stepper, start, tokenizer, end = beginning(run, options.text, options.into)
    if run.verb == "generate":
        return Writer(run, options.text, stepper_of(run.task, config, start), start, ends_of(tokenizer, config), config.max_new, tokenizer)
    ends = [] if end is None else [end]
    filtered = filtered_as(config, stepper, run.task.never_written)
    return Writer(run, options.text, filtered, start, ends, run.task.most_new(config), tokenizer)


def why_not_writing(run: Run) -> str | None:
    return None if run.verb in ("generate", "translate") else f"{run.folder} writes no text freely: its task is to {run.verb}"
