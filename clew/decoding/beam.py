"""Beam search over a Stepper, all sentences and beams at once."""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.state import select_rows
from clew.core.types import State
from clew.decoding.ends import End, check_max_new, end_tokens
from clew.decoding.ranking import LengthForm, Ranking
from clew.decoding.stepper import Stepper, prefill

EarlyStop = Literal["never", "likely", "full"]
"""When a search ends that lets only the `beams` most probable candidates of a step end, as that of `transformers` does: when no running
hypothesis can win, when none would win at its present length, or when `beams` have ended."""


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
    ranking = Ranking(length_penalty, length_form, coverage_penalty)
    sentences, vocabulary = len(prompt), stepper.vocabulary
    limits = torch.as_tensor(max_new, device=prompt.device).expand(sentences)
    longest = int(limits.max())
    check_max_new(int(limits.min()))
    ends = end_tokens(end, vocabulary, prompt.device)
    if state is None:
        state = stepper.initial_state(sentences, prompt.shape[1] + longest)
    log_probs, state = prefill(stepper, prompt, mask, state)
    first_rows = torch.arange(sentences, device=prompt.device).repeat_interleave(beams)
    log_probs, state = log_probs[first_rows], select_rows(state, first_rows)
    running, finished = _start(sentences, beams, longest, log_probs)
    results, places = finished, torch.arange(sentences, device=prompt.device)  # `places` are those of the sentences that go on
    for step in range(1, longest + 1):
        looked = len(ends) if watch is None else max(len(ends), 1)  # who watches sees what is dropped, too
        width = min((1 + looked) * beams, beams * vocabulary)
        candidates, parents = _expand(running, log_probs.view(len(places), beams, vocabulary), step, width, ranking, state)
        has_ended = torch.isin(candidates.tokens[..., step - 1], ends)
        at_limit = (limits[places] <= step)[:, None]
        may_end = has_ended if early_stop is None else (has_ended | at_limit) & (torch.arange(width, device=prompt.device) < beams)
        finished, _ = _best(_join(finished, _only(candidates, may_end)), beams)
        running, kept = _most_probable(_only(candidates, ~has_ended), beams)
        if watch is not None:
            watch(Expansion(parents, candidates.tokens[..., step - 1], candidates.log_probs, candidates.scores, kept))
        if early_stop is None:
            finished, _ = _best(_join(finished, _only(running, at_limit)), beams)
        if early_stop in ("likely", "full"):
            to_beat = finished.scores[:, -1]
            is_done = (to_beat > -math.inf if early_stop == "full" else running.scores.amax(1) <= to_beat)[:, None]
        else:
            is_done = _is_done(running, finished.scores[:, n_best - 1], step, limits[places], ranking)[:, None]
        running = _only(running, ~(at_limit | is_done))
        goes_on = (running.log_probs > -math.inf).any(1)
        count = int(goes_on.sum())
        if count == 0:
            break
        rows = parents.gather(1, kept) + torch.arange(len(places), device=prompt.device)[:, None] * beams
        sources = None
        if 2 * count <= len(places) and watch is None:
            results = _written(results, places, finished)
            sources = goes_on.nonzero()[:, 0]
            rows, places, running, finished = rows[sources], places[sources], _rows(running, sources), _rows(finished, sources)
        log_probs, state = stepper(running.tokens[..., step - 1].reshape(-1, 1), None, select_rows(state, rows.flatten(), sources))
    return _trimmed(_best(_written(results, places, finished), n_best)[0], ends)


def _start(sentences: int, beams: int, max_new: int, like: Tensor) -> tuple[Hypotheses, Hypotheses]:
    """One running hypothesis a sentence, of no tokens and log-probability 0, and no finished one."""
    tokens = torch.zeros(sentences, beams, max_new, dtype=torch.long, device=like.device)
    nothing = like.new_full((sentences, beams), -math.inf)
    finished = Hypotheses(tokens, tokens[..., 0], nothing, nothing)
    only_first = nothing.clone()
    only_first[:, 0] = 0.0
    return finished._replace(log_probs=only_first), finished


