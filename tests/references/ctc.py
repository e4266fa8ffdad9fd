"""Connectionist temporal classification by its definition: an enumeration of all paths, in NumPy float64."""

from itertools import product

import numpy as np


def collapse(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """Merge runs of equal symbols, then remove blanks."""
    symbols: list[int] = []
    before = None
    for symbol in path:
        if symbol != before and symbol != blank:
            symbols.append(symbol)
        before = symbol
    return tuple(symbols)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    result = np.zeros_like(logits)
    for t in range(len(logits)):
        total = 0.0
        for score in logits[t]:
            total += np.exp(score)
        result[t] = logits[t] - np.log(total)
    return result


def paths(logits: np.ndarray, blank: int) -> dict[tuple[int, ...], list[tuple[float, tuple[int, ...]]]]:
    """All labellings with their paths and the paths' probabilities."""
    log_probs = log_softmax(logits)
    by_labelling: dict[tuple[int, ...], list[tuple[float, tuple[int, ...]]]] = {}
    for path in product(range(logits.shape[1]), repeat=len(logits)):
        score = 0.0
        for t, symbol in enumerate(path):
            score += log_probs[t, symbol]
        by_labelling.setdefault(collapse(path, blank), []).append((float(np.exp(score)), path))
    return by_labelling


def labellings(logits: np.ndarray, blank: int) -> dict[tuple[int, ...], float]:
    """log p of every possible labelling."""
    return {labels: float(np.log(sum(p for p, _ in ways))) for labels, ways in paths(logits, blank).items()}


def label_numbers(path: tuple[int, ...], blank: int) -> list[int | None]:
    """The index of the label to which each frame of a path belongs; None for blanks."""
    numbers: list[int | None] = []
    number, before = -1, blank
    for symbol in path:
        if symbol != before and symbol != blank:
            number += 1
        numbers.append(None if symbol == blank else number)
        before = symbol
    return numbers


def posteriors(logits: np.ndarray, labels: tuple[int, ...], blank: int) -> np.ndarray:
    """p(frame t belongs to label i | labels, x), (labels, length), summed over all paths."""
    totals, total = np.zeros((len(labels), len(logits))), 0.0
    for probability, path in paths(logits, blank)[labels]:
        total += probability
        for t, number in enumerate(label_numbers(path, blank)):
            if number is not None:
                totals[number, t] += probability
    return totals / total
