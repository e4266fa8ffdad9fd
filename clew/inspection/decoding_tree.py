"""The tree of a beam search: every hypothesis that a step considered, kept or dropped, with its log-probability.

    log p(y_1 .. y_t) = log p(y_1 .. y_{t-1}) + log p(y_t | y_1 .. y_{t-1})

It is built from what `decoding.beam.beam_search` passes to `watch`; nothing is searched again. Knows no model.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from torch import Tensor

from clew.decoding.beam import Expansion, Hypotheses, beam_search
from clew.decoding.ranking import LengthForm
from clew.decoding.stepper import Stepper
from clew.drawing.views import Branch


class Hypothesis(NamedTuple):
    """A sequence of tokens including its end, its log-probability and its ranking score."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float


class SearchTree(NamedTuple):
    """All hypotheses as branches, the root first, and the results of the search, best first."""

    nodes: list[Branch]
    hypotheses: list[Hypothesis]


def search_tree(
    stepper: Stepper,
    prompt: Tensor,
    *,
    beams: int,
    max_new: int,
    ends: Sequence[int],
    length_penalty: float = 1.0,
    length_form: LengthForm = "power",
    coverage_penalty: float = 0.0,
    name: Callable[[int], str] = str,
) -> SearchTree:
    """Run a beam search after a prompt (1, length) and return its tree; `name` gives the display name of a token."""
    expansions: list[Expansion] = []
    best = beam_search(
        stepper,
        prompt,
        beams=beams,
        max_new=max_new,
        end=list(ends),
        length_penalty=length_penalty,
        length_form=length_form,
        coverage_penalty=coverage_penalty,
        n_best=beams,
        watch=expansions.append,
    )
    results = hypotheses_of(best)
    return SearchTree(build_branches(expansions, set(ends), results[0].tokens if results else (), name), results)


def hypotheses_of(best: Hypotheses) -> list[Hypothesis]:
    columns = (part[0].tolist() for part in best)
    return [
        Hypothesis(tuple(tokens[:length]), log_prob, score)
        for tokens, length, log_prob, score in zip(*columns, strict=True)
        if length
    ]


def build_branches(
    expansions: Sequence[Expansion], ends: Collection[int], best: tuple[int, ...], name: Callable[[int], str]
) -> list[Branch]:
    """Build the tree from the steps of one sentence's search. A candidate that ends is always marked as kept; another
    one if a beam continues it."""
    nodes, paths = [Branch(None, "", 0.0, best=bool(best))], [tuple[int, ...]()]
    beams: dict[int, int] = {0: 0}  # the node of each beam
    for step, expansion in enumerate(expansions, start=1):
        parents, tokens, log_probs, scores, kept = (part[0].tolist() for part in expansion)
        grown_here: dict[int, int] = {}
        for candidate, (beam, token, log_prob, score) in enumerate(
            zip(parents, tokens, log_probs, scores, strict=True)
        ):
            if log_prob == -math.inf:
                continue
            parent = beams[beam]
            paths.append((*paths[parent], token))
            ended = token in ends
            note = f"p {math.exp(log_prob - nodes[parent].score):.3g}"
            note += f", ends with score {score:.4g}" if ended else ""
            grown_here[candidate] = len(nodes)
            nodes.append(
                Branch(parent, name(token), log_prob, ended or candidate in kept, paths[-1] == best[:step], note)
            )
        beams = {beam: grown_here[candidate] for beam, candidate in enumerate(kept) if candidate in grown_here}
    return nodes
