import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.decoding.beam import beam_search
from clew.decoding.filters import (
    FILTERS,
    Banned,
    NoRepeatNgram,
    Nucleus,
    RepetitionPenalty,
    Temperature,
    TopK,
    with_filters,
)
from tests.decoding.steppers import Recurrent, Transition, padded, probs_after

OPTIONS = {
    "banned": {"tokens": [1, 3]},
    "repetition_penalty": {"penalty": 1.7},
    "no_repeat_ngram": {"n": 2},
    "temperature": {"temperature": 0.6},
    "top_k": {"k": 2},
    "top_p": {"p": 0.7},
}


def always(*probs):
    """A stepper with the same distribution after every token."""
    return Transition([list(probs)] * len(probs))


@pytest.mark.parametrize("name", FILTERS)
@settings(deadline=None, max_examples=25)
@given(
    rows=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=9), min_size=1, max_size=3),
    cuts=st.sets(st.integers(1, 8)),
    seed=st.integers(0, 99),
)
def test_a_filtered_chunk_of_ragged_rows_equals_each_row_token_by_token(name, rows, cuts, seed):
    stepper = FILTERS[name](Recurrent(5, seed), **OPTIONS[name])
    tokens, mask = padded(rows)
    state, pieces = stepper.initial_state(len(rows)), []
    edges = [0, *sorted(cut for cut in cuts if cut < tokens.shape[1]), tokens.shape[1]]
    for start, stop in zip(edges, edges[1:], strict=False):
        log_probs, state = stepper(tokens[:, start:stop], mask[:, start:stop], state)
        pieces.append(log_probs)
    chunked = torch.cat(pieces, 1).exp()
    for i, row in enumerate(rows):
        for t in range(len(row)):
            assert chunked[i, t].tolist() == pytest.approx(probs_after(stepper, row[: t + 1]))


def test_every_filter_changes_the_distribution_with_its_options():
    row = [0, 1, 2, 0]
    for name, build in FILTERS.items():
        assert probs_after(build(Recurrent(5, 0), **OPTIONS[name]), row) != pytest.approx(
            probs_after(Recurrent(5, 0), row)
        ), name


def test_temperature_raises_probabilities_to_its_inverse():
    assert probs_after(Temperature(always(0.8, 0.2), temperature=0.5), [0]) == pytest.approx([0.64 / 0.68, 0.04 / 0.68])
    assert probs_after(Temperature(always(0.8, 0.2), temperature=2), [0]) == pytest.approx([2 / 3, 1 / 3])


def test_a_tiny_temperature_is_greedy_without_nan():
    assert probs_after(Temperature(always(0.0, 0.4, 0.6), temperature=1e-300), [0]) == [0, 0, 1]


def test_top_k_keeps_the_k_most_probable_and_divides_by_their_mass():
    assert probs_after(TopK(always(0.1, 0.4, 0.2, 0.3), k=2), [0]) == pytest.approx([0, 4 / 7, 0, 3 / 7])


def test_top_k_keeps_exactly_k_of_equal_tokens():
    assert sorted(probs_after(TopK(always(0.25, 0.25, 0.25, 0.25), k=3), [0])) == pytest.approx(
        [0, 1 / 3, 1 / 3, 1 / 3]
    )


def test_top_k_above_the_vocabulary_keeps_everything():
    assert probs_after(TopK(always(0.1, 0.9), k=50), [0]) == pytest.approx([0.1, 0.9])


@pytest.mark.parametrize(
    "p, expected",
    [
        (1e-9, [0, 1, 0, 0]),
        (0.5, [0, 1, 0, 0]),
        (0.51, [0, 0.5 / 0.8, 0, 0.3 / 0.8]),
        (0.8, [0, 0.5 / 0.8, 0, 0.3 / 0.8]),
        (0.81, [0, 0.5 / 0.95, 0.15 / 0.95, 0.3 / 0.95]),
        (1.0, [0.05, 0.5, 0.15, 0.3]),
    ],
)
def test_the_nucleus_is_the_smallest_set_whose_mass_reaches_p(p, expected):
    stepper = always(0.05, 0.5, 0.15, 0.3)
    assert probs_after(Nucleus(stepper, p=p), [0]) == pytest.approx(expected)
    stepper.log_probs = stepper.log_probs.float()
    assert probs_after(Nucleus(stepper, p=p), [0]) == pytest.approx(expected, rel=1e-5)


def test_the_nucleus_with_p_one_keeps_tails_that_rounding_would_lose():
    stepper = always(1 - 2e-9, 1e-9, 1e-9)
    stepper.log_probs = stepper.log_probs.float()
    assert min(probs_after(Nucleus(stepper, p=1.0), [0])) == pytest.approx(1e-9)


def test_the_nucleus_measures_the_mass_left_by_a_constraint():
    assert probs_after(Nucleus(Banned(always(0.8, 0.09, 0.1, 0.01), tokens=[0]), p=0.6), [0]) == pytest.approx(
        [0, 9 / 19, 10 / 19, 0]
    )


def test_the_probability_of_banned_tokens_is_not_redistributed():
    assert probs_after(Banned(always(0.5, 0.3, 0.2), tokens=[0, 2]), [0]) == pytest.approx([0, 0.3, 0])


def test_repetition_penalty_raises_probabilities_of_read_tokens_to_a_power():
    stepper = RepetitionPenalty(always(0.5, 0.3, 0.2), penalty=2)
    assert probs_after(stepper, [1]) == pytest.approx([0.5, 0.09, 0.2])
    assert probs_after(stepper, [1, 1, 2]) == pytest.approx([0.5, 0.09, 0.04])


