"""GNMT's length normalisation and coverage (Wu et al. 2016, equation 14), against enumeration of all hypotheses."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.decoding.beam import beam_search
from clew.decoding.ensemble import Ensemble
from clew.decoding.filters import NoRepeatNgram, TopK
from clew.decoding.ranking import Coverage, Ranking, coverages
from tests.decoding.steppers import LookingTransition, Transition

END, PLACES = 0, 3


def random_stepper(seed, lengths, vocabulary=3):
    """A random table with attention on only the real places of each sentence; some places get very little."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(vocabulary), size=(4, vocabulary))
    weights = np.zeros((len(lengths), vocabulary, PLACES))
    for row, length in enumerate(lengths):
        weights[row, :, :length] = rng.dirichlet(np.full(length, 0.5), size=vocabulary)
    return LookingTransition(probs.tolist(), weights.tolist(), lengths)


def scored(stepper, sentence, prompt, tokens, alpha, beta):
    """log P / lp + cp of tokens after a prompt, including the end, with floats and loops."""
    read_tokens, log_prob, table = list(prompt), 0.0, stepper.log_probs.tolist()
    covered = [0.0] * PLACES
    for depth, token in enumerate(tokens, start=len(prompt) - 1):
        log_prob += table[min(depth, len(table) - 1)][read_tokens[-1]][token]
        read_tokens.append(token)
    for token in read_tokens[:-1]:
        for place in range(PLACES):
            covered[place] += float(stepper.weights[sentence, token, place])
    length = sum(not padding for padding in stepper.padding[sentence].tolist())
    coverage = sum(math.log(min(covered[place], 1.0)) for place in range(length))
    return log_prob / ((5 + len(tokens)) ** alpha / (5 + 1) ** alpha) + beta * coverage


def all_hypotheses(max_new, vocabulary):
    """All sequences that end, or reach `max_new`."""
    for length in range(1, max_new + 1):
        for tokens in product(range(vocabulary), repeat=length):
            if END not in tokens[:-1] and (tokens[-1] == END or length == max_new):
                yield tokens


def results_of(hypotheses, row=0):
    tokens, lengths, scores = (
        hypotheses.tokens[row].tolist(),
        hypotheses.lengths[row].tolist(),
        hypotheses.scores[row].tolist(),
    )
    return [
        (tuple(each[:length]), score) for each, length, score in zip(tokens, lengths, scores, strict=True) if length
    ]


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 9999),
    alpha=st.sampled_from([0.0, 0.2, 0.6, 1.0, -0.5]),
    beta=st.sampled_from([0.0, 0.2, 1.0]),
    n_best=st.integers(1, 6),
    lengths=st.lists(st.integers(1, PLACES), min_size=1, max_size=3),
)
def test_a_beam_as_wide_as_the_space_finds_the_best_by_the_formula(seed, alpha, beta, n_best, lengths):
    stepper = random_stepper(seed, lengths)
    prompts = [[1 + (seed + row) % 2, 2] for row in range(len(lengths))]
    options = {"length_penalty": alpha, "length_form": "gnmt", "coverage_penalty": beta}
    hypotheses = beam_search(stepper, torch.tensor(prompts), beams=27, max_new=3, end=END, n_best=n_best, **options)
    for row, prompt in enumerate(prompts):
        every = [(tokens, scored(stepper, row, prompt, tokens, alpha, beta)) for tokens in all_hypotheses(3, 3)]
        best = sorted(every, key=lambda pair: -pair[1])[:n_best]
        assert [score for _, score in results_of(hypotheses, row)] == pytest.approx([score for _, score in best])
        assert dict(results_of(hypotheses, row)) == pytest.approx(
            {tokens: dict(every)[tokens] for tokens, _ in results_of(hypotheses, row)}
        )


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 9999),
    alpha=st.sampled_from([0.0, 0.6, 1.5]),
    beta=st.sampled_from([0.2, 3.0]),
    beams=st.integers(1, 3),
)
def test_a_narrow_beam_keeps_the_most_probable_and_ranks_ended_ones(seed, alpha, beta, beams):
    """Against a search with lists that never stops early."""
    stepper, prompt = random_stepper(seed, [3]), [1]
    table = stepper.log_probs.tolist()
    running, finished = [((), 0.0)], []
    for depth in range(5):
        candidates = []
        for tokens, log_prob in running:
            after = table[min(depth, len(table) - 1)][[*prompt, *tokens][-1]]
            candidates += [((*tokens, token), log_prob + p) for token, p in enumerate(after)]
        candidates = sorted(candidates, key=lambda pair: -pair[1])[: 2 * beams]
        finished += [tokens for tokens, _ in candidates if tokens[-1] == END]
        running = [pair for pair in candidates if pair[0][-1] != END][:beams]
    every = [
        (tokens, scored(stepper, 0, prompt, tokens, alpha, beta))
        for tokens in [*finished, *(tokens for tokens, _ in running)]
    ]
    best = sorted(every, key=lambda pair: -pair[1])[:beams]
    options = {"length_penalty": alpha, "length_form": "gnmt", "coverage_penalty": beta}
    for n_best in {1, beams}:
        actual = results_of(
            beam_search(stepper, torch.tensor([prompt]), beams=beams, max_new=5, end=END, n_best=n_best, **options)
        )
        assert [score for _, score in actual] == pytest.approx([score for _, score in best[:n_best]])


