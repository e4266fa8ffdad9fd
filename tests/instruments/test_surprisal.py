"""Surprisal against independently computed log-probabilities, token by token and by hand."""

import math

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.instruments.looking import look
from clew.instruments.reading import read
from clew.instruments.surprisal import bits_of, surprisals
from tests.instruments.small_runs import small_run


def test_bits_are_the_negative_logarithm_to_base_two():
    log_probs = torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]]).log()
    assert bits_of(log_probs, torch.tensor([1, 0])).tolist() == pytest.approx([2.0, 3.0])


@pytest.mark.parametrize("name", ["elman", "lstm", "gpt", "llama"])
def test_the_surprisal_of_a_language_model_equals_its_scores(name):
    run, text = small_run(name), "the walls were"
    (surprise,) = surprisals(read(run, text))
    assert "".join(surprise.tokens) == text
    assert surprise.places == tuple(range(1, len(text)))
    assert surprise.bits == pytest.approx([-log_prob / math.log(2) for log_prob in run.score(text).log_probs], abs=1e-4)
    assert surprise.perplexity == pytest.approx(2 ** np.mean(surprise.bits))


def test_subwords_join_to_the_text_and_words_are_between_ends():
    text = "the walls were tall"
    (surprise,) = surprisals(read(small_run("subwords"), text))
    assert "".join(surprise.tokens) == text
    (surprise,) = surprisals(read(small_run("words"), text))
    assert surprise.tokens == ("<eos>", "the", "walls", "were", "tall", "<eos>") and surprise.places == (1, 2, 3, 4, 5)


def test_a_masked_model_predicts_each_token_with_only_that_one_masked():
    run = small_run("bert")
    reading = read(run, "the walls were tall")
    (surprise,) = surprisals(reading)
    assert surprise.places == tuple(range(1, len(reading.ids) - 1))  # without [CLS] and [SEP]
    for place, bits in zip(surprise.places, surprise.bits, strict=True):
        ids = torch.tensor([reading.ids])
        ids[0, place] = run.task.tokenizer.mask
        inputs = reading.batch.inputs
        with torch.no_grad():
            hidden = run.task.body(ids if isinstance(inputs, torch.Tensor) else inputs._replace(tokens=ids))[0]
            probability = run.task.logits(hidden)[0, place].softmax(-1)[reading.ids[place]]
        assert bits == pytest.approx(-math.log2(probability), abs=1e-4)
    assert look(run, "surprisal", {"text": "the walls were tall"}).facts["pseudo"]


def test_a_translators_target_is_scored_given_its_source():
    run = small_run("transformer")
    (surprise,) = surprisals(read(run, "the walls were tall", "tall were walls the"))
    scored = run.score_translation("the walls were tall", "tall were walls the")
    assert surprise.tokens == tuple(scored.tokens)
    assert surprise.total == pytest.approx(-scored.log_prob / math.log(2), rel=1e-4)


def test_a_bidirectional_model_has_a_surprisal_in_each_direction():
    run = small_run("elmo")
    ahead, back = surprisals(read(run, "the walls were tall"))
    ids = run.task.tokenizer.encode("the walls were tall")
    ids = [run.task.tokenizer.end, *ids, run.task.tokenizer.end]
    with torch.no_grad():
        nexts, previous = run.task.predict(run.task.collate([ids]))
    assert ahead.bits == pytest.approx((-nexts[0] / math.log(2)).tolist(), abs=1e-4) and ahead.places == (1, 2, 3, 4, 5)
    assert back.bits == pytest.approx((-previous[0] / math.log(2)).tolist(), abs=1e-4) and back.places == (
        0,
        1,
        2,
        3,
        4,
    )


def test_a_single_token_has_no_surprisal():
    with pytest.raises(
        UserError, match="a text needs at least 2 tokens, one to read and one to predict; this one has 1"
    ):
        look(small_run("lstm"), "surprisal", {"text": "a"})
    assert len(surprisals(read(small_run("words"), "a"))[0].bits) == 2  # between the ends of a line


def test_a_classifier_is_rejected():
    with pytest.raises(
        UserError, match="'surprisal' cannot look at this: runs/classifier gives no probability to a token"
    ):
        look(small_run("classifier"), "surprisal", {"text": "a"})


def test_given_masks_have_no_surprisal_and_stay_masked():
    facts = look(small_run("bert"), "surprisal", {"text": "the [MASK] were"}).facts
    assert "[MASK]" in facts["tokens"] and facts["tokens"].index("[MASK]") not in facts["places"]
    with pytest.raises(
        UserError, match="every token of this text is a mask, so there is none to score; write at least one word"
    ):
        look(small_run("bert"), "surprisal", {"text": "[MASK]"})
