"""Pieces of a passage as answers: which score best, how probable they are, and whether there is an answer at all. Knows no model."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.data.examples import Question


class Spans(NamedTuple):
    """What every piece of a passage scores: `scores[i, k]` from piece i over k + 1 of them; and what no answer does."""

    scores: Tensor
    offsets: Tensor
    none: float


@dataclass(frozen=True)
class AnswerSpan:
    """The characters [start, stop) of a passage, and how probable it is that these are the answer."""

    text: str
    start: int
    stop: int
    probability: float


@dataclass(frozen=True)
class AnsweredQuestion:
    """The answer to a question, None where the passage has none; and the likeliest pieces, best first. `no_answer` is the probability
    that there is none, where that may be."""

    id: str
    question: str
    answer: AnswerSpan | None
    n_best: tuple[AnswerSpan, ...]
    no_answer: float | None

    @property
    def text(self) -> str:
        return "" if self.answer is None else self.answer.text

    @property
    def probability(self) -> float:
        return self.answer.probability if self.answer is not None else self.no_answer or 0.0

    def __str__(self) -> str:
        return self.text


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


def answered(example: Question, found: Any) -> AnsweredQuestion:
    """What was found, as texts of the passage."""
    spans = tuple(AnswerSpan(example.passage[start:stop], start, stop, share) for start, stop, share in found["spans"])
    none = found["none"]
    has_answer = bool(spans) and (none is None or spans[0].probability >= none)
    return AnsweredQuestion(example.id, example.question, spans[0] if has_answer else None, spans, none)
