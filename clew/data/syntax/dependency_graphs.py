"""Dependencies as graphs of words: edges with named types, and their numeric form. Uses neither files nor tensors.

A word has one basic head (HEAD); in an enhanced graph (CoNLL-U's DEPS) it may have several. Empty nodes (`8.1`), which
stand for words that are not written, are left out with their dependencies: they have neither a word nor a label.
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
"""(source, target, type); words are numbered from 0."""
EMPTY_NODE = re.compile(r"\d+\.\d+")


def read_deps(texts: Sequence[str]) -> tuple[Deps | None, HeadFault | None]:
    """Parse the DEPS column of a sentence: of each word the heads (0 for the root) with their relations, or the first
    fault. Both are None if every text is `_`."""
    if all(text == "_" for text in texts):
        return None, None
    deps = []
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
        deps.append(tuple(pairs))
    return tuple(deps), None


def dependency_edges(
    sentence: Sentence, ways: Sequence[Way], *, enhanced: bool = False, relations: bool = False
) -> list[NamedEdge]:
    """Return the edges between the words of a sentence, with the way as their type; with `relations`, dependencies
    have types like `up:nsubj`. The edges of a sentence that is already a graph are returned unchanged.

    next, previous    from every word to the next one, or to the previous one
    up, down          from every word to its heads, or from the heads to the word
    forward           the edges of up and down that lead to a later word; together with `next` they form no cycle
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
    """Return (word, head, relation) of every word but the root."""
    if enhanced:
        if sentence.deps is None:
            raise UserError(
                f"{sentence.id}: the words have no DEPS, so there is no enhanced graph; set task.graph=basic"
            )
        return [
            (word, head - 1, relation) for word, pairs in enumerate(sentence.deps) for head, relation in pairs if head
        ]
    if sentence.heads is None:
        raise UserError(
            f"{sentence.id}: the words have no heads, so there is no graph; fill in HEAD, the seventh column of CoNLL-U"
        )
    relations = sentence.relations or ("_",) * len(sentence.words)
    return [
        (word, head - 1, relation)
        for word, (head, relation) in enumerate(zip(sentence.heads, relations, strict=True))
        if head
    ]


def edge_types(edges: Iterable[Sequence[NamedEdge]]) -> Labels:
    """Return the table of all edge types of the graphs."""
    names = {type for each in edges for _, _, type in each}
    if not names:
        raise UserError(
            "the graphs of the training split have no edges, but the model reads along edges; see task.edges"
        )
    return Labels.of(names)


def typed_graph(num_nodes: int, edges: Iterable[NamedEdge], types: Labels) -> Graph:
    """Replace the names of types by numbers; all unknown types share one more number, the last."""
    numbers = ((source, target, types.find(type)) for source, target, type in edges)
    return Graph(
        num_nodes, tuple((source, target, len(types) if type == UNSEEN else type) for source, target, type in numbers)
    )
