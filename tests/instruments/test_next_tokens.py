import math

import pytest
import torch

from clew.core.errors import UserError
from clew.instruments.looking import look
from clew.instruments.next_tokens import NextOptions, expected_next, likeliest
from tests.instruments.small_runs import small_run


def test_the_best_tokens_the_mass_outside_and_the_entropy_are_those_of_the_distribution():
    tokenizer = small_run("lstm").tokenizer
    probabilities = torch.full((tokenizer.vocabulary,), 0.25 / (tokenizer.vocabulary - 2))
    probabilities[3], probabilities[5] = 0.5, 0.25
    found = likeliest(probabilities.log(), tokenizer, 2)
    assert found.ids == (3, 5) and found.tokens == (tokenizer.token(3), tokenizer.token(5))
    assert found.probabilities == pytest.approx((0.5, 0.25)) and found.outside == pytest.approx(0.25)
    rest = 0.25 / (tokenizer.vocabulary - 2)
    assert found.entropy == pytest.approx(0.5 + 0.5 - 0.25 * math.log2(rest), rel=1e-5)


def test_a_certain_model_has_no_entropy():
    tokenizer = small_run("lstm").tokenizer
    log_probs = torch.full((tokenizer.vocabulary,), -math.inf)
    log_probs[1] = 0.0
    found = likeliest(log_probs, tokenizer, 1)
    assert found.entropy == 0.0 and found.outside == 0.0 and found.ids == (1,)


def test_the_likeliest_token_is_what_greedy_decoding_writes():
    for name in ("lstm", "gpt"):
        run = small_run(name)
        best = expected_next(run, NextOptions(text="the wall", top=1))[0].ids
        assert list(best) == run.generate("the wall", method="greedy", max_new=1).tokens


def test_a_translator_is_asked_what_comes_after_what_it_has_written():
    run = small_run("attentive")
    written = run.translate("the walls were tall", method="greedy").tokens
    for count in range(min(len(written), 3)):
        prefix = run.task.target.decode(written[:count])
        found = look(run, "next", {"text": "the walls were tall", "target": prefix, "top": 1}).facts["next"][0]
        assert found["ids"] == (written[count],)


def test_each_mask_of_a_text_has_its_guesses():
    run = small_run("bert")
    found = expected_next(run, NextOptions(text="the [MASK] were [MASK]", top=2))
    filled = run.fill("the [MASK] were [MASK]", top=2)
    assert [one.ids for one in found] == [tuple(guess.id for guess in guesses) for guesses in filled.masks]
    with pytest.raises(UserError, match="has no \\[MASK\\]"):
        look(run, "next", {"text": "the walls"})


def test_a_target_is_for_models_that_write_one():
    with pytest.raises(UserError, match="writes no target; leave target= out"):
        look(small_run("lstm"), "next", {"text": "a", "target": "b"})
