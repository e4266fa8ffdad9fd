import math

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.instruments import logit_lens, surprisal
from clew.instruments.logit_lens import look_through, settling, through_lens
from clew.instruments.looking import look
from clew.instruments.reading import read
from clew.instruments.surprisal import surprisals
from tests.instruments.small_runs import small_run

TEXT = "the walls were tall"


def test_levels_worked_by_hand():
    """Two levels with vectors of two numbers; the norm divides by two, and the output layer is the identity."""
    levels = [torch.tensor([[0.0, 2 * math.log(3)]]), torch.tensor([[math.log(3), 0.0]])]
    lens = through_lens(levels, lambda x: x / 2, lambda x: x)
    assert lens.tokens.tolist() == [[1], [0]]
    assert lens.probabilities.flatten().tolist() == pytest.approx(
        [0.75, 0.75]
    ) and lens.final.flatten().tolist() == pytest.approx([0.25, 0.75])
    assert lens.divergence.flatten().tolist() == pytest.approx(
        [0.75 * math.log2(3) - 0.25 * math.log2(3), 0.0], abs=1e-6
    )


def test_settling_counts_the_levels_below_the_last_change():
    assert settling(torch.tensor([[1, 4], [2, 4], [2, 4]])) == 0.5
    assert settling(torch.tensor([[2], [1], [2]])) == 2.0


@pytest.mark.parametrize("name", ["gpt", "llama", "bert", "lstm", "transformer", "attentive"])
def test_the_last_level_gives_the_models_own_distribution(name):
    run = small_run(name)
    reading = read(run, TEXT, "tall were") if name in ("transformer", "attentive") else read(run, TEXT)
    names, lens = look_through(reading)
    expected = reading.model.scores_tokens(reading).output(reading.hidden())[0].double().softmax(-1)
    np.testing.assert_allclose(lens.probabilities[-1], expected.max(-1).values.detach(), rtol=1e-5)
    assert lens.tokens[-1].tolist() == expected.argmax(-1).tolist() and lens.divergence[-1].abs().max() < 1e-9
    assert (lens.divergence >= 0).all() and len(names) == len(lens.tokens)


def test_a_gpt_without_upper_layers_predicts_what_the_lens_shows():
    """The model with its upper layer removed, against the level below it."""
    run = small_run("gpt")
    facts = look(run, "logit_lens", {"text": TEXT}).facts
    assert facts["levels"] == ["embedding", "layer 1", "layer 2"]
    layers = run.task.body.layers.layers
    upper = [layers[2], layers[3]]
    try:
        del run.task.body.layers.layers[2:]
        short = read(run, TEXT)
        expected = run.task.logits(short.hidden())[0].softmax(-1).max(-1).values
    finally:
        run.task.body.layers.layers.extend(upper)
    np.testing.assert_allclose(facts["probabilities"][1], expected.detach(), rtol=1e-4)


def test_levels_of_another_width_are_left_out_and_a_single_one_is_rejected():
    with pytest.raises(UserError, match="has only one level as wide as its output layer"):
        look(small_run("lstm"), "logit_lens", {"text": TEXT})
    with pytest.raises(UserError, match="no output layer over tokens"):
        look(small_run("tagger"), "logit_lens", {"text": TEXT})


def test_long_texts_are_processed_in_chunks(monkeypatch):
    reading = read(small_run("gpt"), TEXT)
    _, whole = look_through(reading)
    bits = surprisals(reading)[0].bits
    for module in (logit_lens, surprisal):
        monkeypatch.setattr(module, "CHUNK", 5)
    _, pieces = look_through(reading)
    for one, other in zip(whole, pieces, strict=True):
        torch.testing.assert_close(one, other)
    assert surprisals(reading)[0].bits == pytest.approx(bits, abs=1e-5)
