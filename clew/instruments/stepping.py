"""Writing one token at a time: what a model expects next, after the tokens that were chosen so far. Knows no search.

Probabilities are the model's own, before anything is banned or cut off."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.data.examples import Pair
from clew.decoding.stepper import Stepper, prefill
from clew.inspection.heads import heads_off
from clew.instruments.next_tokens import Expected, expected
from clew.instruments.reading import no_text
from clew.runs.loaded import Run
from clew.tasks.generation import continuation, prompt_batch
from clew.tasks.translation import encode_pairs
from clew.text.tokenizer import Tokenizer


class Step(NamedTuple):
    """`tokens` are those chosen, `text` what they say, `log_prob` how likely they were; `end` is the token that ends a text."""

    tokens: list[str]
    text: str
    log_prob: float
    next: Expected
    end: int | None
    ended: bool


def next_step(run: Run, text: str, chosen: Sequence[int], *, into: str = "", off: Sequence[str] = (), top: int = 12) -> Step:
    """The step after a prompt, or for a translator after a source, and the ids of the tokens that were chosen so far."""
    with heads_off(run, off), evaluating([run.task]):
        stepper, start, tokenizer, end = beginning(run, text, into)
        check_chosen(run, chosen, start, tokenizer)
        log_probs = read_on(stepper, start, chosen)  # (1 + chosen, vocabulary)
    ended = bool(chosen) and chosen[-1] == end
    ids = list(chosen[:-1] if ended else chosen)
    return Step(
        tokens=[tokenizer.piece(id) for id in chosen],
        text=continuation(tokenizer, text, ids) if run.verb == "generate" else tokenizer.decode(ids),
        log_prob=sum(float(log_probs[place, token]) for place, token in enumerate(chosen)),
        next=expected(log_probs[-1], tokenizer, top),
        end=end,
        ended=ended,
    )


def beginning(run: Run, text: str, into: str) -> tuple[Stepper, Tensor, Tokenizer, int | None]:
    """What writes, what it reads before the first token (1, length), what its tokens are, and which of them ends a text."""
    task = run.task
    if run.verb == "generate":
        start, _ = prompt_batch(task, [text])
        return task.stepper(), start, task.tokenizer, task.tokenizer.end
    if run.verb not in WRITING:
        raise UserError(f"{run.folder} writes no text step by step; runs that generate, translate or parse do")
    if not text.strip():
        raise no_text()
    batch = to_device(task.collate(encode_pairs([task], [Pair(text, "", into=into)], 1)), task.body.embedding.like.device)
    return task.stepper(batch), torch.full((1, 1), task.start, device=batch.source.device), task.target, task.end


def check_chosen(run: Run, chosen: Sequence[int], start: Tensor, tokenizer: Tokenizer) -> None:
    """Ids are tokens', and a model with positions has one for each."""
    wrong = [id for id in chosen if not 0 <= id < tokenizer.vocabulary]
    if wrong:
        raise UserError(f"there is no token {wrong[0]}; ids are between 0 and {tokenizer.vocabulary - 1}")
    length, limit = start.shape[1] + len(chosen), run.task.body.max_length
    if limit is not None and length > limit:
        raise UserError(f"the text has {length} tokens, but the model can tell apart {limit} positions; shorten it")


def read_on(stepper: Stepper, start: Tensor, chosen: Sequence[int]) -> Tensor:
    """log p (1 + chosen, vocabulary) of what comes after the start, and after every token that was chosen."""
    first, state = prefill(stepper, start, None, stepper.initial_state(1))
    if not chosen:
        return first
    after, _ = stepper(torch.tensor([list(chosen)], device=start.device), None, state)
    return torch.cat([first, after[0]])


WRITING = ("generate", "translate", "parse")
