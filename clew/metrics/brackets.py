"""Labelled bracket scores of parses, as computed by EVALB (Black et al. 1991; Sekine and Collins 1997).

    recall = matched / gold brackets    precision = matched / predicted brackets    F1 = 2 matched / (gold + predicted)

Words whose tag is a deleted label are first removed from both trees, by each tree's own tags, together with
constituents that become empty. Brackets with a deleted label are not counted, but their contents are. Function tags
(NP-SBJ, NP=2) are ignored. A bracket matches one with the same label over the same words, and each matches at most
once: (NP (NP x)) against (NP x) is 1 of 2.

EVALB deletes words by their tags, so a mistagged quotation mark (POS in place of '') would leave the trees with
different words. If `quotes` has the tags that may be confused in this way, marks that only one of the trees deletes are
kept in both.

A sentence whose trees have different words is an error, and one without a parse is skipped. Neither counts in any
score, so check `errors` and `skipped` first. Ratios are between 0 and 1.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np

from clew.core.errors import UserError
from clew.core.trees import Span, Tree, walk


@dataclass(frozen=True)
class Rules:
    """An EVALB parameter file; the defaults are COLLINS.prm.

    Fields and lines: `deleted` DELETE_LABEL, `deleted_for_length` DELETE_LABEL_FOR_LENGTH, `equal` EQ_LABEL, `short`
    CUTOFF_LEN, `labelled` LABELED, `equal_words` EQ_WORD, `quotes` QUOTE_LABEL. Equal words are pairs and not
    transitive: a = b and b = c do not give a = c.
    """

    deleted: frozenset[str] = frozenset(("TOP", "-NONE-", ",", ":", "``", "''", "."))
    deleted_for_length: frozenset[str] = frozenset(("-NONE-",))
    equal: Mapping[str, str] = field(default_factory=lambda: {"PRT": "ADVP"})
    short: int = 40
    labelled: bool = True
    equal_words: frozenset[tuple[str, str]] = frozenset()
    quotes: frozenset[str] = frozenset()

    def are_equal(self, word: str, other: str) -> bool:
        return word == other or (word, other) in self.equal_words or (other, word) in self.equal_words


COLLINS = Rules()

STANDARD = Rules(COLLINS.deleted | {"S1", "ROOT", "", "?", "!"})
"""COLLINS.prm, plus other parsers' labels for the root and for punctuation, which would otherwise count as brackets
that always match. On trees without these labels it equals COLLINS.prm."""


NEW = Rules(COLLINS.deleted | {"S1", "?", "!"}, quotes=frozenset(("``", "''", "POS", "NN", "CD", "VBZ", ":")))
"""new.prm, from later releases of EVALB."""

QUOTES = ("'", '"', "/")
"""Words that are quotation marks if their tag is in `Rules.quotes`; the first is also the Penn Treebank's
possessive."""


@dataclass(frozen=True)
class BracketCounts:
    """Counts over some sentences. Counts of parts add, so each process can score a share."""

    sentences: int = 0
    errors: int = 0
    skipped: int = 0
    gold: int = 0
    predicted: int = 0
    matched: int = 0
    complete: int = 0  # sentences with all brackets right
    crossing: int = 0  # predicted brackets that cross a gold one
    uncrossed: int = 0  # sentences without crossing brackets
    barely_crossed: int = 0  # sentences with at most two
    words: int = 0
    right_tags: int = 0

    def __add__(self, other: "BracketCounts") -> "BracketCounts":
        return BracketCounts(*(getattr(self, count.name) + getattr(other, count.name) for count in fields(self)))

    @property
    def valid(self) -> int:
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float:
        return percentage(self.matched, self.gold)

    @property
    def precision(self) -> float:
        return percentage(self.matched, self.predicted)

    @property
    def f1(self) -> float:
        return percentage(2 * self.matched, self.gold + self.predicted)

    @property
    def complete_match(self) -> float:
        return percentage(self.complete, self.valid)

    @property
    def average_crossing(self) -> float:
        return percentage(self.crossing, self.valid)

    @property
    def no_crossing(self) -> float:
        return percentage(self.uncrossed, self.valid)

    @property
    def two_or_less_crossing(self) -> float:
        return percentage(self.barely_crossed, self.valid)

    @property
    def tagging_accuracy(self) -> float:
        return percentage(self.right_tags, self.words)

    def describe(self) -> str:
        """Two lines: the scores in per cent, and the counts."""
        left_out = f", {self.errors} errors and {self.skipped} skipped left out" if self.valid < self.sentences else ""
        return (
            f"F1 {100 * self.f1:.2f}, precision {100 * self.precision:.2f}, recall {100 * self.recall:.2f}, complete"
            f" {100 * self.complete_match:.2f}, crossing {self.average_crossing:.2f} a sentence, tags"
            f" {100 * self.tagging_accuracy:.2f}\n{self.matched} of {self.gold} gold and {self.predicted} predicted"
            f" brackets, {self.valid} sentences{left_out}"
        )


@dataclass(frozen=True)
class BracketScore:
    """Counts over all sentences, and over those of up to 40 words, including punctuation but not traces."""

    all: BracketCounts = BracketCounts()
    short: BracketCounts = BracketCounts()

    def __add__(self, other: "BracketScore") -> "BracketScore":
        return BracketScore(self.all + other.all, self.short + other.short)


class Mark(NamedTuple):
    """A quotation mark: its index among the tree's words, the number of counted words before it, and its tag."""

    place: int
    before: int
    tag: str


