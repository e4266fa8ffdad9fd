"""Dependency heads, checked: every word hangs from another or from the root, and no word from itself by any way."""

from collections.abc import Sequence
from typing import NamedTuple


class HeadFault(NamedTuple):
    word: int  # counted from 0
    sentence: str


def read_heads(texts: Sequence[str]) -> tuple[tuple[int, ...] | None, HeadFault | None]:
    """The heads as numbers, or what is wrong with them; neither where all are `_`, which says that nothing is known."""
    if all(text == "_" for text in texts):
        return None, None
    heads = []
    for word, text in enumerate(texts):
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= len(texts)):
            rule = (
                f"the head of word {word + 1} is {text!r}, which is no word: heads are numbers from 1 to {len(texts)},"
                " or 0 for the root"
            )
            return None, HeadFault(word, rule)
        heads.append(int(text))
    fault = find_fault(heads)
    return (None, fault) if fault else (tuple(heads), None)


def find_fault(heads: Sequence[int]) -> HeadFault | None:
    """A missing root, or a cycle; there may be several roots."""
    if 0 not in heads:
        cycle = find_cycle(heads)
        return HeadFault(
            0,
            "no word has the head 0, so that the sentence has no"
            f" root{cycle.sentence.join((' (', ')')) if cycle else ''}",
        )
    return find_cycle(heads)


def find_cycle(heads: Sequence[int]) -> HeadFault | None:
    """The first word that is its own ancestor; each word is walked over once."""
    walk_of = [0] * (len(heads) + 1)  # the walk that came by, 0 for none
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
                min(cycle) - 1, f"heads go in a circle: word {' -> '.join(str(number) for number in shown)}"
            )
    return None
