import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.decoding.filters import Banned, with_filters
from clew.decoding.sampling import (
    greedy,
    greedy_sequences,
    invert_cumulative,
    sample,
    sample_sequences,
    uniform_numbers,
)
from tests.decoding.steppers import Attending, Recurrent, Transition, padded, probs_after

COUNTING = Transition([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]])  # after w follows w + 1

ROWS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=4)


def test_greedy_follows_the_most_probable_token_until_the_end_token():
    generated = greedy_sequences(COUNTING, torch.tensor([[0], [2]]), max_new=9, end=3)
    assert generated.tokens.tolist() == [[1, 2, 3], [3, 3, 3]]
    assert generated.lengths.tolist() == [3, 1]


def test_several_tokens_can_end_a_row_which_repeats_its_own_end():
    generated = greedy_sequences(COUNTING, torch.tensor([[0], [1]]), max_new=9, end=[3, 1])
    assert generated.tokens.tolist() == [[1, 1], [2, 3]]
    assert generated.lengths.tolist() == [1, 2]


def test_without_an_end_token_rows_end_at_max_new():
    assert torch.stack(list(greedy(COUNTING, torch.tensor([[0]]), max_new=6)), 1).tolist() == [[1, 2, 3, 0, 1, 2]]


@settings(deadline=None, max_examples=30)
@given(ROWS, st.integers(0, 99), st.sampled_from([Recurrent, Attending]))
def test_each_greedy_token_is_the_argmax_after_all_before_it_and_has_its_log_probability(rows, seed, family):
    stepper = family(5, seed)
    generated = greedy_sequences(stepper, *padded(rows), max_new=4, end=0)
    for i, row in enumerate(rows):
        for t in range(generated.lengths[i]):
            probs = probs_after(stepper, row + generated.tokens[i, :t].tolist())
            assert generated.tokens[i, t] == probs.index(max(probs))
            assert generated.log_probs[i, t].item() == pytest.approx(math.log(max(probs)))
        assert set(generated.tokens[i, generated.lengths[i] :].tolist()) <= {0}
        assert not generated.log_probs[i, generated.lengths[i] :].any()


@settings(deadline=None, max_examples=30)
@given(ROWS, st.integers(0, 99), st.sampled_from([Recurrent, Attending]))
def test_a_row_is_sampled_equally_alone_and_in_a_batch(rows, seed, family):
    stepper = with_filters(family(5, seed), temperature=1.3, top_k=4, repetition_penalty=1.1)
    together = sample_sequences(stepper, *padded(rows), max_new=5, end=0, seed=seed)
    for i, row in enumerate(rows):
        alone = sample_sequences(stepper, torch.tensor([row]), max_new=5, end=0, seed=seed, row_numbers=[i])
        length = int(alone.lengths)
        assert together.lengths[i] == length
        assert together.tokens[i, :length].tolist() == alone.tokens[0].tolist()


def test_streamed_tokens_equal_collected_ones():
    stepper, prompt = Recurrent(6, 3), torch.tensor([[0], [1], [2]])
    streamed = torch.stack(list(sample(stepper, prompt, max_new=7, end=5, seed=1)), 1)
    assert streamed.tolist() == sample_sequences(stepper, prompt, max_new=7, end=5, seed=1).tokens.tolist()
    streamed = torch.stack(list(greedy(stepper, prompt, max_new=7, end=5)), 1)
    assert streamed.tolist() == greedy_sequences(stepper, prompt, max_new=7, end=5).tokens.tolist()


def test_a_token_is_yielded_before_the_next_step_is_computed():
    stepper = Transition([[0.5, 0.5], [0.5, 0.5]])
    tokens = greedy(stepper, torch.tensor([[0]]), max_new=3)
    next(tokens)
    assert stepper.calls == 1
    assert len(list(tokens)) == 2
    assert stepper.calls == 3


def test_ended_rows_are_dropped_once_they_are_half_of_the_batch():
    rows = []

    class Watched(Transition):
        def __call__(self, tokens, mask, state):
            rows.append(len(tokens))
            return super().__call__(tokens, mask, state)

    prompt = torch.tensor([[0], [1], [2]])
    generated = greedy_sequences(Watched(COUNTING.log_probs[0].exp().tolist()), prompt, max_new=9, end=3)
    alone = [greedy_sequences(COUNTING, row[None], max_new=9, end=3) for row in prompt]
    assert rows == [3, 3, 1], "two of three have ended after two tokens"
    assert generated.lengths.tolist() == [int(one.lengths) for one in alone] == [3, 2, 1]
    for row, one in enumerate(alone):
        assert generated.tokens[row, : one.tokens.shape[1]].tolist() == one.tokens[0].tolist()
        assert generated.log_probs[row].sum().item() == pytest.approx(one.log_probs.sum().item())


@given(st.integers(1, 9), st.integers(0, 99))
def test_numbers_drawn_together_equal_those_drawn_one_by_one(count, seed):
    together, single = (uniform_numbers(seed, [0, 3]) for _ in range(2))
    assert torch.equal(together(count), torch.cat([single(1) for _ in range(count)]))


