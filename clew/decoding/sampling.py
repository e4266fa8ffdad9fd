"""Greedy decoding and sampling: one sequence per row, token by token. Both are iterators, so that text can be shown as
it is generated.

Each step yields the tokens (rows,) of all rows. A row that has ended repeats its end token until the last row has
ended. When half of the rows have ended, they are dropped from the batch.
"""

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.state import leaves, map_tree, select_rows
from clew.core.types import State, Tree
from clew.decoding.ends import End, check_max_new, constant, end_tokens, padded_count
from clew.decoding.engine import Standing, calling, repeating, standing_of
from clew.decoding.looks import Look, looks_every, one_ahead, sent
from clew.decoding.stepper import (
    CHUNK,
    Start,
    Stepper,
    calm_steps,
    drop_padding,
    prompt_extent,
    read_to_end,
    signature_of,
    start_of,
)

Draw = Callable[[int], Tensor]
"""A function from a count of steps to uniform numbers (count, rows)."""


class Sequences(NamedTuple):
    """The generated tokens, without the prompt. A length includes the end token, which is repeated after it with
    log-probability 0.

    `log_probs` are the stepper's log-probabilities of the chosen tokens.
    """

    tokens: Tensor  # (rows, steps)
    lengths: Tensor  # (rows,)
    log_probs: Tensor  # (rows, steps)


class Step(NamedTuple):
    """One step (rows,), or a block of them (rows, steps)."""

    tokens: Tensor
    log_probs: Tensor
    is_new: Tensor  # False where the row had ended before


class Frame(NamedTuple):
    """The batch between two steps: the tokens that the stepper reads next, the rows that have not ended, and the
    model's state."""

    tokens: Tensor  # (rows,)
    running: Tensor  # (rows,)
    state: State


def greedy(
    stepper: Stepper, prompt: Tensor, mask: Tensor | None = None, state: State = None, *, max_new: int, end: End = None
) -> Iterator[Tensor]:
    """y_t = argmax_w p(w | prompt, y_1 .. y_{t-1}), one tensor (rows,) per step."""
    return each_token(_blocks(stepper, prompt, mask, state, None, max_new, end, shown=True))


def greedy_sequences(
    stepper: Stepper, prompt: Tensor, mask: Tensor | None = None, state: State = None, *, max_new: int, end: End = None
) -> Sequences:
    """Everything that `greedy` yields, as one value."""
    return collected(_blocks(stepper, prompt, mask, state, None, max_new, end))


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
    """y_t ~ p(w | prompt, y_1 .. y_{t-1}), one tensor (rows,) per step.

    The randomness of a row depends on (seed, row number) alone, so that a row is sampled identically in any batch. The
    numbers are 0, 1, 2, ... or `row_numbers`.
    """
    draw = uniform_numbers(seed, numbers_of(prompt, row_numbers))
    return each_token(_blocks(stepper, prompt, mask, state, draw, max_new, end, shown=True))


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
    """Everything that `sample` yields, as one value."""
    draw = uniform_numbers(seed, numbers_of(prompt, row_numbers))
    return collected(_blocks(stepper, prompt, mask, state, draw, max_new, end))


def most_probable(log_probs: Tensor) -> Tensor:
    """argmax_w log p(w); the lowest token wins ties."""
    return log_probs.argmax(-1)


def choose_token(log_probs: Tensor, uniform: Tensor | None) -> Tensor:
    """Choose the most probable token of each row (rows, vocabulary), or the one drawn by a uniform number (rows,)."""
    return (
        most_probable(log_probs)
        if uniform is None
        else invert_cumulative(log_probs, uniform.to(precise(log_probs.device)))
    )


def uniform_numbers(seed: int, row_numbers: Sequence[int]) -> Draw:
    """Return a function that draws float64 numbers from one generator per row; the numbers do not depend on how many
    are drawn at a time."""
    generators = [row_generator(seed, number) for number in row_numbers]
    return lambda count: torch.stack(
        [torch.rand(count, generator=generator, dtype=torch.float64) for generator in generators], 1
    )


