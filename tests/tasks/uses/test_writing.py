"""Generation from a table of transitions, for which everything can be computed by hand."""

import math

import pytest
import torch

from clew.tasks.uses.writing import DecodingConfig, Hypothesis, filtered_as, without_end, write
from tests.decoding.steppers import Transition

END, A, B = 0, 1, 2
TABLE = [[0.1, 0.5, 0.4], [0.3, 0.3, 0.4], [0.9, 0.05, 0.05]]
"""Rows: the last token; columns: the next. At the start, a is more likely than b, but only b can end."""


def write_from_table(method: str, rows: int = 1, max_new: int = 5, **options) -> list[list[Hypothesis]]:
    banned = options.pop("banned", ())
    config = DecodingConfig(method=method, **options)
    return write(
        filtered_as(config, Transition(TABLE), banned), torch.full((rows, 1), END), config, end=END, max_new=max_new
    )


def test_greedy_takes_the_most_likely_token_and_beam_search_the_best_sequence() -> None:
    [[greedy]] = write_from_table("greedy")
    assert greedy.tokens == [A, B]
    assert math.exp(greedy.log_prob) == pytest.approx(0.5 * 0.4 * 0.9)
    [[best]] = write_from_table("beam", beams=2, length_penalty=0.0)
    assert best.tokens == [B]
    assert math.exp(best.log_prob) == pytest.approx(0.4 * 0.9)


def test_the_score_is_the_log_probability_over_the_length_including_the_end() -> None:
    for method in ("greedy", "beam"):
        [[hypothesis]] = write_from_table(method, beams=2, length_penalty=0.7)
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / (len(hypothesis.tokens) + 1) ** 0.7)


def test_an_unfinished_target_keeps_its_last_token() -> None:
    for method in ("greedy", "beam"):
        [[hypothesis]] = write_from_table(method, max_new=1, beams=1)
        assert hypothesis.tokens == [A] and math.exp(hypothesis.log_prob) == pytest.approx(0.5)


def test_n_best_are_the_best_of_all_sequences_in_order() -> None:
    every = sorted(((0.1, []), (0.4 * 0.9, [B]), (0.5 * 0.3, [A]), (0.5 * 0.4 * 0.9, [A, B])), reverse=True)
    [hypotheses] = write_from_table("beam", beams=9, n_best=4, length_penalty=0.0)
    assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for _, tokens in every]
    assert [math.exp(hypothesis.log_prob) for hypothesis in hypotheses] == pytest.approx([prob for prob, _ in every])


def test_more_hypotheses_than_beams_widen_the_beam_and_missing_ones_are_left_out() -> None:
    [hypotheses] = write_from_table("beam", beams=1, n_best=3)
    assert len(hypotheses) == 3
    certain = Transition([[1.0, 0.0], [1.0, 0.0]])
    [few] = write(
        certain, torch.zeros(1, 1, dtype=torch.long), DecodingConfig(method="beam", n_best=4), end=0, max_new=3
    )
    assert [hypothesis.tokens for hypothesis in few] == [[]]


def test_banned_tokens_are_never_generated() -> None:
    for method in ("greedy", "beam", "sample"):
        for [hypothesis] in write_from_table(method, rows=20, banned=(B,)):
            assert B not in hypothesis.tokens


def test_samples_follow_the_model_and_the_seed() -> None:
    config = DecodingConfig(method="sample")
    first, same, other = (
        write(Transition(TABLE), torch.full((400, 1), END), config, end=END, max_new=9, seed=seed) for seed in (1, 1, 2)
    )
    assert first == same != other
    assert sum(row[0].tokens == [] for row in first) / 400 == pytest.approx(0.1, abs=0.05)
    assert sum(row[0].tokens == [B] for row in first) / 400 == pytest.approx(0.36, abs=0.07)


def test_the_end_token_is_removed_once_and_only_at_the_end() -> None:
    assert without_end([A, END], END) == [A]
    assert without_end([A, END, END], END) == [A, END]
    assert without_end([A, B], END) == [A, B]
    assert without_end([], END) == []


def test_each_row_has_its_own_limit() -> None:
    never = Transition([[0.0, 1.0, 0.0]] * 3)
    for method in ("greedy", "sample", "beam"):
        config = DecodingConfig(method=method, beams=2)
        rows = write(never, torch.full((3, 1), END), config, end=END, max_new=torch.tensor([1, 4, 2]))
        assert [row[0].tokens for row in rows] == [[A], [A] * 4, [A] * 2]
        assert [row[0].log_prob for row in rows] == pytest.approx([0.0, 0.0, 0.0])


def test_a_forced_end_replaces_the_last_token_at_no_cost() -> None:
    for method in ("greedy", "beam"):
        [[hypothesis]] = write_from_table(method, max_new=2, beams=1, forced_end=True)
        assert hypothesis.tokens == [A] and math.exp(hypothesis.log_prob) == pytest.approx(0.5)
