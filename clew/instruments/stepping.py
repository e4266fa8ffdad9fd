"""Interactive generation: the next-token distribution after the tokens chosen so far. This file knows no search.

Probabilities are the model's own, before tokens are banned or cut off.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.decoding.stepper import Stepper, prefill
from clew.inspection.heads import heads_off
from clew.instruments.instrument import Text
from clew.instruments.next_tokens import Likeliest, likeliest
from clew.instruments.subjects.subject import Looked, subject_of
from clew.tasks.offers import Begun, ModelInput
from clew.text.tokenizer import Tokenizer


class DrawnToken(NamedTuple):
    """A token sampled from the model's distribution; `rank` is its rank by probability, from 1."""

    id: int
    token: str
    probability: float
    rank: int


class Step(NamedTuple):
    """`tokens` are the chosen tokens, `text` is their text, which follows `before`, and `log_prob` their
    log-probability. `end` is the end token. `drawn` is a sampled next token, if requested."""

    tokens: list[str]
    text: str
    log_prob: float
    next: Likeliest
    end: int | None
    ended: bool
    before: str = ""
    drawn: DrawnToken | None = None


def next_step(
    model: Looked,
    text: Text,
    chosen: Sequence[int],
    *,
    into: str = "",
    off: Sequence[str] = (),
    top: int = 12,
    seed: int | None = None,
) -> Step:
    """Return the step of a subject, run or task after a prompt, or a translator's source, and the ids chosen so far.

    With a `seed`, a token is drawn from the full distribution. The `top` most probable tokens are listed.
    """
    subject = subject_of(model)
    if (why := subject.lacks("steps")) is not None:
        raise UserError(f"{why}; use a model that continues a text or writes a target")
    with heads_off(subject.module, off), evaluating([subject.module]):
        begun: Begun = subject.offers.steps(ModelInput(text, into=into))
        check_chosen(begun, chosen)
        log_probs = read_on(begun.stepper, begun.start, chosen)  # (1 + chosen, vocabulary)
    return Step(
        tokens=[begun.tokenizer.piece(id) for id in chosen],
        text=begun.text(chosen),
        log_prob=sum(float(log_probs[place, token]) for place, token in enumerate(chosen)),
        next=likeliest(log_probs[-1], begun.tokenizer, top),
        end=begun.end,
        ended=bool(chosen) and chosen[-1] == begun.end,
        before=begun.before,
        drawn=None if seed is None else draw(log_probs[-1], begun.tokenizer, seed),
    )


def draw(log_probs: Tensor, tokenizer: Tokenizer, seed: int) -> DrawnToken:
    """Draw a token from log p (vocabulary,); the same for the same seed."""
    probabilities = log_probs[: tokenizer.vocabulary].cpu().double().exp()
    id = int(torch.multinomial(probabilities, 1, generator=torch.Generator().manual_seed(seed)))
    rank = int((probabilities > probabilities[id]).sum()) + 1
    return DrawnToken(id, tokenizer.piece(id), float(probabilities[id]), rank)


def check_chosen(begun: Begun, chosen: Sequence[int]) -> None:
    """Check that ids are in the vocabulary, and that the text fits into the model's positions."""
    vocabulary = begun.tokenizer.vocabulary
    wrong = [id for id in chosen if not 0 <= id < vocabulary]
    if wrong:
        raise UserError(f"there is no token {wrong[0]}; ids are between 0 and {vocabulary - 1}")
    length = begun.start.shape[1] + len(chosen)
    if begun.limit is not None and length > begun.limit:
        raise UserError(f"the text has {length} tokens, but the model has {begun.limit} positions; shorten it")


def read_on(stepper: Stepper, start: Tensor, chosen: Sequence[int]) -> Tensor:
    """Return log p (1 + chosen, vocabulary) after the start, and after every chosen token."""
    first, state = prefill(stepper, start, None, stepper.initial_state(1))
    if not chosen:
        return first
    after, _ = stepper(torch.tensor([list(chosen)], device=start.device), None, state)
    return torch.cat([first, after[0]])