def invert_cumulative(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """Return the first token w with P(w) > uniform * P(last), where P is the cumulative sum of p; p need not add up to
    one.

    A token of probability 0 is never chosen, regardless of rounding.
    """
    probs = log_probs.to(uniform.dtype).softmax(-1)
    cumulative = probs.cumsum(-1).masked_fill(probs == 0, 0.0)
    total = cumulative.amax(-1)
    threshold = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return (cumulative > threshold[:, None]).int().argmax(-1)


def numbers_of(prompt: Tensor, row_numbers: Sequence[int] | None) -> Sequence[int]:
    if row_numbers is None:
        return range(len(prompt))
    if len(row_numbers) != len(prompt):
        raise UserError(
            f"row_numbers ({len(row_numbers)}) must have one number for each row of the prompt ({len(prompt)})"
        )
    return row_numbers


def row_generator(seed: int, row_number: int) -> torch.Generator:
    """Return a CPU generator seeded by (seed, row_number), identical on every machine, which Python's own hash would
    not be."""
    digest = hashlib.blake2b(f"{seed} {row_number}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)


def precise(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def _blocks(
    stepper: Stepper,
    prompt: Tensor,
    mask: Tensor | None,
    state: State,
    draw: Draw | None,
    max_new: int,
    end: End,
    shown: bool = False,
) -> Iterator[Step]:
    """Yield the steps in blocks; `shown` says that the caller sees each block before the next one runs."""
    # Not a generator itself, so that an invalid argument is reported by the call, not at the first token.
    check_max_new(max_new)
    ends = end_tokens(end, stepper.vocabulary)
    start = start_of(stepper, state, len(prompt), prompt.shape[1] + max_new)
    return _walk(Walk(stepper, ends), prompt, mask, start, draw, max_new, shown)


class Walk:
    """One step: read the last token of each row, and choose the next one by `uniform` (rows,), or the most probable
    one."""

    def __init__(self, stepper: Stepper, ends: tuple[int, ...]):
        self.stepper = stepper
        self.ends = ends
        inner = signature_of(stepper)
        self.signature: Hashable = None if inner is None else ("walk", inner, ends)

    def calm(self, frame: Frame) -> int:
        return calm_steps(self.stepper, frame.state)

    def choose(self, log_probs: Tensor, frame: Frame, uniform: Tensor | None) -> tuple[Frame, Step]:
        tokens = choose_token(log_probs, uniform)
        if not self.ends:
            return frame._replace(tokens=tokens), Step(
                tokens, log_probs.gather(1, tokens[:, None])[:, 0], frame.running
            )
        tokens = torch.where(frame.running, tokens, frame.tokens)
        chosen = log_probs.gather(1, tokens[:, None])[:, 0].masked_fill(~frame.running, 0.0)
        is_running = frame.running & (tokens[:, None] != constant(self.ends, tokens.device)).all(1)
        return Frame(tokens, is_running, frame.state), Step(tokens, chosen, frame.running)

    def __call__(self, frame: Frame, uniform: Tensor | None) -> tuple[Frame, Step]:
        # Rows that have ended keep reading: no row depends on another, and a step without a mask is fastest.
        log_probs, state = self.stepper(frame.tokens[:, None], None, frame.state)
        return self.choose(log_probs[:, -1], frame._replace(state=state), uniform)


@torch.inference_mode()  # saves a quarter of a step's overhead over no_grad; tensors that leave this module are copied
def _walk(
    walk: Walk, prompt: Tensor, mask: Tensor | None, start: Start, draw: Draw | None, max_new: int, shown: bool
) -> Iterator[Step]:
    """Yield blocks of steps. On a GPU, if no row can end, a block is checked while the next one runs."""
    standing, extent = standing_of(walk.signature), prompt_extent(prompt, mask)
    prompt, mask = drop_padding(prompt, mask, extent)
    extent = extent.in_chunks(CHUNK)

    def begin(prompt: Tensor, mask: Tensor | None, made_from: Tree, uniform: Tensor | None) -> tuple[Frame, Step]:
        log_probs, state = read_to_end(walk.stepper, prompt, mask, start.state(made_from), extent=extent)
        return walk.choose(
            log_probs, Frame(prompt[:, 0], torch.ones_like(prompt[:, 0], dtype=torch.bool), state), uniform
        )

    signature = None if walk.signature is None else ("begin", walk.signature, mask is None)
    uniform = None if draw is None else sent(draw(1)[0], prompt.device)
    with ExitStack() as lent:
        call_arguments = (prompt, mask, start.made_from, uniform), signature, (extent, *start.numbers), standing
        frame, first = lent.enter_context(calling(begin, *call_arguments))
        # A caller that is shown tokens may change or watch the model between two blocks, so its standing is found out
        # again.
        blocks = _looked_at(_following(walk, frame, first, draw, max_new, None if shown else standing, lent))
        for block, least in one_ahead(blocks) if prompt.is_cuda and not walk.ends else blocks:
            if least is not None and not least() > -math.inf:
                check_possible(block.log_probs, block.is_new)
            yield block


def _following(
    walk: Walk, frame: Frame, first: Step, draw: Draw | None, max_new: int, standing: Standing | None, lent: ExitStack
) -> Iterator[Step]:
    """Yield the first step and the blocks after it. `lent` is closed as soon as a graph has copied the frame."""
    block = Step(*(part[:, None].clone() for part in first))
    yield block
    device, rows, left = block.tokens.device, len(block.tokens), max_new - 1
    places = torch.arange(rows, device=device)  # the rows of the prompt still in the batch
    while left:
        if walk.ends and (kept := remaining(frame.running, frame)) is not None:
            frame, places = _selected(frame, kept), places[kept]
        if not len(places):
            return
        fed, signature = draw is not None, walk.signature
        with repeating(
            walk, frame, steps=left, fed=fed, signature=signature, standing=standing, calm=walk.calm
        ) as repeated:
            if repeated.owns_frame:
                lent.close()
            while left:
                count = min(looks_every(device), left)
                numbers = None if draw is None else sent(draw(count), device)[:, places]
                last, block = block, Step(*repeated.run(count, numbers))
                left -= count
                block = _until_ended(block) if walk.ends else block
                block = block if len(places) == rows else _within(last, places, block)
                yield block
                if walk.ends and remaining(repeated.frame.running, repeated.frame) is not None:
                    break
            frame = map_tree(torch.clone, repeated.frame) if left else frame


def _looked_at(blocks: Iterable[Step]) -> Iterator[tuple[Step, Look | None]]:
    """Pair each block with the least of its log-probabilities."""
    return ((block, Look(block.log_probs.min()) if block.log_probs.numel() else None) for block in blocks)


def _until_ended(steps: Step) -> Step:
    """Cut a block after the last step in which a row was running. The host waits for this."""
    count = int(steps.is_new.any(0).sum())
    return Step(*(part[:, :count] for part in steps))


def remaining(running: Tensor, tree: Tree) -> Tensor | None:
    """Select the rows to continue with if at most half are still running (see `padded_count`), else None: fewer changes
    of shape are not worth it. Also None if a leaf of the tree has another number of rows."""
    rows, count = len(running), int(running.sum())
    if 2 * count > rows or any(len(leaf) != rows for leaf in leaves(tree)):
        return None if count else running.nonzero()[:, 0]
    return running.int().argsort(descending=True, stable=True)[: padded_count(count, running.device)]


def _selected(frame: Frame, rows: Tensor) -> Frame:
    return Frame(frame.tokens[rows], frame.running[rows], select_rows(frame.state, rows, rows))


def _within(last: Step, places: Tensor, block: Step) -> Step:
    """Expand a block of some rows to all rows; the other rows have ended and repeat their end."""
    shape = len(last.tokens), block.tokens.shape[1]
    return Step(
        last.tokens[:, -1:].expand(shape).index_copy(0, places, block.tokens),
        block.log_probs.new_zeros(shape).index_copy(0, places, block.log_probs),
        block.is_new.new_zeros(shape).index_copy(0, places, block.is_new),
    )


def check_possible(chosen: Tensor, running: Tensor) -> None:
    """Raise a UserError if a chosen token of a running row has probability 0; both tensors are (rows,) or (rows,
    steps)."""
    if not chosen.numel() or chosen.min().item() > -math.inf:
        return
    impossible = (running & ~(chosen > -math.inf)).flatten(1 if chosen.dim() > 1 else 0)
    rows = (impossible.any(1) if chosen.dim() > 1 else impossible).nonzero().flatten().tolist()
    if rows:
        raise UserError(
            f"row {rows[0]} has no next token of probability above 0: all its log-probabilities are -inf, or one is"
            " NaN; loosen the filters, or look for what diverged in the model"
        )


def each_token(blocks: Iterator[Step]) -> Iterator[Tensor]:
    """Yield the tokens (rows,) of each step."""
    return (tokens.clone() for block in blocks for tokens in block.tokens.unbind(1))


def collected(blocks: Iterator[Step]) -> Sequences:
    tokens, log_probs, is_new = (torch.cat(parts, 1) for parts in zip(*blocks, strict=True))  # (rows, steps)
    return Sequences(tokens, is_new.sum(1), log_probs)
