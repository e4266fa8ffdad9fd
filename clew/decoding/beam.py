"""Beam search over a Stepper, all sentences and beams at once."""

import math
from collections.abc import Callable, Hashable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.state import map_tree, select_rows
from clew.core.types import State
from clew.decoding.ends import End, check_max_new, constant, end_tokens
from clew.decoding.engine import looks_every, repeating
from clew.decoding.ranking import LengthForm, Ranking
from clew.decoding.stepper import Stepper, prefill, signature_of

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
    sentences = len(prompt)
    limits = torch.as_tensor(max_new, device=prompt.device).expand(sentences)
    longest = int(limits.max())
    check_max_new(int(limits.min()))
    ends = tuple(end_tokens(end, stepper.vocabulary, prompt.device).tolist())
    ranking = Ranking(length_penalty, length_form, coverage_penalty)
    search = Search(stepper, beams, n_best, ends, ranking, early_stop, is_watched=watch is not None)
    if state is None:
        state = stepper.initial_state(sentences, prompt.shape[1] + longest)
    log_probs, state = prefill(stepper, prompt, mask, state)
    first_rows = torch.arange(sentences, device=prompt.device).repeat_interleave(beams)
    frame = search.begin(log_probs[first_rows], select_rows(state, first_rows), limits, longest)
    frame, outputs = search.expand(log_probs[first_rows].view(sentences, beams, -1), frame)
    results, places, left = frame.finished, torch.arange(sentences, device=prompt.device), longest - 1
    _show(watch, outputs)  # `places` are those of the sentences that go on
    while left and (count := int(outputs[0].sum())):
        if 2 * count <= len(places) and watch is None:
            results = _written(results, places, frame.finished)
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
            frame = map_tree(torch.clone, repeated.frame)
    results = _written(results, places, frame.finished)
    return _trimmed(_best(results, n_best)[0], ends)


class Frame(NamedTuple):
    """Between two steps: the beams of every sentence and their state, the best that have ended, and how many tokens there are."""

    tokens: Tensor  # (rows,) the last token of each beam, which is read next
    running: Hypotheses
    finished: Hypotheses
    limits: Tensor  # (sentences,)
    step: Tensor  # (sentences,) all alike: every leaf has a row a sentence or a beam
    state: State


