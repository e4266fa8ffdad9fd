"""Trees as sequences of symbols, for models that write them (Vinyals et al. 2015, Grammar as a foreign language).

    (S (NP (DT the) (NN dog)) (VP (VBZ barks)))   <->   (S (NP XX XX )NP (VP XX )VP )S

A closing bracket names what it closes, and every word is XX, or its tag. Given the sentence's words (and tags) the way
back is exact.
"""

from collections.abc import Sequence

from clew.core.errors import UserError
from clew.core.trees import Tree, walk
from clew.decoding.trees import TreeTokens

WORD = "XX"


def linearise(tree: Tree, leaf: str | None = WORD) -> list[str]:
    """The symbols of a tree; a word is `leaf`, or with None its tag."""
    return [symbol(node, opens, leaf) for node, opens in walk(tree)]


def symbol(node: Tree, opens: bool, leaf: str | None) -> str:
    if node.is_leaf:
        return node.label if leaf is None else leaf
    return f"({node.label}" if opens else f"){node.label}"


def delinearise(symbols: Sequence[str], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """The tree that the symbols describe over these words. Without `tags`, the symbol that stands for a word is its
    tag."""
    check_tags(words, tags)
    opened: list[tuple[str, list[Tree]]] = [("", [])]
    num_words = 0
    for number, found in enumerate(symbols, start=1):
        place = f"symbol {number} of {len(symbols)} ('{found}')"
        if number > 1 and len(opened) == 1:
            raise UserError(f"{place} comes after the tree has ended")
        if found.startswith("("):
            opened.append((found[1:], []))
        elif found.startswith(")"):
            label, children = opened[-1]
            if found[1:] != label or len(opened) == 1:
                innermost = f"innermost is '({label}'" if len(opened) > 1 else "nothing is"
                raise UserError(f"{place} closes nothing that is open; {innermost}")
            if not children:
                raise UserError(f"{place} closes a bracket that holds nothing")
            opened.pop()
            opened[-1][1].append(Tree(label, children))
        else:
            if num_words == len(words):
                raise UserError(f"{place} stands for a word, but the sentence has only {len(words)}")
            opened[-1][1].append(Tree(found if tags is None else tags[num_words], word=words[num_words]))
            num_words += 1
    if not symbols:
        raise UserError("the tree is empty; it needs at least one bracket over the sentence's words")
    if len(opened) > 1:
        raise UserError(
            f"the tree is not closed after symbol {len(symbols)}: {len(opened) - 1} open, innermost '({opened[-1][0]}'"
        )
    if num_words < len(words):
        raise UserError(f"the tree has {num_words} words and the sentence {len(words)}")
    return opened[0][1][0]


def check_tags(words: Sequence[str], tags: Sequence[str] | None) -> None:
    if not words:
        raise UserError("a tree needs at least one word, and the sentence has none")
    if tags is not None and len(tags) != len(words):
        raise UserError(f"tags ({len(tags)}) must be as many as words ({len(words)})")


def tree_tokens(symbols: Sequence[str], start: int, end: int) -> TreeTokens:
    """Which ids are what, for `clew.decoding.trees`; `symbols[id]` is the symbol of an id. What is no bracket stands
    for a word, but for `start`, `end` and symbols in angle brackets, such as `<pad>`."""
    places = {found: token for token, found in enumerate(symbols)}
    opens = {found[1:]: token for found, token in places.items() if found.startswith("(")}
    closes = {found[1:]: token for found, token in places.items() if found.startswith(")")}
    lonely = sorted(opens.keys() ^ closes.keys())
    if lonely:
        given, missing = ("(", ")") if lonely[0] in opens else (")", "(")
        raise UserError(
            f"the vocabulary has '{given}{lonely[0]}' but not '{missing}{lonely[0]}'; brackets come in pairs"
        )
    words = [
        token
        for found, token in places.items()
        if not found.startswith(("(", ")"))
        and not (found.startswith("<") and found.endswith(">"))
        and token not in (start, end)
    ]
    return TreeTokens([opens[label] for label in opens], [closes[label] for label in opens], words, start, end)
