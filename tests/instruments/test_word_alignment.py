import itertools

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.instruments.looking import look
from clew.instruments.word_alignment import crossing
from tests.instruments.small_runs import small_run


def test_crossing_is_the_fraction_of_pairs_in_reversed_order():
    assert crossing([]) == crossing([3]) == crossing([0, 1, 1, 2]) == 0.0
    assert crossing([2, 1, 0]) == 1.0
    assert crossing([0, 2, 1]) == pytest.approx(1 / 3)
    for order in itertools.product(range(3), repeat=4):
        pairs = [a > b for a, b in itertools.combinations(order, 2)]
        assert crossing(order) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("name", ["attentive", "transformer"])
def test_each_target_word_has_its_most_attended_source_word(name):
    run = small_run(name)
    facts = look(run, "alignment", {"text": "the walls were tall", "target": "tall were walls the"}).facts
    weights = np.array(facts["weights"])
    assert facts["target"] == ["tall", "were", "walls", "the", "<eos>"] and weights.shape == (5, 5)
    np.testing.assert_allclose(weights.sum(1), 1.0, atol=1e-3)
    assert facts["looked_at"] == weights[:-1, :-1].argmax(1).tolist() and facts["crossing"] == crossing(
        facts["looked_at"]
    )


def test_the_models_own_translation_is_aligned_by_default():
    run = small_run("attentive")
    facts = look(run, "alignment", {"text": "the walls"}).facts
    assert " ".join(facts["target"][:-1]) == run.translate("the walls", method="greedy").text


def test_an_empty_text_is_rejected():
    with pytest.raises(UserError, match="there is no text to read"):
        look(small_run("attentive"), "alignment", {"text": " "})


def test_a_language_model_has_nothing_to_align():
    with pytest.raises(UserError, match="writes no target that could be aligned"):
        look(small_run("gpt"), "alignment", {"text": "a"})
