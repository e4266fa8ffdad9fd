"""Prefix beam search against enumeration of all labellings, with and without a language model."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clew.baselines.kneser_ney import fit_kneser_ney
from clew.core.errors import UserError
from clew.decoding.ctc import best_path, prefix_beam_search
from tests.references.agreement import randn
from tests.references.ctc import collapse, labellings

EVERY = 10_000


class Bigrams:
    """log p(next | last) from a table (symbols + 1, symbols), whose last row is the start."""

    def __init__(self, symbols: int, seed: int = 0):
        self.table = 2 * randn(symbols + 1, symbols, seed=seed).log_softmax(-1).numpy()
        self.prefixes: list[tuple[int, ...]] = []

    def score(self, prefix: tuple[int, ...]) -> np.ndarray:
        self.prefixes.append(tuple(prefix))
        return self.table[prefix[-1] if prefix else -1]

    def total(self, tokens: tuple[int, ...]) -> float:
        return sum(float(self.table[before, token]) for before, token in zip((-1, *tokens), tokens, strict=False))


def problem(length: int, symbols: int, seed: int) -> tuple[Tensor, dict[tuple[int, ...], float]]:
    logits = 1.5 * randn(1, length, symbols, seed=seed)
    return logits.log_softmax(-1), labellings(logits[0].numpy(), 0)


@given(st.integers(1, 5), st.integers(2, 4), st.integers(0, 1000))
def test_a_full_beam_finds_every_labelling_with_its_probability(length: int, symbols: int, seed: int) -> None:
    log_probs, every = problem(length, symbols, seed)
    (transcripts,) = prefix_beam_search(log_probs, beams=EVERY, n_best=EVERY)
    assert {transcript.tokens: transcript.log_prob for transcript in transcripts} == {
        tokens: pytest.approx(log_prob, abs=1e-9) for tokens, log_prob in every.items()
    }
    assert transcripts[0].log_prob == pytest.approx(max(every.values()), abs=1e-9)
    assert [transcript.score for transcript in transcripts] == sorted(
        (transcript.score for transcript in transcripts), reverse=True
    )


@given(st.integers(1, 5), st.integers(2, 4), st.integers(0, 1000), st.floats(0.1, 2), st.floats(-1, 2), st.booleans())
def test_with_a_language_model_it_finds_the_highest_weighted_score(
    length: int, symbols: int, seed: int, alpha: float, beta: float, ends: bool
) -> None:
    log_probs, every = problem(length, symbols, seed)
    model = Bigrams(symbols, seed)

    def weighted(tokens: tuple[int, ...]) -> float:
        ending = float(model.score(tokens)[0]) if ends else 0.0
        return every[tokens] + alpha * (model.total(tokens) + ending) + beta * len(tokens)

    (transcripts,) = prefix_beam_search(
        log_probs, beams=EVERY, n_best=3, language_model=model, alpha=alpha, beta=beta, end=0 if ends else None
    )
    best = sorted(map(weighted, every), reverse=True)[:3]
    assert [transcript.score for transcript in transcripts] == pytest.approx(best, abs=1e-9)
    assert weighted(transcripts[0].tokens) == pytest.approx(best[0], abs=1e-9)


def test_a_labelling_can_be_more_probable_than_the_best_path() -> None:
    """Of p(a) = 0.4 and p(blank) = 0.6 at two frames, the best path is two blanks (0.36), the best labelling a
    (0.64)."""
    log_probs = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]], dtype=torch.float64).log()
    (path,), ((transcript,),) = best_path(log_probs), prefix_beam_search(log_probs, beams=2)
    assert path.tokens == () and math.exp(path.log_prob) == pytest.approx(0.36)
    assert transcript.tokens == (1,) and math.exp(transcript.log_prob) == pytest.approx(0.64)


@given(st.integers(1, 6), st.integers(2, 4), st.integers(1, 6), st.integers(0, 1000))
def test_a_narrow_beam_never_overestimates_a_labelling(length: int, symbols: int, beams: int, seed: int) -> None:
    log_probs, every = problem(length, symbols, seed)
    for few in (None, 1):
        (transcripts,) = prefix_beam_search(log_probs, beams=beams, n_best=beams, symbols=few)
        assert 1 <= len(transcripts) <= beams
        assert all(transcript.log_prob <= every[transcript.tokens] + 1e-9 for transcript in transcripts)


@given(st.integers(0, 8), st.integers(2, 4), st.integers(0, 1000))
def test_the_best_path_is_the_collapsed_argmax(length: int, symbols: int, seed: int) -> None:
    log_probs = randn(2, length, symbols, seed=seed).log_softmax(-1)
    mask = torch.arange(length) < torch.tensor([length, length // 2])[:, None]
    for number, transcript in enumerate(best_path(log_probs, mask, blank=symbols - 1)):
        row = log_probs[number, : int(mask[number].sum())]
        assert transcript.tokens == collapse(tuple(row.argmax(-1).tolist()), symbols - 1)
        assert transcript.log_prob == pytest.approx(float(row.amax(-1).sum()))


def test_padding_and_other_rows_change_nothing() -> None:
    log_probs = randn(3, 6, 4, seed=5).log_softmax(-1)
    mask = torch.arange(6) < torch.tensor([6, 3, 0])[:, None]
    together = prefix_beam_search(log_probs, mask, beams=4, n_best=2)
    for number, length in enumerate((6, 3, 0)):
        assert together[number] == prefix_beam_search(log_probs[number : number + 1, :length], beams=4, n_best=2)[0]
    assert together[2][0].tokens == () and together[2][0].log_prob == 0.0


def test_a_kneser_ney_model_can_be_the_language_model() -> None:
    """The frames do not distinguish b from c; the text has b after a, and ends there: the blank's id is the end."""
    model = fit_kneser_ney([[1, 2, 0]] * 20 + [[3, 0]], vocabulary=4, order=3)
    frames = torch.tensor(
        [[0.05, 0.85, 0.05, 0.05], [0.9, 0.04, 0.03, 0.03], [0.06, 0.04, 0.44, 0.46]], dtype=torch.float64
    ).log()[None]
    assert prefix_beam_search(frames, beams=8)[0][0].tokens == (1, 3)
    best = prefix_beam_search(frames, beams=8, language_model=model, alpha=1.0, end=0)[0][0]
    assert best.tokens == (1, 2)
    assert best.score == pytest.approx(best.log_prob + model.log_probs([1, 2, 0]).sum())


