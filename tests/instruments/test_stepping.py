"""Choosing tokens one by one agrees with decoding, in tokens and probabilities."""

import math
from typing import Any

import pytest
import torch

from clew.core.errors import UserError
from clew.instruments.stepping import Step, draw, next_step
from tests.instruments.small_runs import small_run


def walk(run: Any, text: str, count: int, **options: Any) -> tuple[Step, list[int]]:
    """Choose the most likely token `count` times, or until the text ends."""
    chosen: list[int] = []
    step = next_step(run, text, chosen, **options)
    while len(chosen) < count and not step.ended:
        chosen.append(step.next.ids[0])
        step = next_step(run, text, chosen, **options)
    return step, chosen


@pytest.mark.parametrize("name", ["lstm", "gpt", "subwords"])
def test_repeating_the_most_likely_token_is_greedy_generation(name: str) -> None:
    run = small_run(name)
    step, chosen = walk(run, "the walls", 8)
    continuation = run.generate("the walls", method="greedy", max_new=8, stop=False)
    assert chosen == continuation.tokens and step.text == continuation.text
    if run.tokenizer.unit == "character":  # every text is tokenized in the same way
        assert step.log_prob == pytest.approx(sum(run.score("the walls" + step.text).log_probs[-8:]), abs=1e-4)


@pytest.mark.parametrize("name", ["attentive", "transformer"])
def test_repeating_the_most_likely_token_is_greedy_translation(name: str) -> None:
    run = small_run(name)
    step, chosen = walk(run, "the walls were tall", 6)
    translation = run.translate("the walls were tall", method="greedy", max_new=6)
    assert chosen[: len(translation.tokens)] == translation.tokens
    if step.ended:
        assert step.text == translation.text and step.log_prob == pytest.approx(translation.log_prob, abs=1e-4)


def test_listed_and_outside_probabilities_sum_to_one() -> None:
    step = next_step(small_run("lstm"), "the walls", [], top=5)
    assert len(step.next.ids) == 5 and sum(step.next.probabilities) + step.next.outside == pytest.approx(1)
    assert list(step.next.probabilities) == sorted(step.next.probabilities, reverse=True)


def test_any_token_can_be_chosen_and_counts_with_its_probability() -> None:
    run = small_run("gpt")
    first = next_step(run, "the", [], top=10)
    third = first.next.ids[3]
    after = next_step(run, "the", [third])
    assert after.log_prob == pytest.approx(math.log(first.next.probabilities[3]), abs=1e-5)
    assert after.tokens == [run.tokenizer.piece(third)]


def test_choosing_the_end_ends_the_text() -> None:
    run = small_run("attentive")
    step = next_step(run, "the walls", [run.task.end])
    assert step.ended and step.text == "" and step.end == run.task.end


def test_heads_that_are_off_change_the_next_token() -> None:
    run = small_run("gpt")
    with_all, without = (next_step(run, "the walls", [], off=off).next.probabilities for off in ((), ("1.1", "2.2")))
    assert with_all != pytest.approx(without, abs=1e-6)


def test_a_token_is_sampled_from_all_tokens_not_only_the_listed_ones() -> None:
    run = small_run("lstm")
    step = next_step(run, "the walls", [], top=2)
    samples = [next_step(run, "the walls", [], top=2, seed=seed).drawn for seed in range(60)]
    outside = [each for each in samples if each is not None and each.id not in step.next.ids]
    assert len(outside) / len(samples) == pytest.approx(step.next.outside, abs=0.2)
    assert all(each.rank > 2 and each.probability < min(step.next.probabilities) for each in outside)
    assert step.drawn is None and samples[7] == next_step(run, "the walls", [], top=9, seed=7).drawn


def test_tokens_are_sampled_by_their_probability() -> None:
    tokenizer = small_run("lstm").tokenizer
    log_probs = torch.full((tokenizer.vocabulary,), -math.inf)
    log_probs[3], log_probs[5] = math.log(0.25), math.log(0.75)
    samples = [draw(log_probs, tokenizer, seed) for seed in range(400)]
    assert {each.id for each in samples} == {3, 5}
    assert sum(each.id == 3 for each in samples) / 400 == pytest.approx(0.25, abs=0.07)  # three standard deviations
    assert {(each.id, each.rank) for each in samples} == {(3, 2), (5, 1)}


@pytest.mark.parametrize(
    "name, text, chosen, sentence",
    [
        ("lstm", "the", [10**6], "there is no token 1000000; ids are between 0 and"),
        ("gpt", "the", [1] * 40, "43 tokens, but the model has 32 positions"),
        ("attentive", " ", [], "there is no text to read"),
        ("bert", "the", [], "does not generate text token by token"),
    ],
)
def test_unsuitable_runs_and_tokens_are_rejected(name: str, text: str, chosen: list[int], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        next_step(small_run(name), text, chosen)
