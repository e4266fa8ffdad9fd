"""Check dependency heads: each word has a head or is the root, and no word is its own ancestor."""

from collections.abc import Sequence
from typing import NamedTuple


class HeadFault(NamedTuple):
    word: int  # counted from 0
    sentence: str


def read_heads(texts: Sequence[str]) -> tuple[tuple[int, ...] | None, HeadFault | None]:
    """Parse the heads of a sentence: the numbers, or the first fault. Both are None if every text is `_` (unknown)."""
    if all(text == "_" for text in texts):
        return None, None
    heads = []
    for word, text in enumerate(texts):
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= len(texts)):
            rule = (
                f"the head of word {word + 1} is {text!r}, which is not a word: heads are numbers from 1 to"
                f" {len(texts)}, or 0 for the root"
            )
            return None, HeadFault(word, rule)
        heads.append(int(text))
    fault = find_fault(heads)
    return (None, fault) if fault else (tuple(heads), None)


def find_fault(heads: Sequence[int]) -> HeadFault | None:
    """Find a missing root or a cycle; several roots are allowed."""
    if 0 not in heads:
        cycle = find_cycle(heads)
        return HeadFault(
            0,
            f"no word has the head 0, so the sentence has no root{cycle.sentence.join((' (', ')')) if cycle else ''}",
        )
    return find_cycle(heads)


def find_cycle(heads: Sequence[int]) -> HeadFault | None:
    """Find the first word that is its own ancestor; visits each word once."""
    walk_of = [0] * (len(heads) + 1)  # the walk that visited each word, 0 for none
    for start in range(1, len(heads) + 1):
        word = start
        while word and not walk_of[word]:
            walk_of[word] = start
            word = heads[word - 1]
        if word and walk_of[word] == start:
            cycle, next_word = [word], heads[word - 1]
            while next_word != word:
                cycle.append(next_word)
                next_word = heads[next_word - 1]
            first = cycle.index(min(cycle))
            shown = [*cycle[first:], *cycle[:first], min(cycle)]
            return HeadFault(
                min(cycle) - 1, f"the heads form a cycle: word {' -> '.join(str(number) for number in shown)}"
            )
    return None