class Yield(NamedTuple):
    """The parts of a tree that are scored."""

    brackets: list[Span]
    words: list[str]
    tags: list[str]
    length: int
    marks: tuple[Mark, ...] = ()


def score_brackets(gold: Iterable[Tree], predicted: Iterable[Tree | None], rules: Rules = STANDARD) -> BracketScore:
    """The score of a treebank's parses; None is a sentence without a parse."""
    golds, parses = list(gold), list(predicted)
    if len(golds) != len(parses):
        raise UserError(
            f"there must be as many predicted trees ({len(parses)}) as gold trees ({len(golds)}); give None for a"
            " sentence without a parse"
        )
    return sum((score_sentence(a, b, rules) for a, b in zip(golds, parses, strict=True)), BracketScore())


def score_sentence(gold: Tree, predicted: Tree | None, rules: Rules = STANDARD) -> BracketScore:
    reference, parse = scored(gold, rules), None if predicted is None else scored(predicted, rules)
    if predicted is not None and parse is not None and 0 < len(parse.words) != len(reference.words):
        kept_in_gold, kept_in_parse = mistagged_marks(reference.marks, parse.marks, rules)
        reference, parse = scored(gold, rules, kept_in_gold), scored(predicted, rules, kept_in_parse)
    counts = compare(reference, parse, rules)
    return BracketScore(counts, counts if reference.length <= rules.short else BracketCounts())


def mistagged_marks(gold: Sequence[Mark], predicted: Sequence[Mark], rules: Rules) -> tuple[Counter[int], Counter[int]]:
    """Quotation marks that one tree's tags delete and the other's do not, at the same word: for each tree, how often
    each is kept, by index.

    A kept mark shifts the marks after it, and in EVALB also itself. So EVALB keeps the first of two adjacent marks
    twice; so does this.
    """
    kept: tuple[Counter[int], Counter[int]] = Counter(), Counter()
    moved = [0] * len(gold), [0] * len(predicted)
    for i, mark in enumerate(predicted):
        before = mark.before + moved[1][i]
        for j, gold_mark in enumerate(gold):
            if gold_mark.before + moved[0][j] != before or gold_mark.tag == mark.tag:
                continue
            is_deleted = gold_mark.tag in rules.deleted, mark.tag in rules.deleted
            if is_deleted[0] != is_deleted[1]:
                side, number = (0, j) if is_deleted[0] else (1, i)
                kept[side][(gold_mark, mark)[side].place] += 1
                for later in range(number, len(moved[side])):
                    moved[side][later] += 1
    return kept


def compare(gold: Yield, predicted: Yield | None, rules: Rules = STANDARD) -> BracketCounts:
    if predicted is None or not predicted.words:
        return BracketCounts(sentences=1, skipped=1)
    if len(gold.words) != len(predicted.words) or not all(map(rules.are_equal, gold.words, predicted.words)):
        return BracketCounts(sentences=1, errors=1)
    matched = (Counter(gold.brackets) & Counter(predicted.brackets)).total()
    crossing = count_crossing(gold.brackets, predicted.brackets)
    return BracketCounts(
        sentences=1,
        gold=len(gold.brackets),
        predicted=len(predicted.brackets),
        matched=matched,
        complete=int(len(gold.brackets) == len(predicted.brackets) == matched),
        crossing=crossing,
        uncrossed=int(crossing == 0),
        barely_crossed=int(crossing <= 2),
        words=len(gold.words),
        right_tags=sum(a == b for a, b in zip(gold.tags, predicted.tags, strict=True)),
    )


def scored(tree: Tree, rules: Rules = STANDARD, kept: Mapping[int, int] | None = None) -> Yield:
    """The brackets, words and tags that count, with spans over counted words. Words with a deleted tag do not count,
    unless `kept` has their index, with the number of times to keep them."""
    brackets: list[Span] = []
    words: list[str] = []
    tags: list[str] = []
    opened: list[int] = []
    marks: list[Mark] = []
    length = place = 0
    for node, opens in walk(tree):
        if node.word is not None:
            length += node.label not in rules.deleted_for_length
            if node.word in QUOTES and node.label in rules.quotes:
                marks.append(Mark(place, len(words), node.label))
            times = (kept or {}).get(place, 0) if node.label in rules.deleted else 1
            words += [node.word] * times
            tags += [rules.equal.get(node.label, node.label)] * times
            place += 1
        elif opens:
            opened.append(len(brackets))
            brackets.append(Span(counted_label(node.label, rules), len(words), len(words)))
        else:
            number = opened.pop()
            brackets[number] = brackets[number]._replace(end=len(words))
    counted = [bracket for bracket in brackets if bracket.start < bracket.end and bracket.label not in rules.deleted]
    counted = counted if rules.labelled else [bracket._replace(label="") for bracket in counted]
    return Yield(counted, words, tags, length, tuple(marks))


def counted_label(label: str, rules: Rules) -> str:
    bare = re.split("[-=]", label, maxsplit=1)[0]
    return rules.equal.get(bare, bare)


def count_crossing(gold: Sequence[Span], predicted: Sequence[Span]) -> int:
    """The number of predicted brackets that overlap a gold one while each has words that the other lacks."""
    if not gold or not predicted:
        return 0
    start, end = np.array([span[1:] for span in gold]).T
    first, last = np.array([span[1:] for span in predicted]).T[..., None]  # each (predicted, 1)
    crosses = ((start < first) & (first < end) & (end < last)) | ((first < start) & (start < last) & (last < end))
    return int(crosses.any(1).sum())


def percentage(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