def test_repetition_penalty_sees_only_earlier_tokens_of_this_and_previous_chunks():
    stepper = RepetitionPenalty(always(0.5, 0.3, 0.2), penalty=2)
    _, state = stepper(torch.tensor([[2], [0]]), None, stepper.initial_state(2))
    log_probs, _ = stepper(torch.tensor([[2, 0], [1, 1]]), None, state)
    assert log_probs.exp().flatten(0, 1).tolist() == [
        pytest.approx(row) for row in ([0.5, 0.3, 0.04], [0.25, 0.3, 0.04], [0.25, 0.09, 0.2], [0.25, 0.09, 0.2])
    ]


def test_a_certain_token_stays_certain_under_a_repetition_penalty():
    assert probs_after(RepetitionPenalty(always(1.0, 0.0), penalty=5), [0, 1]) == [1, 0]


@pytest.mark.parametrize(
    "n, row, refused",
    [
        (2, [0], set()),
        (2, [0, 1], set()),
        (2, [0, 1, 0], {1}),
        (2, [0, 1, 0, 2, 0], {1, 2}),
        (2, [0, 0], {0}),
        (3, [0, 1, 2, 0], set()),
        (3, [0, 1, 2, 0, 1], {2}),
        (3, [0, 0, 0], {0}),
        (1, [0, 2], {0, 2}),
        (4, [0, 1, 2], set()),
    ],
)
def test_tokens_that_would_repeat_an_n_gram_are_banned(n, row, refused):
    probs = probs_after(NoRepeatNgram(always(0.25, 0.25, 0.25, 0.25), n=n), row)
    assert {token for token, p in enumerate(probs) if p == 0} == refused


def test_later_tokens_of_a_chunk_ban_nothing():
    stepper = NoRepeatNgram(always(0.5, 0.25, 0.25), n=2)
    log_probs, _ = stepper(torch.tensor([[0, 1, 0]]), None, stepper.initial_state(1))
    assert (log_probs == -math.inf).tolist() == [[[False] * 3, [False] * 3, [False, True, False]]]


def test_an_n_gram_over_two_chunks_is_detected_row_by_row():
    stepper = NoRepeatNgram(always(0.5, 0.25, 0.25), n=3)
    state = stepper.initial_state(2)
    _, state = stepper(*padded([[0, 1], [0]]), state)
    _, state = stepper(*padded([[2], [1, 2]]), state)
    log_probs, _ = stepper(torch.tensor([[0, 1], [0, 2]]), None, state)
    assert (log_probs == -math.inf)[:, 1].tolist() == [[False, False, True], [False, False, False]]


def test_if_every_token_would_repeat_none_is_banned():
    assert probs_after(NoRepeatNgram(always(0.75, 0.25), n=1), [0, 1]) == pytest.approx([0.75, 0.25])
    assert probs_after(NoRepeatNgram(Banned(always(0.75, 0.25), tokens=[0]), n=1), [1]) == pytest.approx([0, 0.25])


def test_a_row_without_possible_tokens_is_minus_infinity_and_not_nan():
    stepper = with_filters(always(1.0, 0.0, 0.0), banned=[0], temperature=0.5, top_k=2, top_p=0.9)
    assert probs_after(stepper, [0]) == [0, 0, 0]


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 999), st.integers(1, 3), st.integers(1, 4))
def test_beam_search_without_repeated_n_grams_has_none(seed, n, beams):
    hypotheses = beam_search(
        with_filters(Recurrent(8, seed), no_repeat_ngram=n, banned=[3]),
        torch.tensor([[0]]),
        beams=beams,
        max_new=6,
        end=7,
        n_best=beams,
    )
    for tokens, length in zip(hypotheses.tokens[0].tolist(), hypotheses.lengths[0].tolist(), strict=True):
        row = [0, *tokens[:length]]
        grams = [tuple(row[i : i + n]) for i in range(len(row) - n + 1)]
        assert len(set(grams)) == len(grams)
        assert 3 not in row


def test_only_effective_filters_are_stacked_and_in_the_stated_order():
    stepper = always(0.5, 0.5)
    assert with_filters(stepper) is stepper
    outer = with_filters(
        stepper, temperature=2.0, top_k=1, top_p=0.5, repetition_penalty=2.0, no_repeat_ngram=2, banned=[0]
    )
    stack = []
    while outer is not stepper:
        stack.append(type(outer))
        outer = outer.stepper
    assert stack == [Nucleus, TopK, Temperature, NoRepeatNgram, RepetitionPenalty, Banned]


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"temperature": -1}, "temperature (-1) must be above 0 and finite; use greedy decoding for the limit 0"),
        (
            {"temperature": math.inf},
            "temperature (inf) must be above 0 and finite; use greedy decoding for the limit 0",
        ),
        ({"top_k": 0}, "top_k (0) must be a whole number of at least 1"),
        ({"top_k": 2.5}, "top_k (2.5) must be a whole number of at least 1"),
        ({"top_p": 0}, "top_p (0) must be above 0 and at most 1"),
        ({"top_p": 1.5}, "top_p (1.5) must be above 0 and at most 1"),
        (
            {"repetition_penalty": 0},
            "repetition_penalty (0) must be above 0 and finite; 1 is no penalty, above 1 repeats less",
        ),
        ({"no_repeat_ngram": 0}, "no_repeat_ngram (0) must be a whole number of at least 1"),
        ({"banned": [2]}, "banned token (2) must be at least 0 and below vocabulary (2)"),
        ({"banned": [0, 1]}, "all 2 tokens of the vocabulary are banned; leave at least one"),
    ],
)
def test_invalid_values_are_rejected(options, sentence):
    with pytest.raises(UserError) as error:
        with_filters(always(0.5, 0.5), **options)
    assert str(error.value) == sentence