class Search:
    """One step of all beams: their last tokens are read, and the most probable continuations kept.

    `__call__` gives, with the next frame, which sentences go on (sentences,), and where the search is watched the fields of an Expansion.
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
        looked = max(len(ends), 1) if is_watched else len(ends)  # who watches sees what is dropped, too
        self.width = min((1 + looked) * beams, beams * stepper.vocabulary)
        inner = signature_of(stepper)
        self.signature: Hashable = None
        if inner is not None and not is_watched:
            self.signature = ("beam", inner, beams, n_best, ends, ranking, early_stop)

    def begin(self, log_probs: Tensor, state: State, limits: Tensor, longest: int) -> Frame:
        running, finished = _start(len(limits), self.beams, longest, log_probs)
        return Frame(running.tokens[..., 0].flatten(), running, finished, limits.clone(), torch.zeros_like(limits), state)

    def __call__(self, frame: Frame, fed: Tensor | None) -> tuple[Frame, tuple[Tensor, ...]]:
        log_probs, state = self.stepper(frame.tokens[:, None], None, frame.state)
        return self.expand(log_probs[:, -1].view(*frame.running.scores.shape, -1), frame._replace(state=state))

    def expand(self, log_probs: Tensor, frame: Frame) -> tuple[Frame, tuple[Tensor, ...]]:
        """`log_probs` (sentences, beams, vocabulary) are those of the next token."""
        step, device = frame.step + 1, log_probs.device
        candidates, parents = _expand(frame.running, log_probs, step, self.width, self.ranking, frame.state)
        new_tokens = candidates.tokens.gather(2, (step - 1)[:, None, None].expand(-1, self.width, 1))[..., 0]
        has_ended = torch.zeros_like(new_tokens, dtype=torch.bool)
        if self.ends:
            has_ended = (new_tokens[..., None] == constant(self.ends, device)).any(-1)
        at_limit = (frame.limits <= step)[:, None]
        may_end = has_ended
        if self.early_stop is not None:
            may_end = (has_ended | at_limit) & (torch.arange(self.width, device=device) < self.beams)
        finished, _ = _best(_join(frame.finished, _only(candidates, may_end)), self.beams)
        running, kept = _most_probable(_only(candidates, ~has_ended), self.beams)
        if self.early_stop is None:
            finished, _ = _best(_join(finished, _only(running, at_limit)), self.beams)
        if self.early_stop in ("likely", "full"):
            to_beat = finished.scores[:, -1]
            is_done = (to_beat > -math.inf if self.early_stop == "full" else running.scores.amax(1) <= to_beat)[:, None]
        else:
            is_done = _is_done(running, finished.scores[:, self.n_best - 1], step, frame.limits, self.ranking)[:, None]
        running = _only(running, ~(at_limit | is_done))
        goes_on = (running.log_probs > -math.inf).any(1)
        rows = parents.gather(1, kept) + torch.arange(len(step), device=device)[:, None] * self.beams
        new = Frame(new_tokens.gather(1, kept).flatten(), running, finished, frame.limits, step, select_rows(frame.state, rows.flatten()))
        seen = (parents, new_tokens, candidates.log_probs, candidates.scores, kept) if self.is_watched else ()
        return new, (goes_on, *seen)

    def selected(self, frame: Frame, sentences: Tensor) -> Frame:
        """The frame of some sentences. A sentence that is done may stand in it to fill it up."""
        rows = (sentences[:, None] * self.beams + torch.arange(self.beams, device=sentences.device)).flatten()
        return Frame(
            frame.tokens[rows],
            _rows(frame.running, sentences),
            _rows(frame.finished, sentences),
            frame.limits[sentences],
            frame.step[sentences],
            select_rows(frame.state, rows, sentences),
        )


def _show(watch: Callable[[Expansion], None] | None, outputs: tuple[Tensor, ...]) -> None:
    if watch is not None:
        watch(Expansion(*outputs[1:]))


def _going_on(goes_on: Tensor, count: int) -> Tensor:
    """The sentences that go on; on a GPU a power of two of them, filled up with others, so that shapes repeat."""
    filled = 2 ** (count - 1).bit_length() if goes_on.device.type == "cuda" else count
    return goes_on.int().argsort(descending=True, stable=True)[:filled]


def _start(sentences: int, beams: int, max_new: int, like: Tensor) -> tuple[Hypotheses, Hypotheses]:
    """One running hypothesis a sentence, of no tokens and log-probability 0, and no finished one."""
    tokens = torch.zeros(sentences, beams, max_new, dtype=torch.long, device=like.device)
    nothing = like.new_full((sentences, beams), -math.inf)
    finished = Hypotheses(tokens, tokens[..., 0].clone(), nothing, nothing)
    only_first = nothing.clone()
    only_first[:, 0] = 0.0
    return finished._replace(log_probs=only_first), finished


def _expand(running: Hypotheses, log_probs: Tensor, step: Tensor, width: int, ranking: Ranking, state: State) -> tuple[Hypotheses, Tensor]:
    """The `width` most probable continuations of a sentence's beams by one token, and the beam that each continues."""
    # First each beam's own: a maximum over a sentence's beams times the vocabulary would be by far the slowest part of a step on a GPU.
    own, tokens_of_own = log_probs.topk(min(width, log_probs.shape[-1]))  # (sentences, beams, width)
    best, place = (running.log_probs[..., None] + own).flatten(1).topk(width)  # (sentences, width)
    parents, token = place // own.shape[-1], tokens_of_own.flatten(1).gather(1, place)
    place = (step - 1)[:, None, None].expand(-1, width, 1)
    tokens = _take(running, parents).tokens.scatter(2, place, token[..., None])
    scores, penalties = best / ranking.divisor(step.to(best.dtype))[:, None], ranking.penalties(state)
    if isinstance(penalties, Tensor):
        scores = scores + penalties.to(scores.dtype).view_as(running.scores).gather(1, parents)
    return Hypotheses(tokens, step[:, None].expand_as(token), best, scores), parents


def _is_done(running: Hypotheses, to_beat: Tensor, step: Tensor, limits: Tensor, ranking: Ranking) -> Tensor:
    """Whether no running hypothesis of a sentence can come to a score above `to_beat` (sentences,).

    Its log-probability can only fall, and its length will be step + 1 .. limits (sentences,). For a fixed log-probability the score is
    monotone in the length, rising or falling by the signs of both, so one of the two ends bounds it. Coverage adds at most 0.
    """
    most = running.log_probs.amax(1)
    return torch.maximum(most / ranking.divisor(torch.minimum(limits, step + 1)), most / ranking.divisor(limits)) <= to_beat


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


def _trimmed(hypotheses: Hypotheses, ends: tuple[int, ...]) -> Hypotheses:
    """No more columns than the longest needs, and the padding that `Hypotheses` promises."""
    lengths = hypotheses.lengths.masked_fill(hypotheses.scores == -math.inf, 0)
    steps = int(lengths.max())
    is_real = torch.arange(steps, device=lengths.device) < lengths[..., None]
    padding = ends[0] if ends else 0
    return hypotheses._replace(tokens=torch.where(is_real, hypotheses.tokens[..., :steps], padding), lengths=lengths)


def _check_widths(beams: int, n_best: int) -> None:
    if beams < 1:
        raise UserError(f"beams ({beams}) must be at least 1")
    if not 1 <= n_best <= beams:
        raise UserError(f"n_best ({n_best}) must be at least 1 and at most beams ({beams})")
