import math

import pytest
import torch

from clew.core.errors import UserError
from clew.instruments.looking import look
from clew.instruments.next_tokens import NextOptions, expected_next, likeliest
from tests.instruments.small_runs import small_run


def test_best_tokens_outside_mass_and_entropy_follow_the_distribution():
    tokenizer = small_run("lstm").tokenizer
    probabilities = torch.full((tokenizer.vocabulary,), 0.25 / (tokenizer.vocabulary - 2))
    probabilities[3], probabilities[5] = 0.5, 0.25
    candidates = likeliest(probabilities.log(), tokenizer, 2)
    assert candidates.ids == (3, 5) and candidates.tokens == (tokenizer.token(3), tokenizer.token(5))
    assert candidates.probabilities == pytest.approx((0.5, 0.25)) and candidates.outside == pytest.approx(0.25)
    other_probability = 0.25 / (tokenizer.vocabulary - 2)
    assert candidates.entropy == pytest.approx(0.5 + 0.5 - 0.25 * math.log2(other_probability), rel=1e-5)


def test_a_certain_model_has_no_entropy():
    tokenizer = small_run("lstm").tokenizer
    log_probs = torch.full((tokenizer.vocabulary,), -math.inf)
    log_probs[1] = 0.0
    candidates = likeliest(log_probs, tokenizer, 1)
    assert candidates.entropy == 0.0 and candidates.outside == 0.0 and candidates.ids == (1,)


def test_the_most_likely_token_is_that_of_greedy_decoding():
    for name in ("lstm", "gpt"):
        run = small_run(name)
        best = expected_next(run, NextOptions(text="the wall", top=1))[0].ids
        assert list(best) == run.generate("the wall", method="greedy", max_new=1).tokens


def test_a_translators_next_token_follows_its_target_so_far():
    run = small_run("attentive")
    tokens = run.translate("the walls were tall", method="greedy").tokens
    for count in range(min(len(tokens), 3)):
        prefix = run.task.target.decode(tokens[:count])
        expected_token = look(run, "next", {"text": "the walls were tall", "target": prefix, "top": 1}).facts["next"][0]
        assert expected_token["ids"] == (tokens[count],)


def test_each_mask_of_a_text_has_its_own_candidates():
    run = small_run("bert")
    expectations = expected_next(run, NextOptions(text="the [MASK] were [MASK]", top=2))
    filled = run.fill("the [MASK] were [MASK]", top=2)
    assert [one.ids for one in expectations] == [tuple(guess.id for guess in guesses) for guesses in filled.masks]
    with pytest.raises(UserError, match="has no \\[MASK\\]"):
        look(run, "next", {"text": "the walls"})


def test_a_target_is_rejected_by_models_without_one():
    with pytest.raises(UserError, match="writes no target; leave target= out"):
        look(small_run("lstm"), "next", {"text": "a", "target": "b"})
