"""Beam search over a Stepper, all sentences and beams at once."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.state import map_tree, select_rows
from clew.core.types import State
from clew.decoding.back_pointers import Ended, histories
from clew.decoding.beam_step import EarlyStop, Frame, Search
from clew.decoding.ends import End, check_max_new, end_tokens
from clew.decoding.engine import called, looks_every, repeating
from clew.decoding.ranking import LengthForm, Ranking
from clew.decoding.stepper import Stepper, prefill


class Hypotheses(NamedTuple):
    """Some continuations of each sentence, best first.

    A length counts the end token; tokens after it are the first end token. A place that no continuation fills, because there are not so
    many, has length 0 and score -inf.
    """

    tokens: Tensor  # (sentences, hypotheses, steps)
    lengths: Tensor  # (sentences, hypotheses)
    log_probs: Tensor  # (sentences, hypotheses) sums over the tokens
    scores: Tensor  # (sentences, hypotheses) what they compete by: see `Ranking`


class Expansion(NamedTuple):
    """What one step looked at, for drawing the tree: candidates, best first, and which of them the beams go on with."""

    parents: Tensor  # (sentences, candidates) the beam that each one continues
    tokens: Tensor  # (sentences, candidates)
    log_probs: Tensor  # (sentences, candidates)
    scores: Tensor  # (sentences, candidates) what each competes by, if it ends here
    kept: Tensor  # (sentences, beams) candidates that are the next step's beams


class Results(NamedTuple):
    """What is kept of every sentence, those that are done among them."""

    ended: Ended
    trail: Tensor  # (sentences, longest, beams)


@torch.no_grad()
def beam_search(
    stepper: Stepper,
    prompt: Tensor,
    mask: Tensor | None = None,
    state: State = None,
    *,
    beams: int,
    max_new: int | Tensor,
    end: End,
    length_penalty: float = 1.0,
    length_form: LengthForm = "power",
    coverage_penalty: float = 0.0,
    n_best: int = 1,
    early_stop: EarlyStop | None = None,
    watch: Callable[[Expansion], None] | None = None,
) -> Hypotheses:
    """The `n_best` continuations y that a beam finds with the highest score (Graves 2012; Sutskever et al. 2014).

        score(y) = log p(y | prompt) / |y|^length_penalty

    `length_form` divides by another function of the length, and `coverage_penalty` adds what was left out of a source: see `Ranking`. Both
    weigh hypotheses that end; those that go on are the most probable.

    Each step looks at the 2 * beams most probable candidates, so that `beams` of them go on although each beam may end (with several end
    tokens, (1 + ends) * beams). Those that end are kept by score. A sentence is done when no running hypothesis can still beat its n_best
    kept ones; those that run at `max_new` compete as they are. `max_new` may be each sentence's own (sentences,). Rows are
    sentence * beams + beam; where half of the sentences are done, the others go on without them. With `early_stop` only the `beams` most
    probable candidates of a step may end, and the search may end before the best score is certain.
    """
    _check_widths(beams, n_best)
    sentences = len(prompt)
    limits = torch.as_tensor(max_new, device=prompt.device).expand(sentences)
    longest = int(limits.max())
    check_max_new(int(limits.min()))
    ends = tuple(end_tokens(end, stepper.vocabulary, prompt.device).tolist())
    ranking = Ranking(length_penalty, length_form, coverage_penalty)
    search = Search(stepper, beams, n_best, ends, ranking, early_stop, is_watched=watch is not None)
    if state is None:
        state = stepper.initial_state(sentences, prompt.shape[1] + longest)

    def begin(prompt: Tensor, mask: Tensor | None, state: State, limits: Tensor) -> tuple[Frame, tuple[Tensor, ...]]:
        log_probs, state = prefill(stepper, prompt, mask, state)
        rows = torch.arange(sentences, device=prompt.device).repeat_interleave(beams)
        log_probs = log_probs[rows]
        frame = search.begin(log_probs, select_rows(state, rows), limits, longest)
        return search.expand(log_probs.view(sentences, beams, -1), frame)

    # A mask is looked at by the host.
    signature = ("begin", search.signature, longest) if mask is None and search.signature is not None else None
    frame, outputs = called(begin, (prompt, mask, state, limits), signature)
    results, places, left = Results(frame.ended, frame.trail), torch.arange(sentences, device=prompt.device), longest - 1
    _show(watch, outputs)  # `places` are those of the sentences that go on
    while left and (count := int(outputs[0].sum())):
        if 2 * count <= len(places) and watch is None:
            rows = _going_on(outputs[0], count)
            frame, places = search.selected(frame, rows), places[rows]
        with repeating(search, frame, steps=left, signature=search.signature) as repeated:
            while left:
                steps = min(looks_every(prompt.device), left)
                blocks = repeated.run(steps)
                left -= steps
                outputs = tuple(block[:, -1] for block in blocks)
                _show(watch, outputs)
                if 2 * int(outputs[0].sum()) <= len(places) and (watch is None or not bool(outputs[0].any())):
                    break
            results = _written(results, places, repeated.frame)
            frame = map_tree(torch.clone, repeated.frame) if left else frame
    return _hypotheses(results, n_best, ends, stepper.vocabulary)


def _show(watch: Callable[[Expansion], None] | None, outputs: tuple[Tensor, ...]) -> None:
    if watch is not None:
        watch(Expansion(*outputs[1:]))


def _going_on(goes_on: Tensor, count: int) -> Tensor:
    """The sentences that go on; on a GPU a power of two of them, filled up with others, so that shapes repeat."""
    filled = 2 ** (count - 1).bit_length() if goes_on.device.type == "cuda" else count
    return goes_on.int().argsort(descending=True, stable=True)[:filled]


def _written(results: Results, places: Tensor, frame: Frame) -> Results:
    """All results, with those of the sentences at `places`."""
    written: Results = map_tree(lambda part, new: part.index_copy(0, places, new), results, Results(frame.ended, frame.trail))
    return written


def _hypotheses(results: Results, n_best: int, ends: tuple[int, ...], vocabulary: int) -> Hypotheses:
    """The best, with no more columns than the longest needs, and the padding that `Hypotheses` promises."""
    scores, log_probs, lengths, choices = (part[:, :n_best] for part in results.ended)
    is_unfilled = scores == -math.inf
    lengths = lengths.masked_fill(is_unfilled, 0)
    steps = int(lengths.max())
    tokens = histories(results.trail[:, :steps], lengths, choices, vocabulary)
    is_real = torch.arange(steps, device=lengths.device) < lengths[..., None]
    tokens = tokens.masked_fill(~is_real, ends[0] if ends else 0)
    return Hypotheses(tokens, lengths, log_probs.masked_fill(is_unfilled, -math.inf), scores)


def _check_widths(beams: int, n_best: int) -> None:
    if beams < 1:
        raise UserError(f"beams ({beams}) must be at least 1")
    if not 1 <= n_best <= beams:
        raise UserError(f"n_best ({n_best}) must be at least 1 and at most beams ({beams})")
