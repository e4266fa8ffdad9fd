"""Answer spans of a passage: the best ones, their probabilities, and the probability of no answer. Knows no model."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Spans(NamedTuple):
    """Scores of all spans of a passage: `scores[i, k]` is that of k + 1 pieces from piece i, `none` that of no
    answer."""

    scores: Tensor
    offsets: Tensor
    none: float


def best_spans(spans: Spans, n_best: int, threshold: float) -> dict[str, Any]:
    """Return the best spans as [start, stop, probability], and the probability of no answer (None if an answer is
    required).

        p(piece) = exp(score) / Z;  p(none) = exp(none - threshold) / Z

    The more probable of the two is the answer.
    """
    flat = spans.scores.flatten()
    none = -math.inf if math.isinf(threshold) else spans.none - threshold
    total = torch.cat([flat, torch.tensor([none])]).logsumexp(0)
    best, indices = flat.topk(min(n_best, int((flat > -math.inf).sum())))
    answers = []
    for score, index in zip(best, indices.tolist(), strict=True):
        first, extra = divmod(index, spans.scores.shape[1])
        answers.append(
            [int(spans.offsets[first, 0]), int(spans.offsets[first + extra, 1]), float((score - total).exp())]
        )
    return {
        "spans": answers,
        "none": None if math.isinf(threshold) else float((none - total).exp()) if answers else 1.0,
    }
