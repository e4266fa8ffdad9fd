"""One step of beam search: a function from one frame of tensors to the next, which `engine` repeats."""

import math
from collections.abc import Hashable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clew.core.state import map_tree, reorder, select_rows
from clew.core.types import State
from clew.decoding.back_pointers import Ended, best_of
from clew.decoding.ends import constant
from clew.decoding.ranking import Ranking
from clew.decoding.stepper import Stepper, calm_steps, signature_of
from clew.kernels import runs_equations
from clew.kernels.beam_selection import beam_selection, supports_beam_selection

EarlyStop = Literal["never", "likely", "full"]
"""Stopping rule of a search in which only the `beams` most probable candidates of a step may end, as in `transformers`.

never: stop when no running hypothesis can win; likely: when none would win at its present length; full: when `beams`
hypotheses have ended."""


class Frame(NamedTuple):
    """The state of the search between two steps: beams, their model state, the best finished hypotheses and the number
    of steps.

    Every leaf has one row per sentence or per beam. `trail` is written in place.
    """

    tokens: Tensor  # (rows,) the last token of each beam, read by the next step
    log_probs: Tensor  # (sentences, beams) of the running hypotheses, best first; -inf in an empty place
    ended: Ended  # (sentences, beams)
    trail: Tensor  # (sentences, longest, beams) the choices of every step: see `back_pointers`
    divisors: Tensor  # (sentences, longest, 3): see `_divisors`
    limits: Tensor  # (sentences,)
    step: Tensor  # (sentences,) all equal
    state: State


