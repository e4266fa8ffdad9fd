"""Merges of word pieces, chosen by their gain in the likelihood of a text. Knows words and their frequencies, no
files."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

CONTINUES = "##"
"""The prefix of a piece that does not begin a word."""
CAPACITY = 1024


def pieces_of(word: str) -> list[str]:
    """A word's characters, all but the first with the prefix CONTINUES."""
    return [word[0], *(CONTINUES + character for character in word[1:])]


def joined(first: str, second: str) -> str:
    return first + second.removeprefix(CONTINUES)


def likelihood_merges(words: Mapping[str, int], min_count: int = 1) -> Iterator[str]:
    """Yield the merged pieces, one merge after another (Schuster and Nakajima 2012):

        a, b = argmax  freq(ab) / (freq(a) freq(b))

    over pairs of neighbours within a word, counted as often as the word occurs. Ties go to the more frequent pair, then
    to the first in Unicode order. Ends when no pair occurs `min_count` times. A piece may appear twice, merged from
    different parts.
    """
    pairs = Pairs(words)
    while (best := pairs.best(min_count)) is not None:
        yield pairs.merge(*best)


class Pairs:
    """Words in pieces, with counts of pieces and of neighbouring pairs. A merge updates only the counts that it
    changes."""

    def __init__(self, words: Mapping[str, int]):
        self.names: list[str] = []
        self.ids: dict[str, int] = {}
        self.words = [[self.id(piece) for piece in pieces_of(word)] for word in words]
        self.counts = list(words.values())
        self.frequencies: Counter[int] = Counter()  # of each piece
        self.numbers: dict[tuple[int, int], int] = {}  # the index of a pair in the arrays below
        self.parts: list[tuple[int, int]] = []
        self.having: defaultdict[int, list[int]] = defaultdict(list)  # the pairs that contain a piece
        self.places: list[set[int]] = []  # the words that contain a pair
        self.occurrences = np.zeros(CAPACITY, dtype=np.int64)
        self.scores = np.zeros(CAPACITY)
        for word in range(len(self.words)):
            self.count(word, 1)
        self.rescore(range(len(self.parts)))

    def id(self, piece: str) -> int:
        if piece not in self.ids:
            self.ids[piece] = len(self.names)
            self.names.append(piece)
        return self.ids[piece]

    def number(self, pair: tuple[int, int]) -> int:
        known = self.numbers.get(pair)
        if known is not None:
            return known
        number = self.numbers[pair] = len(self.parts)
        self.parts.append(pair)
        self.places.append(set())
        for part in set(pair):
            self.having[part].append(number)
        if number == len(self.scores):
            self.occurrences, self.scores = (
                np.concatenate([array, np.zeros_like(array)]) for array in (self.occurrences, self.scores)
            )
        return number

    def count(self, word: int, sign: int) -> None:
        """Add a word's pieces and pairs to the counts (`sign` 1), or subtract them (-1)."""
        pieces, times = self.words[word], sign * self.counts[word]
        for piece in pieces:
            self.frequencies[piece] += times
        for pair in zip(pieces, pieces[1:], strict=False):
            number = self.number(pair)
            self.occurrences[number] += times
            if sign > 0:
                self.places[number].add(word)
            else:
                self.places[number].discard(word)

    def rescore(self, numbers: Sequence[int]) -> None:
        if not len(numbers):
            return
        chosen = np.fromiter(numbers, dtype=np.int64, count=len(numbers))
        products = [
            self.frequencies[self.parts[number][0]] * self.frequencies[self.parts[number][1]] for number in numbers
        ]
        self.scores[chosen] = self.occurrences[chosen] / np.maximum(np.array(products, dtype=np.float64), 1.0)

    def best(self, min_count: int) -> tuple[int, int] | None:
        occurrences = self.occurrences[: len(self.parts)]
        scores = np.where(occurrences >= max(min_count, 1), self.scores[: len(self.parts)], 0.0)
        highest = scores.max(initial=0.0)
        if highest == 0.0:
            return None
        tied = np.flatnonzero(scores == highest).tolist()
        number = min(
            tied, key=lambda number: (-occurrences[number], *(self.names[part] for part in self.parts[number]))
        )
        return self.parts[number]

    def merge(self, first: int, second: int) -> str:
        """Merge a pair into one piece at every occurrence, from the left. Return the piece."""
        name = joined(self.names[first], self.names[second])
        merged_id = self.id(name)
        touched = {first, second, merged_id}
        for word in sorted(self.places[self.numbers[first, second]]):
            self.count(word, -1)
            self.words[word] = merged(self.words[word], first, second, merged_id)
            self.count(word, 1)
        self.rescore(sorted({number for piece in touched for number in self.having[piece]}))
        return name


def merged(pieces: list[int], first: int, second: int, merged_id: int) -> list[int]:
    output, place = [], 0
    while place < len(pieces):
        is_pair = pieces[place] == first and place + 1 < len(pieces) and pieces[place + 1] == second
        output.append(merged_id if is_pair else pieces[place])
        place += 2 if is_pair else 1
    return output