def test_generation_continues_from_a_given_state():
    stepper = Recurrent(6, 3)
    _, state = stepper(torch.tensor([[1, 2]]), None, stepper.initial_state(1))
    whole = greedy_sequences(stepper, torch.tensor([[1, 2, 3]]), max_new=5)
    assert (
        greedy_sequences(stepper, torch.tensor([[3]]), None, state, max_new=5).tokens.tolist() == whole.tokens.tolist()
    )


def test_gradients_are_disabled_only_inside_the_generator():
    stepper = Recurrent(4, 0)
    stepper.output.requires_grad_()
    for tokens in greedy(stepper, torch.tensor([[0]]), max_new=3):
        assert torch.is_grad_enabled()
        assert not tokens.requires_grad
    assert not greedy_sequences(stepper, torch.tensor([[0]]), max_new=3).log_probs.requires_grad


@pytest.mark.parametrize("rows, steps", [(4000, 1), (200, 20), (1, 4000)])
def test_sampled_frequencies_match_the_distribution(rows, steps):
    probs = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0])
    stepper = Transition([probs.tolist()] * 5)
    tokens = sample_sequences(stepper, torch.zeros(rows, 1, dtype=torch.long), max_new=steps, seed=0).tokens
    counts = tokens.flatten().bincount(minlength=5)
    assert counts[4] == 0
    expected = 4000 * probs[:4]
    assert ((counts[:4] - expected) ** 2 / expected).sum() < 21.1  # chi-square with 3 degrees of freedom, p = 1e-4


def test_a_constraint_preserves_the_ratios_of_other_tokens():
    stepper = Banned(Transition([[0.5, 0.3, 0.2]] * 3), tokens=[0])
    tokens = sample_sequences(stepper, torch.zeros(4000, 1, dtype=torch.long), max_new=1, seed=0).tokens
    assert tokens.flatten().bincount(minlength=3).tolist() == [
        0,
        pytest.approx(2400, abs=125),
        pytest.approx(1600, abs=125),
    ]


def test_seeds_and_row_numbers_give_different_samples():
    stepper = Transition([[1 / 16] * 16] * 16)
    prompt = torch.zeros(3, 1, dtype=torch.long)
    rows = [row for seed in (0, 1) for row in sample_sequences(stepper, prompt, max_new=20, seed=seed).tokens.tolist()]
    assert len({tuple(row) for row in rows}) == 6


def test_the_cumulative_distribution_is_inverted():
    log_probs = torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0], dtype=torch.float64).log()
    uniform = torch.tensor([0.0, 0.2, 0.25, 0.7, 0.75, 1 - 2**-53], dtype=torch.float64)
    assert invert_cumulative(log_probs.expand(6, -1), uniform).tolist() == [1, 1, 3, 3, 4, 4]
    # On a device without float64 a uniform number may be rounded to 1.
    assert invert_cumulative(log_probs[None], torch.ones(1)).tolist() == [4]


@given(
    st.lists(st.sampled_from([0.0, 1e-12, 0.1, 1.0]), min_size=1, max_size=8).filter(any),
    st.floats(0, 1, exclude_max=True),
)
def test_a_token_of_probability_zero_is_never_chosen(weights, uniform):
    token = invert_cumulative(torch.tensor([weights]).log(), torch.tensor([uniform], dtype=torch.float64))
    assert weights[token] > 0


def test_a_row_without_a_possible_token_is_reported():
    stepper = Banned(Transition([[0.5, 0.5, 0], [1, 0, 0], [0, 0, 1]]), tokens=[0])
    sentence = (
        "^row 1 has no next token of probability above 0: all its log-probabilities are -inf, or one is NaN; "
        "loosen the filters, or look for what diverged in the model$"
    )
    with pytest.raises(UserError, match=sentence):
        greedy_sequences(stepper, torch.tensor([[0], [1]]), max_new=1)
    with pytest.raises(UserError, match=sentence):
        sample_sequences(stepper, torch.tensor([[0], [1]]), max_new=1, seed=0)


def test_an_ended_row_needs_no_possible_token():
    stepper = Transition([[0, 1], [0, 0]])
    assert greedy_sequences(stepper, torch.tensor([[0]]), max_new=5, end=1).tokens.tolist() == [[1]]


def test_invalid_options_are_rejected_before_the_first_token():
    prompt = torch.tensor([[0], [1]])
    with pytest.raises(UserError, match=r"^max_new \(0\) must be at least 1$"):
        greedy(COUNTING, prompt, max_new=0)
    with pytest.raises(UserError, match=r"^end token \(4\) must be at least 0 and below vocabulary \(4\)$"):
        greedy(COUNTING, prompt, max_new=1, end=4)
    with pytest.raises(UserError, match=r"^row_numbers \(3\) must have one number for each row of the prompt \(2\)$"):
        sample(COUNTING, prompt, max_new=1, seed=0, row_numbers=[1, 2, 3])
