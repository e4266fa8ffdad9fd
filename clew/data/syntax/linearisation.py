"""Trees as sequences of symbols, for models that generate them (Vinyals et al. 2015, Grammar as a foreign language).

    (S (NP (DT the) (NN dog)) (VP (VBZ barks)))   <->   (S (NP XX XX )NP (VP XX )VP )S

A closing bracket repeats the label of its phrase, and a word is replaced by XX or by its tag. With the sentence's words
(and tags), the conversion back is exact.
"""

from collections.abc import Sequence

from clew.core.errors import UserError
from clew.core.trees import Tree, walk
from clew.decoding.trees import TreeTokens

WORD = "XX"


def linearise(tree: Tree, leaf: str | None = WORD) -> list[str]:
    """Return the symbols of a tree; each word becomes `leaf`, or its tag if `leaf` is None."""
    return [symbol_of(node, opens, leaf) for node, opens in walk(tree)]


def symbol_of(node: Tree, opens: bool, leaf: str | None) -> str:
    if node.is_leaf:
        return node.label if leaf is None else leaf
    return f"({node.label}" if opens else f"){node.label}"


def delinearise(symbols: Sequence[str], words: Sequence[str], tags: Sequence[str] | None = None) -> Tree:
    """Return the tree that the symbols describe over these words. Without `tags`, the symbol of a word is its tag."""
    check_tags(words, tags)
    opened: list[tuple[str, list[Tree]]] = [("", [])]
    num_words = 0
    for number, symbol in enumerate(symbols, start=1):
        place = f"symbol {number} of {len(symbols)} ('{symbol}')"
        if number > 1 and len(opened) == 1:
            raise UserError(f"{place} comes after the end of the tree")
        if symbol.startswith("("):
            opened.append((symbol[1:], []))
        elif symbol.startswith(")"):
            label, children = opened[-1]
            if symbol[1:] != label or len(opened) == 1:
                innermost = f"the innermost open one is '({label}'" if len(opened) > 1 else "none is open"
                raise UserError(f"{place} closes a bracket that is not open; {innermost}")
            if not children:
                raise UserError(f"{place} closes an empty bracket")
            opened.pop()
            opened[-1][1].append(Tree(label, children))
        else:
            if num_words == len(words):
                raise UserError(f"{place} stands for a word, but the sentence has only {len(words)}")
            opened[-1][1].append(Tree(symbol if tags is None else tags[num_words], word=words[num_words]))
            num_words += 1
    if not symbols:
        raise UserError("the tree is empty; it needs at least one bracket around the sentence's words")
    if len(opened) > 1:
        raise UserError(
            f"the tree is not closed after symbol {len(symbols)}: {len(opened) - 1} open, innermost '({opened[-1][0]}'"
        )
    if num_words < len(words):
        raise UserError(f"the tree has {num_words} words, but the sentence has {len(words)}")
    return opened[0][1][0]


def check_tags(words: Sequence[str], tags: Sequence[str] | None) -> None:
    if not words:
        raise UserError("a tree needs at least one word, and the sentence has none")
    if tags is not None and len(tags) != len(words):
        raise UserError(f"the number of tags ({len(tags)}) must equal the number of words ({len(words)})")


def tree_tokens(symbols: Sequence[str], start: int, end: int) -> TreeTokens:
    """Sort the ids of a vocabulary for `clew.decoding.trees`; `symbols[id]` is the symbol of an id. All symbols but
    brackets, `start`, `end` and symbols in angle brackets, such as `<pad>`, stand for words."""
    ids = {symbol: token for token, symbol in enumerate(symbols)}
    opens = {symbol[1:]: token for symbol, token in ids.items() if symbol.startswith("(")}
    closes = {symbol[1:]: token for symbol, token in ids.items() if symbol.startswith(")")}
    unpaired = sorted(opens.keys() ^ closes.keys())
    if unpaired:
        present, missing = ("(", ")") if unpaired[0] in opens else (")", "(")
        raise UserError(
            f"the vocabulary has '{present}{unpaired[0]}' but not '{missing}{unpaired[0]}'; brackets come in pairs"
        )
    words = [
        token
        for symbol, token in ids.items()
        if not symbol.startswith(("(", ")"))
        and not (symbol.startswith("<") and symbol.endswith(">"))
        and token not in (start, end)
    ]
    return TreeTokens([opens[label] for label in opens], [closes[label] for label in opens], words, start, end)
