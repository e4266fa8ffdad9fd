"""How well parses agree with gold trees: labelled bracket scoring as EVALB does it (Black et al. 1991; Sekine and Collins 1997).

    recall = matched / gold brackets      precision = matched / predicted brackets      F1 = 2 matched / (gold + predicted)

Before brackets are counted, words whose tag is a deleted label are taken out of both trees, each by its own tags, and then what holds no
word any more; brackets with a deleted label are not counted, but what they hold is. Function tags (NP-SBJ, NP=2) count for nothing. A
bracket matches one of the same label over the same words, and each only one, so (NP (NP x)) against (NP x) is 1 of 2.

EVALB deletes words by their tags, so that a mistagged quotation mark (POS instead of '') would leave the trees with different words. Where
`quotes` names the tags that may be confused so, marks that only one of the trees deletes are kept in both.

A sentence whose trees have different words is an error, and one without a parse is skipped: neither counts in any share, so look at
`errors` and `skipped` before believing the rest. Shares are between 0 and 1.
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
    """A parameter file of EVALB's; as it stands, COLLINS.prm.

    `deleted` are its lines DELETE_LABEL, `deleted_for_length` DELETE_LABEL_FOR_LENGTH, `equal` EQ_LABEL, `short` CUTOFF_LEN, `labelled`
    LABELED, `equal_words` EQ_WORD and `quotes` QUOTE_LABEL. Equal words are pairs: of a = b and b = c does not follow a = c.
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
"""COLLINS.prm and other parsers' names for the root and for punctuation, which would be counted as brackets that always match. On trees
that have none of them it is the same."""


NEW = Rules(COLLINS.deleted | {"S1", "?", "!"}, quotes=frozenset(("``", "''", "POS", "NN", "CD", "VBZ", ":")))
"""new.prm, which later releases of EVALB have."""

QUOTES = ("'", '"', "/")
"""Words that are quotation marks where their tag is one of `Rules.quotes`; Penn's possessive is written as the first."""


@dataclass(frozen=True)
class BracketCounts:
    """What was counted over some sentences; parts add, so that processes may each score a share."""

    sentences: int = 0
    errors: int = 0
    skipped: int = 0
    gold: int = 0
    predicted: int = 0
    matched: int = 0
    complete: int = 0  # sentences whose brackets are all right
    crossing: int = 0  # predicted brackets that cross a gold one
    uncrossed: int = 0  # sentences without a crossing bracket
    barely_crossed: int = 0  # sentences with two at most
    words: int = 0
    right_tags: int = 0

    def __add__(self, other: "BracketCounts") -> "BracketCounts":
        return BracketCounts(*(getattr(self, count.name) + getattr(other, count.name) for count in fields(self)))

    @property
    def valid(self) -> int:
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float:
        return share(self.matched, self.gold)

    @property
    def precision(self) -> float:
        return share(self.matched, self.predicted)

    @property
    def f1(self) -> float:
        return share(2 * self.matched, self.gold + self.predicted)

    @property
    def complete_match(self) -> float:
        return share(self.complete, self.valid)

    @property
    def average_crossing(self) -> float:
        return share(self.crossing, self.valid)

    @property
    def no_crossing(self) -> float:
        return share(self.uncrossed, self.valid)

    @property
    def two_or_less_crossing(self) -> float:
        return share(self.barely_crossed, self.valid)

    @property
    def tagging_accuracy(self) -> float:
        return share(self.right_tags, self.words)

    def describe(self) -> str:
        """Two lines: the scores in per cent, and what they are of."""
        left_out = f", {self.errors} errors and {self.skipped} skipped left out" if self.valid < self.sentences else ""
        return (
            f"F1 {100 * self.f1:.2f}, precision {100 * self.precision:.2f}, recall {100 * self.recall:.2f}, "
            f"complete {100 * self.complete_match:.2f}, crossing {self.average_crossing:.2f} a sentence, "
            f"tags {100 * self.tagging_accuracy:.2f}\n"
            f"{self.matched} of {self.gold} gold and {self.predicted} predicted brackets, {self.valid} sentences{left_out}"
        )


@dataclass(frozen=True)
class BracketScore:
    """Counts over all sentences, and over those of up to 40 words, punctuation included and traces not."""

    all: BracketCounts = BracketCounts()
    short: BracketCounts = BracketCounts()

    def __add__(self, other: "BracketScore") -> "BracketScore":
        return BracketScore(self.all + other.all, self.short + other.short)


class Mark(NamedTuple):
    """A quotation mark: which of the tree's words it is, how many words that count stand before it, and its tag."""

    place: int
    before: int
    tag: str


class Yield(NamedTuple):
    """What of a tree is scored."""

    brackets: list[Span]
    words: list[str]
    tags: list[str]
    length: int
    marks: tuple[Mark, ...] = ()


def score_brackets(gold: Iterable[Tree], predicted: Iterable[Tree | None], rules: Rules = STANDARD) -> BracketScore:
    """The score of a treebank's parses, None where a sentence has none."""
    golds, parses = list(gold), list(predicted)
    if len(golds) != len(parses):
        raise UserError(
            f"predicted trees ({len(parses)}) must be as many as gold trees ({len(golds)}); give None for a sentence without a parse"
        )
    return sum((score_sentence(a, b, rules) for a, b in zip(golds, parses, strict=True)), BracketScore())


def score_sentence(gold: Tree, predicted: Tree | None, rules: Rules = STANDARD) -> BracketScore:
    right, found = scored(gold, rules), None if predicted is None else scored(predicted, rules)
    if predicted is not None and found is not None and 0 < len(found.words) != len(right.words):
        kept_right, kept_found = mistagged_marks(right.marks, found.marks, rules)
        right, found = scored(gold, rules, kept_right), scored(predicted, rules, kept_found)
    counts = compare(right, found, rules)
    return BracketScore(counts, counts if right.length <= rules.short else BracketCounts())


def mistagged_marks(gold: Sequence[Mark], predicted: Sequence[Mark], rules: Rules) -> tuple[Counter[int], Counter[int]]:
    """The quotation marks of each tree that its tags delete and the other's do not, at the same word: how often each is kept, by its place.

    A mark that is kept moves the places of those after it, and in EVALB its own place too. So of two marks in a row that the other tree
    keeps, EVALB keeps the first one twice; this does the same.
    """
    kept: tuple[Counter[int], Counter[int]] = Counter(), Counter()
    moved = [0] * len(gold), [0] * len(predicted)
    for i, found in enumerate(predicted):
        before = found.before + moved[1][i]
        for j, right in enumerate(gold):
            if right.before + moved[0][j] != before or right.tag == found.tag:
                continue
            is_deleted = right.tag in rules.deleted, found.tag in rules.deleted
            if is_deleted[0] != is_deleted[1]:
                side, number = (0, j) if is_deleted[0] else (1, i)
                kept[side][(right, found)[side].place] += 1
                for behind in range(number, len(moved[side])):
                    moved[side][behind] += 1
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
    """The brackets, words and tags that count, spans counted over the words that do: those that are not deleted, and of these the ones that
    are `kept` so many times, by their places."""
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
    """How many predicted brackets share words with a gold one while each has words that the other has not."""
    if not gold or not predicted:
        return 0
    start, end = np.array([span[1:] for span in gold]).T
    first, last = np.array([span[1:] for span in predicted]).T[..., None]  # each (predicted, 1)
    crosses = ((start < first) & (first < end) & (end < last)) | ((first < start) & (start < last) & (last < end))
    return int(crosses.any(1).sum())


def share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
