"""Pieces of a passage as answers: which score best, how probable they are, and whether there is an answer at all. Knows no model."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Spans(NamedTuple):
    """What every piece of a passage scores: `scores[i, k]` from piece i over k + 1 of them; and what no answer does."""

    scores: Tensor
    offsets: Tensor
    none: float


def found_spans(spans: Spans, n_best: int, threshold: float) -> dict[str, Any]:
    """The best pieces [start, stop, probability], and the probability of no answer; None where one has to be given.

    p(piece) = exp(score) / Z;  p(none) = exp(none - threshold) / Z, so that the likelier one is the answer.
    """
    flat = spans.scores.flatten()
    none = -math.inf if math.isinf(threshold) else spans.none - threshold
    total = torch.cat([flat, torch.tensor([none])]).logsumexp(0)
    best, places = flat.topk(min(n_best, int((flat > -math.inf).sum())))
    found = []
    for score, place in zip(best, places.tolist(), strict=True):
        first, more = divmod(place, spans.scores.shape[1])
        found.append([int(spans.offsets[first, 0]), int(spans.offsets[first + more, 1]), float((score - total).exp())])
    return {"spans": found, "none": None if math.isinf(threshold) else float((none - total).exp()) if found else 1.0}