class Search:
    """One step of all beams: read their last tokens and keep the most probable continuations.

    `__call__` returns the next frame and a tuple: which sentences are still running (sentences,), then, if the search
    is watched, the fields of an Expansion.
    """

    def __init__(
        self,
        stepper: Stepper,
        beams: int,
        n_best: int,
        ends: tuple[int, ...],
        ranking: Ranking,
        early_stop: EarlyStop | None,
        is_watched: bool,
    ):
        self.stepper, self.beams, self.n_best, self.ends, self.ranking = stepper, beams, n_best, ends, ranking
        self.early_stop, self.is_watched = early_stop, is_watched
        # A watched search also shows candidates that are dropped.
        num_ends = max(len(ends), 1) if is_watched else len(ends)
        self.width = min((1 + num_ends) * beams, beams * stepper.vocabulary)
        inner = signature_of(stepper)
        self.signature: Hashable = None
        if inner is not None and not is_watched:
            self.signature = ("beam", inner, beams, n_best, ends, ranking, early_stop)

    def calm(self, frame: Frame) -> int:
        return calm_steps(self.stepper, frame.state)

    def begin(self, log_probs: Tensor, state: State, limits: Tensor, longest: int) -> Frame:
        """Return a frame with one running hypothesis per sentence, empty and of log-probability 0, and no finished
        one."""
        trail = limits.new_zeros(len(limits), longest, self.beams)
        nothing, zeros = log_probs.new_full((len(limits), self.beams), -math.inf), torch.zeros_like(trail[:, 0])
        running = nothing.clone()
        running[:, 0] = 0.0
        ended, divisors = (
            Ended(nothing, nothing, zeros, zeros),
            _divisors(self.ranking, limits, longest, log_probs.dtype),
        )
        return Frame(zeros.flatten(), running, ended, trail, divisors, limits.clone(), torch.zeros_like(limits), state)

    def __call__(self, frame: Frame, fed: Tensor | None) -> tuple[Frame, tuple[Tensor, ...]]:
        log_probs, state = self.stepper(frame.tokens[:, None], None, frame.state)
        return self.expand(log_probs[:, -1].view(*frame.log_probs.shape, -1), frame._replace(state=state))

    def expand(self, log_probs: Tensor, frame: Frame) -> tuple[Frame, tuple[Tensor, ...]]:
        """`log_probs` (sentences, beams, vocabulary) are those of the next token."""
        vocabulary = self.stepper.vocabulary
        # Top-k of each beam first: one over all beams times the vocabulary would be by far the slowest part of a step
        # on a GPU.
        own, words = log_probs.topk(min(self.width, vocabulary))  # (sentences, beams, width)
        if self.takes_kernel(own):
            return self.expand_by_kernel(own, words, frame)
        step = frame.step + 1
        best, choices = self.candidates(own, words, frame.log_probs)
        has_ended = ((choices % vocabulary)[..., None] == constant(self.ends, choices.device)).any(-1)
        # Running hypotheses have equal lengths, so log p ranks them; only those that end are ranked by score.
        running, kept = best.masked_fill(has_ended, -math.inf).topk(self.beams)
        chosen = choices.gather(1, kept)
        rows, tokens = (chosen // vocabulary).flatten(), (chosen % vocabulary).flatten()
        frame.trail.index_copy_(1, frame.step[:1], chosen[:, None])

        divisors = frame.divisors.index_select(1, frame.step[:1])[:, 0]  # (sentences, 3)
        scores, running_scores = best / divisors[:, :1], running / divisors[:, :1]
        if isinstance(penalties := self.ranking.penalties(frame.state), Tensor):
            penalties = penalties.to(best.dtype)
            scores, running_scores = (
                scores + penalties[choices // vocabulary],
                running_scores + penalties[rows].view_as(running),
            )
        may_run, may_end = (step < frame.limits)[:, None], has_ended
        if self.early_stop is not None:
            may_end = (has_ended | ~may_run) & (torch.arange(self.width, device=step.device) < self.beams)
        length = step[:, None]
        groups = [frame.ended, Ended(scores.masked_fill(~may_end, -math.inf), best, length.expand_as(choices), choices)]
        if self.early_stop is None:
            groups.append(
                Ended(running_scores.masked_fill(may_run, -math.inf), running, length.expand_as(chosen), chosen)
            )
        ended = best_of(groups, self.beams)
        may_win = self.may_win(running, running_scores, ended.scores, divisors)
        running = running.masked_fill(~(may_run & may_win), -math.inf)
        is_running = running[:, 0] > -math.inf
        new = Frame(tokens, running, ended, frame.trail, frame.divisors, frame.limits, step, reorder(frame.state, rows))
        if not self.is_watched:
            return new, (is_running,)
        return new, (is_running, choices // vocabulary % self.beams, choices % vocabulary, best, scores, kept)

    def takes_kernel(self, own: Tensor) -> bool:
        is_plain = self.early_stop is None and not self.ranking.coverage_penalty and not self.is_watched
        return is_plain and not runs_equations() and supports_beam_selection(own, self.width)

    def expand_by_kernel(self, own: Tensor, words: Tensor, frame: Frame) -> tuple[Frame, tuple[Tensor, ...]]:
        """Do the rest of `expand` in one kernel."""
        ends = constant(self.ends, own.device)
        inputs = own, words, frame.log_probs, frame.ended, frame.trail, frame.divisors, frame.limits, frame.step, ends
        selection = beam_selection(*inputs, width=self.width, vocabulary=self.stepper.vocabulary, n_best=self.n_best)
        ended, state = Ended(*selection.ended), reorder(frame.state, selection.rows)
        new = Frame(
            selection.tokens, selection.running, ended, frame.trail, frame.divisors, frame.limits, selection.step, state
        )
        return new, (selection.is_running,)

    def candidates(self, own: Tensor, words: Tensor, running: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and choices of the `width` most probable one-token continuations of each sentence,
        best first."""
        vocabulary = self.stepper.vocabulary
        choices = words + torch.arange(0, running.numel() * vocabulary, vocabulary, device=words.device).view(
            *running.shape, 1
        )
        best, place = (running[..., None] + own).flatten(1).topk(self.width)  # (sentences, width)
        return best, choices.flatten(1).gather(1, place)

    def may_win(self, running: Tensor, scores: Tensor, to_beat: Tensor, divisors: Tensor) -> Tensor:
        """Whether a running hypothesis may still enter the result (sentences, 1); `running` are log-probabilities, best
        first."""
        if self.early_stop == "full":
            return to_beat[:, -1:] == -math.inf
        if self.early_stop == "likely":
            return scores.amax(1, keepdim=True) > to_beat[:, -1:]
        return _bound(running, divisors) > to_beat[:, self.n_best - 1 : self.n_best]

    def selected(self, frame: Frame, sentences: Tensor) -> Frame:
        """Select sentences of a frame. Finished sentences may be among them as padding."""
        rows = (sentences[:, None] * self.beams + torch.arange(self.beams, device=sentences.device)).flatten()
        log_probs, ended, trail, divisors, limits, step = map_tree(lambda leaf: leaf[sentences], frame[1:-1])
        state = select_rows(frame.state, rows, sentences)
        return Frame(frame.tokens[rows], log_probs, ended, trail, divisors, limits, step, state)


def _divisors(ranking: Ranking, limits: Tensor, longest: int, dtype: torch.dtype) -> Tensor:
    """Return the divisors of log-probabilities after each step (sentences, longest, 3): at the present length, at the
    next length and at the limit, which are the two ends of the lengths still possible."""
    length = torch.arange(1, 1 + longest, device=limits.device).expand(len(limits), -1)
    limit = limits[:, None].expand_as(length)
    divisors: Tensor = ranking.divisor(torch.stack([length, torch.minimum(length + 1, limit), limit], -1).to(dtype))
    return divisors


def _bound(running: Tensor, divisors: Tensor) -> Tensor:
    """Upper bound (sentences, 1) of the score that a running hypothesis can reach, with this step's `divisors`
    (sentences, 3).

    Its log-probability can only fall. For a fixed log-probability the score is monotone in the length, rising or
    falling by the signs of both, so one of the two ends bounds it. The bound also holds with coverage, which adds at
    most 0.
    """
    return (running[:, :1] / divisors[:, 1:]).amax(1, keepdim=True)
