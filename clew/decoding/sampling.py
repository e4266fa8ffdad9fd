"""One sequence a row, token by token: the most probable token, or a random one. Both are iterators, so text can be shown as it comes.

Each step yields the tokens (rows,) of all rows. A row that has ended repeats its own end token until the last row has ended too.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import State
from clew.decoding.ends import End, check_max_new, end_tokens
from clew.decoding.stepper import Stepper, prefill

Choice = Callable[[Tensor], Tensor]
"""From log_probs (rows, vocabulary) to tokens (rows,)."""


class Sequences(NamedTuple):
    """What was generated, without the prompt. A length counts the end token; after it come repeats of it, with log-probability 0.

    `log_probs` are those the stepper gave for the tokens chosen.
    """

    tokens: Tensor  # (rows, steps)
    lengths: Tensor  # (rows,)
    log_probs: Tensor  # (rows, steps)


class Step(NamedTuple):
    tokens: Tensor  # (rows,)
    log_probs: Tensor  # (rows,)
    is_new: Tensor  # (rows,) False where the row had ended before


def greedy(
    stepper: Stepper, prompt: Tensor, mask: Tensor | None = None, state: State = None, *, max_new: int, end: End = None
) -> Iterator[Tensor]:
    """y_t = argmax_w p(w | prompt, y_1 .. y_{t-1}), one tensor (rows,) a step."""
    return (step.tokens.clone() for step in _steps(stepper, prompt, mask, state, most_probable, max_new, end))


def greedy_sequences(
    stepper: Stepper, prompt: Tensor, mask: Tensor | None = None, state: State = None, *, max_new: int, end: End = None
) -> Sequences:
    """All that `greedy` yields."""
    return _collected(_steps(stepper, prompt, mask, state, most_probable, max_new, end))


def sample(
    stepper: Stepper,
    prompt: Tensor,
    mask: Tensor | None = None,
    state: State = None,
    *,
    max_new: int,
    end: End = None,
    seed: int,
    row_numbers: Sequence[int] | None = None,
) -> Iterator[Tensor]:
    """y_t ~ p(w | prompt, y_1 .. y_{t-1}), one tensor (rows,) a step.

    A row's randomness comes from (seed, its number) alone: 0, 1, 2, ... or what `row_numbers` says. So a row is sampled alike in any batch.
    """
    choice = random_choice(seed, _numbers(prompt, row_numbers))
    return (step.tokens.clone() for step in _steps(stepper, prompt, mask, state, choice, max_new, end))


def sample_sequences(
    stepper: Stepper,
    prompt: Tensor,
    mask: Tensor | None = None,
    state: State = None,
    *,
    max_new: int,
    end: End = None,
    seed: int,
    row_numbers: Sequence[int] | None = None,
) -> Sequences:
    """All that `sample` yields."""
    choice = random_choice(seed, _numbers(prompt, row_numbers))
    return _collected(_steps(stepper, prompt, mask, state, choice, max_new, end))


def most_probable(log_probs: Tensor) -> Tensor:
    """argmax_w log p(w); the lowest token among equals."""
    return log_probs.argmax(-1)


def random_choice(seed: int, row_numbers: Sequence[int]) -> Choice:
    """A choice that draws one uniform number a row at each call and inverts the cumulative distribution with it."""
    generators = [_generator(seed, number) for number in row_numbers]

    def choose(log_probs: Tensor) -> Tensor:
        uniform = torch.stack([torch.rand((), generator=generator, dtype=torch.float64) for generator in generators])
        return invert_cumulative(log_probs, uniform.to(log_probs.device, _precise(log_probs.device)))

    return choose


def invert_cumulative(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """The first token w with P(w) > uniform * P(last), P being the cumulative sum of p; p need not add up to one.

    A token of probability 0 is never chosen, however the sums are rounded.
    """
    probs = log_probs.to(uniform.dtype).softmax(-1)
    cumulative = probs.cumsum(-1).masked_fill(probs == 0, 0.0)
    total = cumulative.amax(-1)
    threshold = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return (cumulative > threshold[:, None]).int().argmax(-1)


def _numbers(prompt: Tensor, row_numbers: Sequence[int] | None) -> Sequence[int]:
    if row_numbers is None:
        return range(len(prompt))
    if len(row_numbers) != len(prompt):
        raise UserError(f"row_numbers ({len(row_numbers)}) must be as many as the prompt has rows ({len(prompt)})")
    return row_numbers


def _generator(seed: int, row_number: int) -> torch.Generator:
    """A generator on the CPU, the same for (seed, row_number) on every machine: Python's own hash is not."""
    digest = hashlib.blake2b(f"{seed} {row_number}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def _precise(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def _steps(stepper: Stepper, prompt: Tensor, mask: Tensor | None, state: State, choose: Choice, max_new: int, end: End) -> Iterator[Step]:
    # Not a generator itself, so that a mistake is reported where the call is, not at the first token.
    check_max_new(max_new)
    ends = end_tokens(end, stepper.vocabulary, prompt.device)
    if state is None:
        state = stepper.initial_state(len(prompt), prompt.shape[1] + max_new)
    return _walk(stepper, prompt, mask, state, choose, max_new, ends)


@torch.inference_mode()  # cheaper than no_grad by a quarter of the overhead of a step; what leaves this module is copied out of it
def _walk(
    stepper: Stepper, prompt: Tensor, mask: Tensor | None, state: State, choose: Choice, max_new: int, ends: Tensor
) -> Iterator[Step]:
    log_probs, state = prefill(stepper, prompt, mask, state)
    tokens, running = prompt[:, 0], torch.ones_like(prompt[:, 0], dtype=torch.bool)
    can_end = len(ends) > 0
    for step in range(1, max_new + 1):
        tokens = torch.where(running, choose(log_probs), tokens) if can_end else choose(log_probs)
        chosen = log_probs.gather(1, tokens[:, None])[:, 0]
        _check_possible(chosen, running)
        yield Step(tokens, chosen.masked_fill(~running, 0.0) if can_end else chosen, running)
        if can_end:
            running = running & ~torch.isin(tokens, ends)
        if step == max_new or (can_end and not running.any()):
            return
        log_probs, state = stepper(tokens[:, None], None if not can_end or running.all() else running[:, None], state)
        log_probs = log_probs[:, -1]


def _check_possible(chosen: Tensor, running: Tensor) -> None:
    if not chosen.min().item() > -math.inf and (impossible := (running & ~(chosen > -math.inf)).nonzero().flatten().tolist()):
        raise UserError(
            f"row {impossible[0]} has no next token of probability above 0: all its log-probabilities are -inf, or one is NaN; "
            "loosen the filters, or look for what diverged in the model"
        )


def _collected(steps: Iterator[Step]) -> Sequences:
    tokens, log_probs, is_new = (torch.stack(column, 1) for column in zip(*steps, strict=True))  # (rows, steps)
    return Sequences(tokens, is_new.sum(1), log_probs)
