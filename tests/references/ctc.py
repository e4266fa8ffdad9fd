"""Connectionist temporal classification by its definition: every path of every length, written out in NumPy float64."""

from itertools import product

import numpy as np


def collapse(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """One of every run of equal symbols, then no blanks."""
    kept: list[int] = []
    before = None
    for symbol in path:
        if symbol != before and symbol != blank:
            kept.append(symbol)
        before = symbol
    return tuple(kept)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    found = np.zeros_like(logits)
    for t in range(len(logits)):
        total = 0.0
        for score in logits[t]:
            total += np.exp(score)
        found[t] = logits[t] - np.log(total)
    return found


def paths(logits: np.ndarray, blank: int) -> dict[tuple[int, ...], list[tuple[float, tuple[int, ...]]]]:
    """Every labelling with its paths, each with its probability."""
    log_probs = log_softmax(logits)
    found: dict[tuple[int, ...], list[tuple[float, tuple[int, ...]]]] = {}
    for path in product(range(logits.shape[1]), repeat=len(logits)):
        score = 0.0
        for t, symbol in enumerate(path):
            score += log_probs[t, symbol]
        found.setdefault(collapse(path, blank), []).append((float(np.exp(score)), path))
    return found


def labellings(logits: np.ndarray, blank: int) -> dict[tuple[int, ...], float]:
    """log p of every labelling that has one."""
    return {labels: float(np.log(sum(p for p, _ in ways))) for labels, ways in paths(logits, blank).items()}


def label_numbers(path: tuple[int, ...], blank: int) -> list[int | None]:
    """Which label of its labelling each frame of a path belongs to; None for blanks."""
    found: list[int | None] = []
    number, before = -1, blank
    for symbol in path:
        if symbol != before and symbol != blank:
            number += 1
        found.append(None if symbol == blank else number)
        before = symbol
    return found


def posteriors(logits: np.ndarray, labels: tuple[int, ...], blank: int) -> np.ndarray:
    """p(frame t belongs to label i | labels, x) (labels, length), path by path."""
    found, total = np.zeros((len(labels), len(logits))), 0.0
    for probability, path in paths(logits, blank)[labels]:
        total += probability
        for t, number in enumerate(label_numbers(path, blank)):
            if number is not None:
                found[number, t] += probability
    return found / total