def test_length_forms_equal_hand_computed_ones():
    assert Ranking(0.6, "gnmt").divisor(7) == pytest.approx(2**0.6)
    assert Ranking(0.6, "gnmt").divisor(1) == 1.0  # a single token is divided by 1
    assert Ranking(0.6).divisor(7) == 7**0.6
    assert Ranking(1.0, "gnmt").divisor(torch.tensor([1, 7])).tolist() == [1.0, 2.0]


def test_coverage_penalises_uncovered_places_and_not_repeated_ones():
    state = (torch.zeros(2, 1), {"any": Coverage(torch.tensor([[0.5, 1.7, 1.0], [1.0, 0.25, 0.5]]))})
    penalties = Ranking(coverage_penalty=0.2).penalties(state)
    assert penalties.tolist() == pytest.approx([0.2 * math.log(0.5), 0.2 * math.log(0.125)])
    assert Ranking().penalties(state) == 0.0


def test_a_place_without_attention_leaves_a_finite_score():
    penalties = Ranking(coverage_penalty=1.0).penalties(Coverage(torch.tensor([[0.0, 1.0], [1e-3, 0.0]])))
    assert penalties.isfinite().all() and penalties[0] > penalties[1]


def test_coverage_is_averaged_over_an_ensemble_and_found_inside_filters():
    first, second, mean = (random_stepper(1, [3, 2]) for _ in range(3))
    second.weights = random_stepper(2, [3, 2]).weights
    mean.weights = (first.weights + second.weights) / 2
    prompts = torch.tensor([[1], [2]])
    options = {"beams": 4, "max_new": 4, "end": END, "n_best": 4, "coverage_penalty": 0.7}
    expected = beam_search(mean, prompts, **options)
    together = Ensemble([first, second])
    filtered = NoRepeatNgram(TopK(together, k=3), n=9)  # filters that change nothing
    for stepper in (together, filtered):
        assert len(list(coverages(stepper.initial_state(2)))) == 2
        torch.testing.assert_close(beam_search(stepper, prompts, **options).scores, expected.scores)


def test_invalid_options_are_rejected_with_a_sentence():
    with pytest.raises(
        UserError, match=r"coverage_penalty \(-1.0\) must be at least 0, so that places left out lower a score"
    ):
        Ranking(coverage_penalty=-1.0)
    with pytest.raises(UserError, match="unknown length_form 'gmnt'; did you mean 'gnmt'\\? known: gnmt, power"):
        Ranking(length_form="gmnt")  # type: ignore[arg-type]
    options = {"beams": 2, "max_new": 3, "end": END, "coverage_penalty": 0.2}
    with pytest.raises(
        UserError,
        match=r"coverage_penalty \(0.2\) needs a model that attends to a source while it writes, which this one"
        " does not; set it to 0",
    ):
        beam_search(Transition([[0.5, 0.5]] * 2), torch.tensor([[1]]), **options)
