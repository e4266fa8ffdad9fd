"""Decoding of CTC outputs: best path, and prefix beam search with a language model. Knows no model."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.masks import real_positions, row_lengths
from clew.core.wording import argument_name


class Transcript(NamedTuple):
    """Labels, their log-probability (of the path alone, for a best path), and the score that ranks them."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float


class LanguageModel(Protocol):
    """An object that scores the next symbol.

    `score(prefix)` returns one number per symbol, such as log p(symbol | prefix). The numbers need not be normalised: a
    word model may give 0 for each letter, and the word's log-probability for the space that ends it.
    """

    def score(self, prefix: Sequence[int]) -> "np.ndarray | Sequence[float]": ...


@torch.no_grad()
def best_path(log_probs: Tensor, mask: Tensor | None = None, *, blank: int = 0) -> list[Transcript]:
    """Best path decoding (Graves et al. 2006): the most probable symbol of each frame, with repeats merged and blanks
    removed."""
    check_log_probs(log_probs, blank)
    best, symbols = log_probs.max(-1)  # (batch, length)
    before = torch.nn.functional.pad(symbols, (1, 0), value=blank)[:, :-1]
    is_emitted = (symbols != blank) & (symbols != before)
    real = real_positions(mask)
    if real is not None:
        is_emitted, best = is_emitted & real, best.masked_fill(~real, 0.0)
    totals = best.sum(1, dtype=torch.float64).tolist()
    return [
        Transcript(tuple(row[emitted].tolist()), total, total)
        for row, emitted, total in zip(symbols.cpu(), is_emitted.cpu(), totals, strict=True)
    ]


def prefix_beam_search(
    log_probs: Tensor,
    mask: Tensor | None = None,
    *,
    beams: int,
    blank: int = 0,
    language_model: LanguageModel | None = None,
    alpha: float = 0.5,
    beta: float = 0.0,
    end: int | None = None,
    n_best: int = 1,
    symbols: int | None = None,
) -> list[list[Transcript]]:
    """Prefix beam search: the `n_best` labellings y of each row with the highest scores found, best first (Hannun et
    al. 2014).

        score(y) = log p(y | x) + alpha log p_lm(y) + beta |y|

    A beam is a prefix with the total probability of its paths so far, kept separately for paths that end in a blank and
    paths that end in its last label: only after a blank does a repeated label extend the prefix. If `beams` is at least
    the number of prefixes, the search is exact. `alpha` has no effect without a language model. With `end`, log p_lm(y)
    includes the score of that symbol after y; the blank, which is never a label, may serve as `end`. With `symbols`,
    only that many of the most probable symbols of a frame extend prefixes.
    """
    check_log_probs(log_probs, blank)
    for name, value in (("beams", beams), ("n_best", n_best), ("symbols", 1 if symbols is None else symbols)):
        if value < 1:
            raise UserError(f"{argument_name(name)} ({value}) must be at least 1")
    if n_best > beams:
        raise UserError(f"{argument_name('n_best')} ({n_best}) cannot be more than {argument_name('beams')} ({beams})")
    scorer = Scorer(language_model if alpha else None, alpha, beta, log_probs.shape[2], end)
    rows = log_probs.detach().double().cpu().numpy()
    lengths = [rows.shape[1]] * len(rows) if mask is None else row_lengths(mask).tolist()
    return [
        search(row[:length], beams, blank, scorer, symbols)[:n_best] for row, length in zip(rows, lengths, strict=True)
    ]


class Scorer:
    """Scores that the language model and the length add to a prefix; the model is called once per prefix."""

    def __init__(self, model: LanguageModel | None, alpha: float, beta: float, num_symbols: int, end: int | None):
        self.model, self.alpha, self.beta, self.num_symbols, self.end = model, alpha, beta, num_symbols, end
        self.known: dict[tuple[int, ...], np.ndarray] = {}

    def steps(self, prefix: tuple[int, ...]) -> np.ndarray:
        """Return alpha log p_lm(symbol | prefix) + beta (symbols,)."""
        if prefix not in self.known:
            self.known[prefix] = (
                np.full(self.num_symbols, self.beta)
                if self.model is None
                else self.alpha * self.model_scores(prefix) + self.beta
            )
        return self.known[prefix]

    def model_scores(self, prefix: tuple[int, ...]) -> np.ndarray:
        assert self.model is not None
        scores = np.asarray(self.model.score(prefix), dtype=np.float64)
        if scores.shape != (self.num_symbols,):
            raise UserError(
                f"a language model must score all {self.num_symbols} symbols, but this one returned {scores.size}"
                " scores"
            )
        return scores

    def ending(self, prefix: tuple[int, ...]) -> float:
        """Return alpha log p_lm(end | prefix)."""
        return 0.0 if self.model is None or self.end is None else float(self.steps(prefix)[self.end] - self.beta)


