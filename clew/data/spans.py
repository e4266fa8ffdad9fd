"""Decide which spans of documents become examples: pure functions of where sentences and documents begin, a seed and an
epoch.

`sentences` holds the first token of each sentence, and the end; `documents` the first sentence of each document, and
the end.
"""

from bisect import bisect_left, bisect_right
from random import Random
from typing import Any, NamedTuple

import numpy as np

SHORT = 0.1
"""The share of pairs that are drawn shorter than a row."""
TRIES = 10
"""Attempts to draw a random text that is not the real continuation. If all fail, the pair uses the continuation."""


class Spans(NamedTuple):
    """Examples as tokens [start, stop): one text each, or two texts and whether the second is random."""

    firsts: np.ndarray  # (examples, 2)
    seconds: np.ndarray | None = None  # (examples, 2)
    random: np.ndarray | None = None  # (examples,), 1 if the second is from another document

    @property
    def lengths(self) -> np.ndarray:
        lengths = self.firsts[:, 1] - self.firsts[:, 0]
        return lengths if self.seconds is None else lengths + self.seconds[:, 1] - self.seconds[:, 0]


def packed_spans(sentences: np.ndarray, documents: np.ndarray, room: int) -> Spans:
    """Cover every token once: a span is as many whole sentences of one document as there is `room` for (Liu et al.
    2019, DOC-SENTENCES). A longer sentence is cut."""
    spans, sentences = [], np.asarray(sentences)
    for first, last in zip(documents[:-1].tolist(), documents[1:].tolist(), strict=True):
        start, end = int(sentences[first]), int(sentences[last])
        while start < end:
            stop = end
            if end - start > room:
                first = bisect_right(sentences, start + room, first, last) - 1
                stop = int(sentences[first])
                stop = stop if stop > start else start + room
            spans.append((start, stop))
            start = stop
    return Spans(np.array(spans, dtype=np.int64).reshape(-1, 2))


