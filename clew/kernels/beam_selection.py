"""The selection of a beam search step on a GPU: one kernel instead of about thirty-five small ones.

`decoding.beam_step` has the same computation in torch operations; the results are bit-identical. One program handles
one sentence: it selects the best candidates one by one, as `top_k` does, and looks up their fields by comparing
positions, since so few numbers stay in registers.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from typing import NamedTuple

import torch
from torch import Tensor

from clew.kernels.ahead import launching

try:
    import triton
    import triton.language as tl

    from clew.kernels.ahead import wait_for_others
    from clew.kernels.top_k import LEAST, _largest, _numbers
except ImportError:  # CPU builds of torch come without it
    triton = None

MOST_CANDIDATES, MOST_CHOSEN = 256, 32
"""The maximum number of continuations of a sentence's beams, and of selected candidates: a table of this many by that
many entries is in registers."""


class Hypotheses(NamedTuple):
    """Finished hypotheses of each sentence (sentences, beams), best first."""

    scores: Tensor
    log_probs: Tensor
    lengths: Tensor
    choices: Tensor


class Selection(NamedTuple):
    rows: Tensor  # (sentences * beams,) the row that each beam continues
    tokens: Tensor  # (sentences * beams,)
    running: Tensor  # (sentences, beams) log-probabilities
    ended: Hypotheses
    step: Tensor  # (sentences,)
    is_running: Tensor  # (sentences,)


def supports_beam_selection(own: Tensor, width: int) -> bool:
    """Whether the kernel supports candidates of this dtype, number and device; gradients must be disabled."""
    if not own.is_cuda or triton is None or own.get_device() != torch.cuda.current_device():
        return False
    return not torch.is_grad_enabled() and has_form(own, width)


def has_form(own: Tensor, width: int) -> bool:
    is_small = 0 < own.shape[1] * own.shape[2] <= MOST_CANDIDATES and own.shape[1] <= width <= MOST_CHOSEN
    return is_small and own.dtype == torch.float32 and len(own) > 0


def beam_selection(
    own: Tensor,
    words: Tensor,
    running: Tensor,
    ended: tuple[Tensor, Tensor, Tensor, Tensor],
    trail: Tensor,
    divisors: Tensor,
    limits: Tensor,
    step: Tensor,
    ends: Tensor,
    *,
    width: int,
    vocabulary: int,
    n_best: int,
) -> Selection:
    """Select the next beams and the finished hypotheses of every sentence.

    `own` (sentences, beams, k) are the log-probabilities of the best next tokens `words` of each beam, `running`
    (sentences, beams) those of the beams. `trail` (sentences, steps, beams) is written at `step` (sentences,).
    `divisors` are (sentences, steps, 3), `ends` (ends,).
    """
    sentences, beams, k = own.shape
    inputs = own.contiguous(), words.contiguous(), running.contiguous(), *(part.contiguous() for part in ended)
    rows, tokens = torch.empty(2, sentences * beams, dtype=torch.long, device=own.device).unbind(0)
    logs, scores, left = torch.empty(3, sentences, beams, dtype=torch.float32, device=own.device).unbind(0)
    lengths, choices = torch.empty(2, sentences, beams, dtype=torch.long, device=own.device).unbind(0)
    after, is_running = torch.empty_like(step), torch.empty(sentences, dtype=torch.bool, device=own.device)
    assert trail.is_contiguous() and divisors.is_contiguous() and limits.is_contiguous() and step.is_contiguous()
    _select[(sentences,)](
        *inputs, trail, divisors, limits, step, ends if len(ends) else words,
        rows, tokens, left, scores, logs, lengths, choices, after, is_running,
        trail.shape[1], vocabulary, n_best,
        BEAMS=beams, OWN=k, WIDTH=width, ENDS=len(ends),
        CANDIDATES=triton.next_power_of_2(beams * k), W=triton.next_power_of_2(width), B=triton.next_power_of_2(beams),
        T=triton.next_power_of_2(2 * beams + width), num_warps=1 if beams * k <= 64 else 4, **launching(),
    )  # fmt: skip
    return Selection(rows, tokens, left, Hypotheses(scores, logs, lengths, choices), after, is_running)


if triton is not None:

    @triton.jit
    def _places(numbers):
        """Return the positions of the entries that the integers encode."""
        return 0x7FFFFFFF - (numbers & 0x7FFFFFFF)

    @triton.jit
    def _looked_up(values, here):
        """Return the value at the one True place of each row of a table; 0 if there is none."""
        return tl.sum(tl.where(here, values[None, :], tl.zeros_like(values)[None, :]), 1)

    @triton.jit
    def _select(
        own, words, running, old_scores, old_logs, old_lengths, old_choices, trail, divisors, limits, step, ends,
        rows, tokens, left, scores, logs, lengths, choices, after, is_running,
        longest, vocabulary, n_best,
        BEAMS: tl.constexpr, OWN: tl.constexpr, WIDTH: tl.constexpr, ENDS: tl.constexpr,
        CANDIDATES: tl.constexpr, W: tl.constexpr, B: tl.constexpr, T: tl.constexpr, AHEAD: tl.constexpr,
    ):  # fmt: skip
        wait_for_others(AHEAD)
        sentence = tl.program_id(0).to(tl.int64)
        i = tl.arange(0, CANDIDATES)  # continuations of all beams
        j = tl.arange(0, W)  # the best of them
        b = tl.arange(0, B)  # beams
        t = tl.arange(0, T)  # candidates for the finished hypotheses
        is_real = i < BEAMS * OWN
        beam = sentence * BEAMS + i // OWN
        total = tl.load(running + beam, mask=is_real, other=0.0) + tl.load(
            own + sentence * BEAMS * OWN + i, mask=is_real, other=0.0
        )
        word = tl.load(words + sentence * BEAMS * OWN + i, mask=is_real, other=0)
        best_numbers = _largest(tl.where(is_real, _numbers(total, i), LEAST), WIDTH, W)
        is_there = _places(best_numbers)[:, None] == i[None, :]
        best = _looked_up(total, is_there)  # (W,)
        choice = _looked_up(word + beam * vocabulary, is_there)
        token = _looked_up(word, is_there)
        has_ended = j < 0
        for end in tl.static_range(ENDS):
            has_ended = has_ended | (token == tl.load(ends + end))

        alive = tl.where(has_ended, float("-inf"), best)
        best_alive = _largest(tl.where(j < WIDTH, _numbers(alive, j), LEAST), BEAMS, B)
        is_there = _places(best_alive)[:, None] == j[None, :]
        on = _looked_up(alive, is_there)  # (B,)
        on_choice = _looked_up(choice, is_there)
        is_beam = b < BEAMS
        now = tl.load(step + sentence)
        at = sentence * BEAMS + b
        tl.store(rows + at, on_choice // vocabulary, mask=is_beam)
        tl.store(tokens + at, on_choice % vocabulary, mask=is_beam)
        is_within = now < longest  # warm-up steps before a capture may pass the last step
        tl.store(trail + (sentence * longest + now) * BEAMS + b, on_choice, mask=is_beam & is_within)

        place = divisors + (sentence * longest + now) * 3
        here = tl.load(place, mask=is_within, other=1.0)
        soon = tl.load(place + 1, mask=is_within, other=1.0)
        last = tl.load(place + 2, mask=is_within, other=1.0)
        may_run = now + 1 < tl.load(limits + sentence)
        of_best = tl.where(has_ended, tl.div_rn(best, tl.zeros_like(best) + here), float("-inf"))
        of_on = tl.where(may_run, float("-inf"), tl.div_rn(on, tl.zeros_like(on) + here))
        is_old = t < BEAMS
        is_best = ((t[:, None] - BEAMS) == j[None, :]) & (j < WIDTH)[None, :]
        is_on = ((t[:, None] - BEAMS - WIDTH) == b[None, :]) & is_beam[None, :]
        score = tl.load(old_scores + sentence * BEAMS + t, mask=is_old, other=0.0)
        score += _looked_up(of_best, is_best) + _looked_up(of_on, is_on)
        log = (
            tl.load(old_logs + sentence * BEAMS + t, mask=is_old, other=0.0)
            + _looked_up(best, is_best)
            + _looked_up(on, is_on)
        )
        length = tl.where(is_old, tl.load(old_lengths + sentence * BEAMS + t, mask=is_old, other=0), now + 1)
        last_choice = tl.load(old_choices + sentence * BEAMS + t, mask=is_old, other=0)
        last_choice += _looked_up(choice, is_best) + _looked_up(on_choice, is_on)
        ranked = _largest(tl.where(t < 2 * BEAMS + WIDTH, _numbers(score, t), LEAST), BEAMS, B)
        is_there = _places(ranked)[:, None] == t[None, :]
        ended_scores = _looked_up(score, is_there)
        tl.store(scores + at, ended_scores, mask=is_beam)
        tl.store(logs + at, _looked_up(log, is_there), mask=is_beam)
        tl.store(lengths + at, _looked_up(length, is_there), mask=is_beam)
        tl.store(choices + at, _looked_up(last_choice, is_there), mask=is_beam)

        to_beat = tl.sum(tl.where(b == n_best - 1, ended_scores, 0.0), 0)
        first = tl.sum(tl.where(b == 0, on, 0.0), 0)
        may_win = (tl.div_rn(first, soon) > to_beat) | (tl.div_rn(first, last) > to_beat)
        goes = may_run & may_win
        tl.store(left + at, tl.where(goes, on, float("-inf")), mask=is_beam)
        tl.store(after + sentence, now + 1)
        tl.store(is_running + sentence, goes & (first > float("-inf")))
