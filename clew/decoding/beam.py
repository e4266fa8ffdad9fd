"""Beam search over a Stepper, all sentences and beams at once."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.state import map_tree, select_rows
from clew.core.types import State, Tree
from clew.decoding.back_pointers import Ended, histories
from clew.decoding.beam_step import EarlyStop, Frame, Search
from clew.decoding.ends import End, check_max_new, end_tokens, padded_count
from clew.decoding.engine import called, calling, repeating, standing_of
from clew.decoding.looks import looks_every
from clew.decoding.ranking import LengthForm, Ranking
from clew.decoding.stepper import CHUNK, Stepper, drop_padding, prompt_extent, read_to_end, start_of


class Hypotheses(NamedTuple):
    """Continuations of each sentence, best first.

    A length includes the end token; tokens after it are padding with the first end token. Where there are too few
    continuations, an empty place has length 0 and score -inf.
    """

    tokens: Tensor  # (sentences, hypotheses, steps)
    lengths: Tensor  # (sentences, hypotheses)
    log_probs: Tensor  # (sentences, hypotheses) sums over the tokens
    scores: Tensor  # (sentences, hypotheses) ranking scores: see `Ranking`


class Expansion(NamedTuple):
    """The candidates of one step, best first, and which of them the beams continue with; used to draw the search
    tree."""

    parents: Tensor  # (sentences, candidates) the beam that each candidate continues
    tokens: Tensor  # (sentences, candidates)
    log_probs: Tensor  # (sentences, candidates)
    scores: Tensor  # (sentences, candidates) the ranking score of each, if it ends here
    kept: Tensor  # (sentences, beams) indices of the candidates that become the next beams


class Results(NamedTuple):
    """Finished hypotheses and back-pointers of all sentences, finished sentences included."""

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
    """Beam search: the `n_best` continuations y of highest score that the beam finds (Graves 2012; Sutskever et al.
    2014).

        score(y) = log p(y | prompt) / |y|^length_penalty

    `length_form` selects another length normalisation, and `coverage_penalty` penalises source places that were left
    out: see `Ranking`. Both rank hypotheses that end; running hypotheses are kept by log p.

    Each step considers the 2 * beams most probable candidates, so that `beams` of them can continue even if each beam
    may end (with several end tokens, (1 + ends) * beams). Finished hypotheses are kept by score. A sentence is done
    when no running hypothesis can beat its n_best finished ones; hypotheses still running at `max_new` compete as they
    are. `max_new` may differ per sentence (sentences,). Rows are sentence * beams + beam. When half of the sentences
    are done, they are dropped from the batch. With a length penalty a sentence often runs up to its `max_new`, since a
    longer hypothesis could still win. With `early_stop`, only the `beams` most probable candidates of a step may end,
    and the search may stop before the best score is certain.
    """
    _check_widths(beams, n_best)
    sentences = len(prompt)
    limits, shortest, longest = _limits(max_new, prompt)
    check_max_new(shortest)
    ends = end_tokens(end, stepper.vocabulary)
    ranking = Ranking(length_penalty, length_form, coverage_penalty)
    search = Search(stepper, beams, n_best, ends, ranking, early_stop, is_watched=watch is not None)
    start, standing = start_of(stepper, state, sentences, prompt.shape[1] + longest), standing_of(search.signature)
    extent = prompt_extent(prompt, mask)
    prompt, mask = drop_padding(prompt, mask, extent)
    extent = extent.in_chunks(CHUNK)

    def begin(prompt: Tensor, mask: Tensor | None, made_from: Tree, limits: Tensor) -> tuple[Frame, tuple[Tensor, ...]]:
        log_probs, state = read_to_end(stepper, prompt, mask, start.state(made_from), extent=extent)
        rows = torch.arange(sentences, device=prompt.device).repeat_interleave(beams)
        log_probs = log_probs[rows]
        frame = search.begin(log_probs, select_rows(state, rows), limits, longest)
        return search.expand(log_probs.view(sentences, beams, -1), frame)

    signature = None if search.signature is None else ("begin", search.signature, mask is None)
    call_arguments = (prompt, mask, start.made_from, limits), signature, (longest, extent, *start.numbers), standing
    with calling(begin, *call_arguments) as (frame, outputs):
        results, places, left = (
            Results(frame.ended, frame.trail),
            torch.arange(sentences, device=prompt.device),
            longest - 1,
        )
        _show(watch, outputs)  # `places` are the sentences still running
        # Without end tokens and with equal limits, all sentences finish together.
        ends_apart = bool(ends) or shortest < longest or watch is not None
        # Reading the count would wait for the GPU; skip it there, so that the next steps can be launched meanwhile.
        count = (
            int(outputs[0].sum())
            if ends_apart and (looks_every(prompt.device) == 1 or watch is not None)
            else sentences
        )
        while left and count:
            if 2 * count <= len(places) and watch is None:
                rows = _running_rows(outputs[0], count)
                frame, places = search.selected(frame, rows), places[rows]
            with repeating(
                search, frame, steps=left, signature=search.signature, standing=standing, calm=search.calm
            ) as repeated:
                while left:
                    steps = min(looks_every(prompt.device), left)
                    blocks = repeated.run(steps)
                    left -= steps
                    outputs = tuple(block[:, -1] for block in blocks)
                    _show(watch, outputs)
                    count = int(outputs[0].sum()) if ends_apart and left else count
                    if 2 * count <= len(places) and (watch is None or not count):
                        break
                results = _written(results, places, repeated.frame)
                frame = map_tree(torch.clone, repeated.frame) if left else frame
        return _hypotheses(results, n_best, ends, stepper.vocabulary)


def _limits(max_new: int | Tensor, prompt: Tensor) -> tuple[Tensor, int, int]:
    """Return the most tokens of each sentence (sentences,), and the smallest and largest of these limits."""
    if not isinstance(max_new, Tensor):
        return torch.full_like(prompt[:, 0], max_new), max_new, max_new
    limits = max_new.to(prompt.device).expand(len(prompt))
    shortest, longest = torch.stack(limits.aminmax()).tolist()
    return limits, shortest, longest


def _show(watch: Callable[[Expansion], None] | None, outputs: tuple[Tensor, ...]) -> None:
    if watch is not None:
        watch(Expansion(*outputs[1:]))


def _running_rows(is_running: Tensor, count: int) -> Tensor:
    """Select the running sentences, padded to `padded_count`."""
    return is_running.int().argsort(descending=True, stable=True)[: padded_count(count, is_running.device)]


def _written(results: Results, places: Tensor, frame: Frame) -> Results:
    """Write the frame's results of the sentences at `places` into all results."""
    written: Results = map_tree(
        lambda part, new: part.index_copy(0, places, new), results, Results(frame.ended, frame.trail)
    )
    return written