def paired_spans(sentences: np.ndarray, documents: np.ndarray, room: int, seed: int, epoch: int) -> Spans:
    """Draw pairs of texts for next-sentence prediction (Devlin et al. 2019). Sentences of a document are taken until
    there are `room` tokens, or one time in ten a random smaller number. They are cut in two. Half of the time, the
    second part is put back, and sentences of another document take its place. If a pair is too long, the longer text is
    shortened, at random at either end.

    A single sentence, the last of a document or one that fills a row, always has a random second text, so these are
    more than half. This follows the authors' released code, except that their code draws the short lengths once for a
    whole document.
    """
    assert len(documents) > 2 and room > 1
    draws = Random(f"{seed} {epoch}")
    draw, bounds, sentences = draws.random, documents.tolist(), np.asarray(sentences)
    pairs: list[tuple[int, int, int, int, int]] = []
    for document, (begin, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        while begin < end:
            target = room if draw() >= SHORT else 2 + int(draw() * (room - 1))
            start, stop = sentences[begin], boundary_after(sentences, begin, end, target)
            middle = begin + 1 + int(draw() * (stop - begin - 1))
            first, is_random = sentences[middle] - start, stop - begin == 1 or draw() < 0.5
            if is_random:
                other = int(draw() * (len(bounds) - 2))
                other += other >= document
                place = bounds[other] + int(draw() * (bounds[other + 1] - bounds[other]))
                edges = place, boundary_after(sentences, place, bounds[other + 1], target - first)
                begin = middle
            else:
                edges = middle, stop
                begin = stop
            span = shorten_pair(
                int(start), int(sentences[middle]), int(sentences[edges[0]]), int(sentences[edges[1]]), room, draws
            )
            pairs.append((*span, int(is_random)))
    rows = np.array(pairs, dtype=np.int64)
    return Spans(rows[:, :2], rows[:, 2:4], rows[:, 4])


def evenly_paired_spans(
    sentences: np.ndarray, documents: np.ndarray, room: int, seed: int, epoch: int, tokens: np.ndarray
) -> Spans:
    """Draw pairs of texts for next-sentence prediction, each with a random second text with probability 1/2 (Devlin et
    al. 2019), however short documents are. Lengths and cuts are as in `paired_spans`.

    If the last sentence of a document is left alone, it is the first text before a random one, or the second text after
    the sentence before it. A document of one sentence is cut in two instead; if it has a single token, it is only drawn
    as a random text.
    """
    assert len(documents) > 2 and room > 1
    draws = Random(f"even {seed} {epoch}")
    draw, bounds, sentences = draws.random, documents.tolist(), np.asarray(sentences)
    pairs: list[tuple[int, int, int, int, int]] = []
    for document, (start, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        begin = start
        while begin < end:
            target = room if draw() >= SHORT else 2 + int(draw() * (room - 1))
            is_random = draw() < 0.5
            stop = middle = boundary_after(sentences, begin, end, target)
            first = int(sentences[begin])
            if stop - begin > 1:
                middle = begin + 1 + int(draw() * (stop - begin - 1))
            elif stop < end:  # a sentence that fills a row
                stop = boundary_after(sentences, stop, end, target)
            cut, last = int(sentences[middle]), int(sentences[stop])
            if middle == end and not is_random:  # the last sentence, alone
                cut = first
                if begin > start:
                    first = int(sentences[begin - 1])
                elif last - first > 1:
                    cut += 1 + int(draw() * (last - first - 1))
            if end - start == 1 and last - first < 2:
                break
            for _ in range(TRIES if is_random else 0):
                other = random_text(sentences, bounds, document, target - (cut - first), draws)
                texts = shorten_pair(first, cut, *other, room, draws)
                if is_random := not follows(texts, sentences, int(sentences[end]), tokens):
                    break
            if not is_random and cut < last:
                texts = shorten_pair(first, cut, cut, last, room, draws)
            pairs.append((*texts, int(is_random)))
            begin = middle if is_random else stop
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 5)
    return Spans(rows[:, :2], rows[:, 2:4], rows[:, 4])


def random_text(sentences: np.ndarray, bounds: list[int], document: int, target: int, draws: Random) -> tuple[int, int]:
    """Draw sentences from anywhere in another document."""
    other = int(draws.random() * (len(bounds) - 2))
    other += other >= document
    place = bounds[other] + int(draws.random() * (bounds[other + 1] - bounds[other]))
    return int(sentences[place]), int(sentences[boundary_after(sentences, place, bounds[other + 1], target)])


def follows(texts: tuple[int, int, int, int], sentences: np.ndarray, end: int, tokens: np.ndarray) -> bool:
    """Whether the second text begins with the real continuation of the first, compared up to the end of a sentence.
    Needed because documents may repeat each other."""
    _, stop, other, other_stop = texts
    if stop >= end:
        return False
    length = min(int(sentences[bisect_right(sentences, stop)]) - stop, other_stop - other)
    return bool(np.array_equal(tokens[stop : stop + length], tokens[other : other + length]))


def boundary_after(sentences: np.ndarray, begin: int, end: int, target: Any) -> int:
    """Return the end of the fewest sentences from `begin` on that have `target` tokens, or the document's `end`; at
    least one sentence."""
    most = min(end, begin + max(int(target), 1))  # a sentence has at least one token
    return bisect_left(sentences, sentences[begin] + target, begin + 1, most)


def shorten_pair(
    start: int, stop: int, other_start: int, other_stop: int, room: int, draws: Random
) -> tuple[int, int, int, int]:
    """Shorten two spans to `room` tokens: each token is taken off the longer one, at its beginning or its end."""
    first, second = stop - start, other_stop - other_start
    if first + second <= room:
        return start, stop, other_start, other_stop
    shorter = min(first, second)
    kept = (
        ((shorter, room - shorter) if first < second else (room - shorter, shorter))
        if 2 * shorter <= room
        else (-(-room // 2), room // 2)
    )
    cut, other_cut = first - kept[0], second - kept[1]
    front, other_front = (draws.getrandbits(number).bit_count() if number else 0 for number in (cut, other_cut))
    return start + front, start + front + kept[0], other_start + other_front, other_start + other_front + kept[1]
