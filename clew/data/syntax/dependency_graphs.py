"""Dependencies as graphs of words: edges with names for their types, and these as numbers. Knows no file and no
tensors.

A word's basic head is in HEAD; in an enhanced graph (CoNLL-U's DEPS) a word may have several. Empty nodes (`8.1`),
which stand for words that are not written, are no nodes here: they have no word to read and no label to tell.
Dependencies on them are left out.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from clew.core.errors import UserError
from clew.core.graphs import Graph
from clew.data.examples import Deps, Sentence
from clew.data.syntax.heads import HeadFault
from clew.text.labels import UNSEEN, Labels

Way = Literal["next", "previous", "up", "down", "forward"]
NamedEdge = tuple[int, int, str]
"""(source, target, type): words are counted from 0."""
EMPTY_NODE = re.compile(r"\d+\.\d+")


def read_deps(texts: Sequence[str]) -> tuple[Deps | None, HeadFault | None]:
    """Of each word the heads, 0 for the root, with their relations; or what is wrong with them; neither where all are
    `_`."""
    if all(text == "_" for text in texts):
        return None, None
    found = []
    for word, text in enumerate(texts):
        pairs = []
        for part in [] if text == "_" else text.split("|"):
            head, _, relation = part.partition(":")
            if EMPTY_NODE.fullmatch(head) and relation:
                continue
            if not (relation and head.isascii() and head.isdigit() and len(head) < 10 and int(head) <= len(texts)):
                rule = (
                    f"DEPS of word {word + 1} has {part!r}: expected head:relation, a head from 1 to {len(texts)}, or 0"
                    " for the root"
                )
                return None, HeadFault(word, rule)
            pairs.append((int(head), relation))
        found.append(tuple(pairs))
    return tuple(found), None


def dependency_edges(
    sentence: Sentence, ways: Sequence[Way], *, enhanced: bool = False, relations: bool = False
) -> list[NamedEdge]:
    """The edges of a sentence's words, each named by its way; with `relations` dependencies by their relation too:
    `up:nsubj`.

    A graph that has edges of its own has these.

    next, previous    from every word to the one behind it, or before it
    up, down          from every word to its heads, or from these to it
    forward           of up and down those that lead to a later word: with `next` all edges go along the sentence, and
                      make no cycle
    """
    if sentence.edges is not None:
        return list(sentence.edges)
    num_words = len(sentence.words)
    edges: list[NamedEdge] = []
    if "next" in ways:
        edges += [(word, word + 1, "next") for word in range(num_words - 1)]
    if "previous" in ways:
        edges += [(word + 1, word, "previous") for word in range(num_words - 1)]
    if not num_words or not {"up", "down", "forward"} & {*ways}:
        return edges
    for word, head, relation in dependencies(sentence, enhanced):
        name = f":{relation}" if relations else ""
        if "up" in ways or ("forward" in ways and word < head):
            edges.append((word, head, f"up{name}"))
        if "down" in ways or ("forward" in ways and head < word):
            edges.append((head, word, f"down{name}"))
    return list(dict.fromkeys(edges))


def dependencies(sentence: Sentence, enhanced: bool) -> list[NamedEdge]:
    """(word, head, relation) without those of the root."""
    if enhanced:
        if sentence.deps is None:
            raise UserError(
                f"{sentence.id}: there is no enhanced graph, the words' DEPS being empty; take the basic one,"
                " task.graph=basic"
            )
        return [
            (word, head - 1, relation) for word, pairs in enumerate(sentence.deps) for head, relation in pairs if head
        ]
    if sentence.heads is None:
        raise UserError(
            f"{sentence.id}: the words have no heads, and so no graph; give CoNLL-U with HEAD, its seventh column"
        )
    relations = sentence.relations or ("_",) * len(sentence.words)
    return [
        (word, head - 1, relation)
        for word, (head, relation) in enumerate(zip(sentence.heads, relations, strict=True))
        if head
    ]


def edge_types(edges: Iterable[Sequence[NamedEdge]]) -> Labels:
    """A table of all types that some graphs have."""
    names = {type for each in edges for _, _, type in each}
    if not names:
        raise UserError(
            "the graphs of the training part have no edges, so that there is nothing to read along; see task.edges"
        )
    return Labels.of(names)


def typed_graph(num_nodes: int, edges: Iterable[NamedEdge], types: Labels) -> Graph:
    """The graph with numbers for types; all types that the table has not share one more number, the last."""
    numbers = ((source, target, types.find(type)) for source, target, type in edges)
    return Graph(
        num_nodes, tuple((source, target, len(types) if type == UNSEEN else type) for source, target, type in numbers)
    )