def _hypotheses(results: Results, n_best: int, ends: tuple[int, ...], vocabulary: int) -> Hypotheses:
    """Read the best hypotheses, cut to the longest one and padded as `Hypotheses` says."""
    hypotheses: Hypotheses = called(
        partial(_read, n_best, ends, vocabulary), results, ("read", n_best, ends, vocabulary)
    )
    return hypotheses._replace(tokens=hypotheses.tokens[..., : int(hypotheses.lengths.max())])


def _read(n_best: int, ends: tuple[int, ...], vocabulary: int, ended: Ended, trail: Tensor) -> Hypotheses:
    scores, log_probs, lengths, choices = (part[:, :n_best] for part in ended)
    is_unfilled = scores == -math.inf
    lengths = lengths.masked_fill(is_unfilled, 0)
    steps = int(lengths.max()) if looks_every(trail.device) == 1 else trail.shape[1]  # on a CPU reading it is free
    tokens = histories(trail[:, :steps], lengths, choices, vocabulary)
    is_real = torch.arange(steps, device=lengths.device) < lengths[..., None]
    tokens = tokens.masked_fill(~is_real, ends[0] if ends else 0)
    return Hypotheses(tokens, lengths, log_probs.masked_fill(is_unfilled, -math.inf), scores)


def _check_widths(beams: int, n_best: int) -> None:
    if beams < 1:
        raise UserError(f"beams ({beams}) must be at least 1")
    if not 1 <= n_best <= beams:
        raise UserError(f"n_best ({n_best}) must be at least 1 and at most beams ({beams})")