def _expand(running: Hypotheses, log_probs: Tensor, step: int, width: int, ranking: Ranking, state: State) -> tuple[Hypotheses, Tensor]:
    """The `width` most probable continuations of a sentence's beams by one token, and the beam that each continues."""
    sums = running.log_probs[..., None] + log_probs  # (sentences, beams, vocabulary)
    best, place = sums.flatten(1).topk(width)  # (sentences, width)
    parents, token = place // log_probs.shape[-1], place % log_probs.shape[-1]
    tokens = _take(running, parents).tokens
    tokens[..., step - 1] = token
    scores, penalties = best / ranking.divisor(step), ranking.penalties(state)
    if isinstance(penalties, Tensor):
        scores = scores + penalties.to(scores.dtype).view_as(running.scores).gather(1, parents)
    return Hypotheses(tokens, torch.full_like(token, step), best, scores), parents


def _is_done(running: Hypotheses, to_beat: Tensor, step: int, limits: Tensor, ranking: Ranking) -> Tensor:
    """Whether no running hypothesis of a sentence can come to a score above `to_beat` (sentences,).

    Its log-probability can only fall, and its length will be step + 1 .. limits (sentences,). For a fixed log-probability the score is
    monotone in the length, rising or falling by the signs of both, so one of the two ends bounds it. Coverage adds at most 0.
    """
    most = running.log_probs.amax(1)
    return torch.maximum(most / ranking.divisor(limits.clamp(max=step + 1)), most / ranking.divisor(limits)) <= to_beat


def _best(hypotheses: Hypotheses, count: int) -> tuple[Hypotheses, Tensor]:
    """The `count` of highest score, best first, and where they stood."""
    index = hypotheses.scores.topk(count).indices
    return _take(hypotheses, index), index


def _most_probable(hypotheses: Hypotheses, count: int) -> tuple[Hypotheses, Tensor]:
    """The `count` of highest log-probability, and where they stood: all are of one length, and how much of the source they have looked at
    is not yet said."""
    index = hypotheses.log_probs.topk(count).indices
    return _take(hypotheses, index), index


def _take(hypotheses: Hypotheses, index: Tensor) -> Hypotheses:
    """Each sentence's hypotheses at `index` (sentences, chosen)."""
    tokens, *others = hypotheses
    along = index[..., None].expand(-1, -1, tokens.shape[-1])
    return Hypotheses(tokens.gather(1, along), *(other.gather(1, index) for other in others))


def _rows(hypotheses: Hypotheses, rows: Tensor) -> Hypotheses:
    """Those of some sentences."""
    return Hypotheses(*(part[rows] for part in hypotheses))


def _written(results: Hypotheses, places: Tensor, found: Hypotheses) -> Hypotheses:
    """All results, with what was found for the sentences at `places`."""
    return Hypotheses(*(part.index_copy(0, places, new) for part, new in zip(results, found, strict=True)))


def _join(first: Hypotheses, second: Hypotheses) -> Hypotheses:
    return Hypotheses(*(torch.cat(pair, 1) for pair in zip(first, second, strict=True)))


def _only(hypotheses: Hypotheses, condition: Tensor) -> Hypotheses:
    """Those for which `condition` holds; the places of the others count as unfilled."""
    return hypotheses._replace(
        log_probs=hypotheses.log_probs.masked_fill(~condition, -math.inf), scores=hypotheses.scores.masked_fill(~condition, -math.inf)
    )


def _trimmed(hypotheses: Hypotheses, ends: Tensor) -> Hypotheses:
    """No more columns than the longest needs, and the padding that `Hypotheses` promises."""
    lengths = hypotheses.lengths.masked_fill(hypotheses.scores == -math.inf, 0)
    steps = int(lengths.max())
    is_real = torch.arange(steps, device=lengths.device) < lengths[..., None]
    padding = ends[0] if len(ends) else torch.zeros_like(lengths[0, 0])
    return hypotheses._replace(tokens=torch.where(is_real, hypotheses.tokens[..., :steps], padding), lengths=lengths)


def _check_widths(beams: int, n_best: int) -> None:
    if beams < 1:
        raise UserError(f"beams ({beams}) must be at least 1")
    if not 1 <= n_best <= beams:
        raise UserError(f"n_best ({n_best}) must be at least 1 and at most beams ({beams})")
