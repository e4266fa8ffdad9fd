"""Ordered trees over words, as in treebanks; readers, scores, decoders and drawings share them. Knows no file format.

Nothing here is recursive, so a tree may be deeper than Python's stack.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from clew.core.errors import UserError

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A phrase with a label and children, or a leaf with a tag (its label) and a word.

        Tree("NP", [Tree("DT", word="the"), Tree("NN", word="dog")])

    Equal trees have the same labels, words and shape.
    """

    label: str
    children: Sequence["Tree"] = ()
    word: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", tuple(self.children))
        if self.children and self.word is not None:
            raise UserError(
                f"the node '{self.label}' has children and the word '{self.word}'; a node has one or the other"
            )
        if not self.children and self.word is None:
            raise UserError(f"the node '{self.label}' has neither children nor a word; a node has one or the other")

    @property
    def is_leaf(self) -> bool:
        return self.word is not None

    def nodes(self) -> Iterator["Tree"]:
        """Every node, parents before children, left before right."""
        return (node for node, opens in walk(self) if opens)

    def leaves(self) -> Iterator["Tree"]:
        return (node for node in self.nodes() if node.is_leaf)

    @property
    def words(self) -> list[str]:
        return [leaf.word for leaf in self.leaves() if leaf.word is not None]

    @property
    def tags(self) -> list[str]:
        return [leaf.label for leaf in self.leaves()]

    @property
    def depth(self) -> int:
        """The most phrases nested inside each other; 0 for a leaf."""
        return fold(self, lambda node, below: 0 if node.is_leaf else 1 + max(below))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return all(a == b for a, b in zip_longest(_shape(self), _shape(other)))

    def __hash__(self) -> int:
        return hash(tuple(_shape(self)))

    def __repr__(self) -> str:
        return bracketed(self)


class Span(NamedTuple):
    """A phrase's label and the words [start, end) it covers."""

    label: str
    start: int
    end: int


def walk(tree: Tree) -> Iterator[tuple[Tree, bool]]:
    """Walk from left to right: yield a phrase with True where it opens and with False where it closes, and a leaf once,
    with True."""
    stack = [(tree, True)]
    while stack:
        node, opens = stack.pop()
        yield node, opens
        if opens and node.children:
            stack.append((node, False))
            stack.extend((child, True) for child in reversed(node.children))


def fold(tree: Tree, function: Callable[[Tree, list[Made]], Made]) -> Made:
    """Fold a tree from the leaves up: call `function` on each node and its children's results ([] for a leaf), and
    return the root's result."""
    results: list[list[Made]] = [[]]
    for node, opens in walk(tree):
        if node.is_leaf:
            results[-1].append(function(node, []))
        elif opens:
            results.append([])
        else:
            below = results.pop()
            results[-1].append(function(node, below))
    return results[0][0]


def binarised(tree: Tree) -> Tree:
    """Binarise a tree from the left: (NP a b c) becomes (NP (@NP a b) c)."""

    def binary(node: Tree, below: list[Tree]) -> Tree:
        if len(below) > 2:
            first = reduce(lambda left, right: Tree(f"@{node.label}", [left, right]), below[:-1])
            below = [first, below[-1]]
        return Tree(node.label, below, node.word)

    return fold(tree, binary)


def spans(tree: Tree) -> list[Span]:
    """Return every phrase with the words it covers, parents before children, left before right."""
    phrases: list[Span] = []
    opened: list[int] = []
    num_words = 0
    for node, opens in walk(tree):
        if node.is_leaf:
            num_words += 1
        elif opens:
            opened.append(len(phrases))
            phrases.append(Span(node.label, num_words, num_words))
        else:
            place = opened.pop()
            phrases[place] = phrases[place]._replace(end=num_words)
    return phrases


def bracketed(tree: Tree, spell: Callable[[str], str] = str) -> str:
    """Write a tree as `(S (NP (PRP it)) (VP (VBZ rains)))`, with each word spelt by `spell`."""
    parts: list[str] = []
    for node, opens in walk(tree):
        if not opens:
            parts.append(")")
        elif node.word is not None:
            parts.append(f" ({node.label} {spell(node.word)})")
        else:
            parts.append(f" ({node.label}")
    return "".join(parts)[1:]


def _shape(tree: Tree) -> Iterator[tuple[str, str | None, int]]:
    """Yield everything that tree equality compares."""
    return ((node.label, node.word, len(node.children)) for node in tree.nodes())
