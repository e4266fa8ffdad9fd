"""Measures against hand-computed examples, and against sacrebleu."""

import pytest
from sacrebleu import BLEU, CHRF

from clew.metrics.measures import MEASURES, VALUES
from clew.tasks.shared.sequence import SequenceConfig, TranslationConfig

WRITTEN = ["the cat sat on the mat .", "A dog barks", "nothing"]
WANTED = ["the cat sat on a mat .", "a dog barks", "something else"]


@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_and_chrf_equal_sacrebleu(lowercase: bool) -> None:
    bleu = MEASURES["bleu"].corpus(WRITTEN, WANTED, lowercase)
    assert bleu.values == {"bleu": pytest.approx(BLEU(lowercase=lowercase).corpus_score(WRITTEN, [WANTED]).score)}
    chrf = MEASURES["chrf"].corpus(WRITTEN, WANTED, lowercase)
    assert chrf.values == {"chrf": pytest.approx(CHRF(lowercase=lowercase).corpus_score(WRITTEN, [WANTED]).score)}
    case = "lc" if lowercase else "mixed"
    assert f"nrefs:1|case:{case}|eff:no|tok:13a|smooth:exp|version:" in bleu.text
    assert f"nrefs:1|case:{case}|eff:yes|nc:6|nw:0|space:no|version:" in chrf.text


def test_exact_match_is_the_fraction_of_correct_texts() -> None:
    assert MEASURES["exact_match"].corpus(["a", "B", "c d"], ["a", "b", "c  d"], False).values == {
        "exact_match": pytest.approx(100 / 3)
    }
    measured = MEASURES["exact_match"].corpus(["a", "B", "c d"], ["a", "b", "c  d"], True)
    assert measured.values == {"exact_match": pytest.approx(200 / 3)} and measured.text == "66.67 % right"


def test_edits_are_relative_to_the_reference() -> None:
    """One word of three and one of one: 2 of 4; `sat` to `sit` and `x` to `yz`: 3 of 3 + 7 + 2 characters."""
    measured = MEASURES["edit_distance"].corpus(["a cat sat", "x"], ["a cat sit", "yz"], False)
    assert measured.values == {
        "word_error_rate": pytest.approx(50.0),
        "character_error_rate": pytest.approx(100 * 3 / 11),
    }
    assert MEASURES["edit_distance"].corpus(["A B"], ["a b"], True).values["word_error_rate"] == 0


def test_rouge_values_equal_hand_computed_ones() -> None:
    """Two of three words, one of two pairs of neighbours."""
    measured = MEASURES["rouge"].corpus(["the cat sat"], ["the cat ran"], False)
    assert measured.values == {
        "rouge_1": pytest.approx(200 / 3),
        "rouge_2": pytest.approx(50.0),
        "rouge_l": pytest.approx(200 / 3),
        "rouge_lsum": pytest.approx(200 / 3),
    }


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("lowercase", [False, True])
def test_a_correct_sentence_has_the_highest_score(name: str, lowercase: bool) -> None:
    score = MEASURES[name].sentence
    right, near, wrong = (
        score(text, "the old man and the sea", lowercase) for text in ("the old man and the sea", "the old man", "x")
    )
    assert right > near >= wrong
    assert score("THE OLD MAN AND THE SEA", "the old man and the sea", True) == pytest.approx(right)


@pytest.mark.parametrize("name", MEASURES)
def test_empty_texts_have_a_score(name: str) -> None:
    measured = MEASURES[name].corpus(["", ""], ["a word", "b"], False)
    assert set(measured.values.values()) <= {0.0, 100.0}


def test_every_value_that_may_select_the_best_checkpoint_is_measured() -> None:
    for name, measure in MEASURES.items():
        assert set(VALUES.get(name, [name])) <= set(measure.corpus(["a"], ["a"], False).values)
    assert TranslationConfig().best in TranslationConfig().measures
    assert SequenceConfig().best == "loss"