def search(log_probs: np.ndarray, beams: int, blank: int, scorer: Scorer, num_symbols: int | None) -> list[Transcript]:
    """Search one row (length, symbols) and return all beams, best first."""
    prefixes: list[tuple[int, ...]] = [()]
    after_blank, after_label = np.zeros(1), np.full(1, -math.inf)  # log-probabilities of the paths to each prefix
    added = np.zeros(1)  # scores added by the language model and the length
    labels = np.delete(np.arange(log_probs.shape[1]), blank)
    for y in log_probs:
        last = np.array([prefix[-1] if prefix else -1 for prefix in prefixes])
        whole = np.logaddexp(after_blank, after_label)
        stays_blank = whole + y[blank]
        stays_label = np.where(last >= 0, after_label + y[last], -math.inf)
        longer = labels
        if num_symbols is not None and num_symbols < len(labels):
            likely = labels[np.argsort(-y[labels], kind="stable")[:num_symbols]]
            longer = np.union1d(likely, last[last >= 0])  # so that a prefix in the beam collects all its paths
        # (prefixes, symbols)
        extended = np.where(last[:, None] == longer, after_blank[:, None], whole[:, None]) + y[longer]
        places = {prefix: number for number, prefix in enumerate(prefixes)}
        columns = {int(symbol): number for number, symbol in enumerate(longer)}
        for number, prefix in enumerate(prefixes):
            parent = places.get(prefix[:-1]) if prefix else None
            if parent is not None:  # extending the parent gives the same prefix; sum its paths
                column = columns[prefix[-1]]
                stays_label[number] = np.logaddexp(stays_label[number], extended[parent, column])
                extended[parent, column] = -math.inf
        gains = np.stack([scorer.steps(prefix)[longer] for prefix in prefixes])
        scores = np.concatenate(
            [np.logaddexp(stays_blank, stays_label) + added, (extended + added[:, None] + gains).ravel()]
        )
        kept = np.argsort(-scores, kind="stable")[:beams]
        kept = kept[scores[kept] > -math.inf]
        parents, choices = np.divmod(kept - len(prefixes), len(longer))
        is_longer = kept >= len(prefixes)
        parents = np.where(is_longer, parents, kept)
        after_blank = np.where(is_longer, -math.inf, stays_blank[parents])
        after_label = np.where(is_longer, extended[parents, choices], stays_label[parents])
        added = added[parents] + np.where(is_longer, gains[parents, choices], 0.0)
        prefixes = [
            (*prefixes[parent], int(longer[choice])) if extra else prefixes[parent]
            for parent, choice, extra in zip(parents, choices, is_longer, strict=True)
        ]
    whole = np.logaddexp(after_blank, after_label)
    transcripts = [
        Transcript(prefix, float(log_prob), float(log_prob + extra) + scorer.ending(prefix))
        for prefix, log_prob, extra in zip(prefixes, whole, added, strict=True)
    ]
    return sorted(transcripts, key=lambda transcript: -transcript.score)


def check_log_probs(log_probs: Tensor, blank: int) -> None:
    if log_probs.dim() != 3:
        raise UserError(f"log_probs {tuple(log_probs.shape)} must be (batch, length, symbols)")
    if log_probs.shape[2] < 2:
        raise UserError(f"symbols ({log_probs.shape[2]}) must be at least 2: a blank and a label")
    if not 0 <= blank < log_probs.shape[2]:
        raise UserError(
            f"blank ({blank}) must be one of the {log_probs.shape[2]} symbols, 0 to {log_probs.shape[2] - 1}"
        )
