"""Answers that are spans of a passage, scored as in SQuAD (Rajpurkar et al. 2016, 2018): exact match and F1 of words.

Answers are compared without case, ASCII punctuation, articles and extra white space, each with the gold answer that
matches best. If the passage has no answer, only the empty answer is right. A gold answer that is empty after
normalisation is ignored.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clew.core.errors import UserError

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class AnswerScores:
    """The scores of each question, between 0 and 1, and whether its passage has an answer."""

    exact: tuple[float, ...]
    f1: tuple[float, ...]
    answerable: tuple[bool, ...]

    def mean(self, measure: str, *, answerable: bool | None = None) -> float:
        """The mean of `exact` or `f1` over all questions, or over those with or without an answer; 0 if there are
        none."""
        pairs = zip(getattr(self, measure), self.answerable, strict=True)
        values = [value for value, has in pairs if answerable is None or has == answerable]
        return sum(values) / max(len(values), 1)


def score_answers(answers: Sequence[str], golds: Sequence[Sequence[str]]) -> AnswerScores:
    """Scores answers, "" for no answer, against the gold answers of each question."""
    if len(answers) != len(golds):
        raise UserError(f"there must be as many answers ({len(answers)}) as questions ({len(golds)})")
    pairs = [(answer, right_answers(gold)) for answer, gold in zip(answers, golds, strict=True)]
    return AnswerScores(
        tuple(
            float(max(normalized(answer) == normalized(gold) for gold in gold_texts)) for answer, gold_texts in pairs
        ),
        tuple(max(word_f1(answer, gold) for gold in gold_texts) for answer, gold_texts in pairs),
        tuple(any(gold_texts) for _, gold_texts in pairs),
    )


def right_answers(golds: Sequence[str]) -> list[str]:
    return [gold for gold in golds if normalized(gold)] or [""]


def normalized(text: str) -> str:
    """Lower case, without punctuation, without articles, with single spaces; in this order."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def word_f1(answer: str, gold: str) -> float:
    """2 P R / (P + R) of the words that both have, counted with multiplicity; 1 if both are empty."""
    words, gold_words = normalized(answer).split(), normalized(gold).split()
    if not words or not gold_words:
        return float(words == gold_words)
    shared = (Counter(words) & Counter(gold_words)).total()
    return 2 * shared / (len(words) + len(gold_words))


def best_threshold(margins: Sequence[float], scores: Sequence[float], answerable: Sequence[bool]) -> float:
    """The threshold t with the largest mean score, when a question gets no answer if its margin is above t.

    A margin says by how much "no answer" is preferred to the best answer; `scores` are those of the best answers. A
    question without an answer scores 1 if it gets none. t lies midway between two margins; ties go to the t with the
    most answers.
    """
    if not margins:
        raise UserError("a threshold needs questions to fit; give at least one")
    order = np.argsort(margins, kind="stable")
    sorted_margins = np.asarray(margins, dtype=float)[order]
    answer_scores = np.asarray(scores, dtype=float)[order]
    no_answer_scores = 1.0 - np.asarray(answerable, dtype=float)[order]
    # The first k get answers.
    totals = np.concatenate([[0.0], answer_scores.cumsum()]) + np.concatenate(
        [no_answer_scores[::-1].cumsum()[::-1], [0.0]]
    )
    # Equal margins stay on the same side.
    is_cut = np.concatenate([[True], sorted_margins[1:] > sorted_margins[:-1], [True]])
    k = len(sorted_margins) - int(np.argmax(np.where(is_cut, totals, -1.0)[::-1]))
    if k in (0, len(sorted_margins)):
        return float(sorted_margins[0] - 1 if k == 0 else sorted_margins[-1] + 1)
    return float((sorted_margins[k - 1] + sorted_margins[k]) / 2)
