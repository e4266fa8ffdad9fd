"""Words of raw text, with where each stands. Nothing is changed: a word is the characters [start, stop) of its text.

As in the Penn Treebank, punctuation stands alone, `n't`, `'s`, `'ll` and their like are cut off their word, and abbreviations, numbers,
times, web addresses and hyphenated words stay whole. Knows no language beyond that: a script without spaces is one word a stretch.
"""

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

PIECE = re.compile(
    r"""
    https?://\S+?(?=[.,;:!?)\]"'>]*(?:\s|$))        # a web address, without what ends the sentence
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                   # an e-mail address
    | [#@]\w+                                        # a tag or a name
    | (?:[A-Za-z]\.){2,}                             # U.S.
    | (?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Inc|Ltd|Co|Corp|vs|etc|No|Gen|Sen|Rep|Gov|Capt|Lt|Col|Sgt|Rev|Hon)\.
    | [^\W_](?=\.\s[A-Z])\.                          # an initial
    | [$€£¥]?\d+(?:[.,:/]\d+)*%?                     # numbers, dates, times, sums
    | \.{2,} | -{2,} | [!?]{2,}
    | [^\W_]+(?:[-'’][^\W_]+)*
    | \S
    """,
    re.VERBOSE,
)
CLITIC = re.compile(r"(?i)(?<=\w)(n['’]t|['’](?:s|m|d|ll|re|ve|em))$")


class Word(NamedTuple):
    text: str
    start: int
    stop: int


def split_words(text: str) -> list[Word]:
    """The words in their order."""
    found = []
    for match in PIECE.finditer(text):
        word, start = match.group(), match.start()
        clitic = CLITIC.search(word) if "'" in word or "’" in word else None
        cuts = [start, *([start + clitic.start()] if clitic else []), match.end()]
        found += [Word(text[a:b], a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
    return found


def words_of(text: str) -> list[str]:
    return [word.text for word in split_words(text)]


def spaced_words(text: str) -> list[Word]:
    """What white space parts, for text that is cut into words already."""
    return [Word(match.group(), *match.span()) for match in re.finditer(r"\S+", text)]


def listed_words(words: Sequence[str]) -> list[Word]:
    """Words as they stand in a text that has a space between each two."""
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    return [Word(word, start, start + len(word)) for word, start in zip(words, starts, strict=False)]