def test_a_prefix_is_scored_once() -> None:
    model = Bigrams(3)
    prefix_beam_search(randn(2, 6, 3).log_softmax(-1), beams=5, language_model=model)
    assert len(model.prefixes) == len(set(model.prefixes)) > 5
    prefix_beam_search(randn(2, 6, 3).log_softmax(-1), beams=5, language_model=model, alpha=0.0)
    assert len(model.prefixes) == len(set(model.prefixes)), "a model with weight 0 is not called"


def test_a_length_bonus_makes_transcripts_longer() -> None:
    log_probs = randn(4, 12, 5, seed=2).log_softmax(-1)
    plain, more = (prefix_beam_search(log_probs, beams=16, beta=beta) for beta in (0.0, 3.0))
    assert sum(len(row[0].tokens) for row in more) > sum(len(row[0].tokens) for row in plain)


def test_invalid_options_are_rejected() -> None:
    log_probs = randn(1, 3, 3).log_softmax(-1)
    with pytest.raises(UserError, match=r"beams \(0\) must be at least 1"):
        prefix_beam_search(log_probs, beams=0)
    with pytest.raises(UserError, match=r"n_best \(3\) cannot be more than beams \(2\)"):
        prefix_beam_search(log_probs, beams=2, n_best=3)
    with pytest.raises(UserError, match=r"blank \(3\) must be one of the 3 symbols, 0 to 2"):
        best_path(log_probs, blank=3)
    with pytest.raises(UserError, match=r"log_probs \(3, 3\) must be \(batch, length, symbols\)"):
        best_path(log_probs[0])
    with pytest.raises(UserError, match=r"symbols \(1\) must be at least 2: a blank and a label"):
        prefix_beam_search(log_probs[..., :1], beams=2)
    with pytest.raises(UserError, match="a language model must score all 3 symbols, but this one returned 4 scores"):
        prefix_beam_search(log_probs, beams=2, language_model=Bigrams(4))
