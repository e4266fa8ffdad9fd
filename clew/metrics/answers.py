"""Answers that are a piece of a passage, as SQuAD scores them (Rajpurkar et al. 2016, 2018): exact match and F1 of words.

Both are of answers without capitals, punctuation (that of ASCII), articles and superfluous white space, against the right answer that
suits best. Where the passage has no answer, the empty answer alone is right; a right answer of which nothing is left is none.
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
    """Of each question, between 0 and 1, and whether its passage has an answer."""

    exact: tuple[float, ...]
    f1: tuple[float, ...]
    answerable: tuple[bool, ...]

    def mean(self, measure: str, *, answerable: bool | None = None) -> float:
        """Of `exact` or `f1`, over all questions or over those that have an answer, or have none; 0 where there are no such questions."""
        pairs = zip(getattr(self, measure), self.answerable, strict=True)
        values = [value for value, has in pairs if answerable is None or has == answerable]
        return sum(values) / max(len(values), 1)


def score_answers(found: Sequence[str], golds: Sequence[Sequence[str]]) -> AnswerScores:
    """Answers, "" where none was given, against the right ones of each question."""
    if len(found) != len(golds):
        raise UserError(f"answers ({len(found)}) must be as many as questions ({len(golds)})")
    pairs = [(answer, right_answers(gold)) for answer, gold in zip(found, golds, strict=True)]
    return AnswerScores(
        tuple(float(max(normalized(answer) == normalized(gold) for gold in gold_texts)) for answer, gold_texts in pairs),
        tuple(max(word_f1(answer, gold) for gold in gold_texts) for answer, gold_texts in pairs),
        tuple(any(gold_texts) for _, gold_texts in pairs),
    )


def right_answers(golds: Sequence[str]) -> list[str]:
    return [gold for gold in golds if normalized(gold)] or [""]


def normalized(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces; in this order."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def word_f1(found: str, gold: str) -> float:
    """2 P R / (P + R) of the words that both have, each as often as the one that has it less; of nothing and nothing 1."""
    words, wanted = normalized(found).split(), normalized(gold).split()
    if not words or not wanted:
        return float(words == wanted)
    shared = (Counter(words) & Counter(wanted)).total()
    return 2 * shared / (len(words) + len(wanted))


def best_threshold(margins: Sequence[float], scores: Sequence[float], answerable: Sequence[bool]) -> float:
    """The t that makes the mean score largest, where a question is said to have no answer if its margin is above t.

    `margins` say by how much having none is preferred to the best answer, `scores` are those of the best answers. A question without
    an answer scores 1 where that is said. Between two margins t is in their middle; of equals it is the one that answers most.
    """
    if not margins:
        raise UserError("a threshold is found on questions; give at least one")
    order = np.argsort(margins, kind="stable")
    at = np.asarray(margins, dtype=float)[order]
    given = np.asarray(scores, dtype=float)[order]
    none = 1.0 - np.asarray(answerable, dtype=float)[order]
    totals = np.concatenate([[0.0], given.cumsum()]) + np.concatenate([none[::-1].cumsum()[::-1], [0.0]])  # the first k are answered
    is_cut = np.concatenate([[True], at[1:] > at[:-1], [True]])  # equal margins are on one side
    k = len(at) - int(np.argmax(np.where(is_cut, totals, -1.0)[::-1]))
    if k in (0, len(at)):
        return float(at[0] - 1 if k == 0 else at[-1] + 1)
    return float((at[k - 1] + at[k]) / 2)
