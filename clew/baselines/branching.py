"""Parses that ignore the words: every phrase branches to the right, or to the left.

    right    (S w1 (VP w2 (VP w3 w4)))        left    (S (NP (NP w1 w2) w3) w4)

English tends to branch to the right, so a parser has learnt something only if it beats the right-branching score.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from clew.baselines.most_frequent import most_frequent
from clew.core.errors import UserError
from clew.core.trees import Tree
from clew.data.syntax.trees import without_root
from clew.metrics.brackets import STANDARD, scored

Side = Literal["right", "left"]


@dataclass(frozen=True)
class Branching:
    """The tree over any words that branches to one side, with one label for the outermost phrase and one for all
    others."""

    side: Side
    outer: str
    inner: str

    def parse(self, words: Sequence[str], tags: Sequence[str]) -> Tree:
        """The branching tree. Punctuation joins the word before it, so that it makes no bracket that would be
        scored."""
        if not words or len(words) != len(tags):
            raise UserError(f"there must be as many words ({len(words)}) as tags ({len(tags)}), and at least one")
        units = with_punctuation([Tree(tag, word=word) for word, tag in zip(words, tags, strict=True)])
        first, *rest = units[::-1] if self.side == "right" else units
        children = first
        for i, unit in enumerate(rest, start=1):
            label = self.outer if i == len(rest) else self.inner
            children = [Tree(label, unit + children if self.side == "right" else children + unit)]
        return children[0] if rest else Tree(self.outer, children)


def with_punctuation(leaves: list[Tree]) -> list[list[Tree]]:
    """Each word with the punctuation after it; the first word also with that before it."""
    words = [i for i, leaf in enumerate(leaves) if leaf.label not in STANDARD.deleted]
    return [leaves[start:end] for start, end in pairwise([0, *words[1:], len(leaves)])]


def fit_branching(trees: Iterable[Tree], side: Side = "right") -> Branching:
    """Fit the labels that are most often right in these trees: that of the outermost phrase, and that of inner phrases
    that reach the end of the sentence (for `left`, its beginning)."""
    if side not in ("right", "left"):
        raise UserError(f"side '{side}' must be right or left")
    outer: Counter[str] = Counter()
    inner: Counter[str] = Counter()
    for tree in map(without_root, trees):
        brackets, words, *_ = scored(tree, STANDARD)
        outer.update(bracket.label for bracket in brackets[:1])
        for label, start, end in brackets:
            reaches = start > 0 and end == len(words) if side == "right" else start == 0 and end < len(words)
            inner[label] += reaches and end - start > 1
    if not outer:
        raise UserError("no tree has a phrase to take labels from; give some trees")
    return Branching(side, most_frequent(outer), most_frequent(inner))
