"""Measures of captions equal those of the COCO evaluation: the expected values were computed by pycocoevalcap 1.2 from
these captions, which are already tokenized; the words of the last table are from the same program's Penn Treebank
tokenizer."""

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF

from clew.core.errors import UserError
from clew.metrics.bootstrap import paired_score_bootstrap
from clew.metrics.captioning import (
    CAPTION_MEASURES,
    caption_words,
    ciders,
    corpus_values,
    document_frequencies,
    measure_captions,
    mention_statistics,
    rouge_l,
)
from clew.metrics.statistics import FORMULAS, metric_interval, tabulated

WRITTEN = [
    "a man riding a wave on top of a surfboard",
    "a large red circle is left of a small blue square",
    "two dogs two dogs two dogs run",
    "a cat",
    "the the the the the the the",
    "a group of people standing around a kitchen preparing food for the party tonight",
    "zebra",
    "a dog runs through the snow with a stick in its mouth",
]
REFERENCES = [
    [
        "a man riding a wave on a surfboard",
        "a surfer rides a large wave in the ocean",
        "man on top of a surfboard riding a wave",
    ],
    [
        "a small blue square is right of a large red circle",
        "a red circle is left of a blue square",
        "there is a large red circle",
    ],
    ["two dogs run in the snow", "two dogs chase each other"],
    ["a cat sits on a mat", "the cat is on the mat", "a small cat", "cat on mat", "a cat lies on a red mat near a dog"],
    ["the cat is on the mat"],
    [
        "a group of people in a kitchen preparing food",
        "several people stand around a kitchen",
        "people are preparing food for a party",
    ],
    ["a giraffe eats leaves", "tall giraffe near a tree"],
    [
        *("a black dog runs through the snow with a stick in its mouth", "a dog in the snow", "a dog carries a stick"),
        *("the dog is running in snow", "dog with stick"),
    ],
]
BLEUS = [0.7968749999875487, 0.7638235000745787, 0.7173270616580678, 0.6436922739061052]
ROUGES = [
    *(0.9070631970260222, 0.9165275459098498, 0.4680306905370844, 0.7721518987341772),
    *(0.31202046035805625, 0.7240356083086054, 0.0, 1.0),
]
CIDERS = [
    *(4.437850175509225, 4.66863145618513, 1.4129182931093984, 1.4168835685882568),
    *(0.26658682909145437, 1.861729152291718, 0.0, 2.215609747118334),
]
PARTS = {
    (0, 1, 2, 3): (
        [0.8666666666377778, 0.8563488385469346, 0.8109602660447585, 0.727882506164982],
        [4.453503569416891, 4.66057026519532, 1.335222168262111, 1.5976546294522345],
    ),
    (7, 0): (
        [0.9999999999090909, 0.9999999999068182, 0.961499713446169, 0.921865817476066],
        [2.3340942077064653, 4.351799213655003],
    ),
}
WORDS = {
    "I can't see the dog's tail; it's black-and-white.": "i ca n't see the dog 's tail it 's black-and-white",
    "The 3.5 m, 2-story house (red) costs $1,000!": "the 3.5 m 2-story house -lrb- red -rrb- costs $ 1,000",
    "They're \"here\" -- aren't they?": "they 're here are n't they",
    "A man, woman & child...": "a man woman & child",
    "U.S. flag at 10:30 a.m.": "u.s. flag at 10:30 a.m.",
    "the boys' ball": "the boys ball",
    "A t-shirt says 'hello'.": "a t-shirt says hello",
    "5 o'clock": "5 o'clock",
    "We cannot see the face of the girl .": "we can not see the face of the girl",
    "A boy wears Mr. Potato head features .": "a boy wears mr. potato head features",
    "A man walking 3@dalmatians along a sunny street .": "a man walking 3@dalmatians along a sunny street",
}


def test_bleu_rouge_and_cider_equal_the_coco_evaluation() -> None:
    result = measure_captions(WRITTEN, REFERENCES, tokenized=True)
    values = result.measured.values
    assert [values[f"bleu_{order}"] for order in (1, 2, 3, 4)] == pytest.approx(
        [100 * value for value in BLEUS], rel=1e-8
    )
    assert values["rouge_l"] == pytest.approx(100 * 0.6374786751092244, rel=1e-12)
    assert values["cider"] == pytest.approx(100 * 2.0350261527366893, rel=1e-12)
    assert result.measured.text.startswith(
        "BLEU-1 79.69, BLEU-2 76.38, BLEU-3 71.73, BLEU-4 64.37, rouge l 63.75, CIDEr-D 203.50"
    )


def test_scores_of_each_caption_equal_the_coco_evaluation() -> None:
    words = [text.split() for text in WRITTEN]
    references = [[text.split() for text in several] for several in REFERENCES]
    assert ciders(words, references) == pytest.approx(CIDERS, rel=1e-12)
    assert [rouge_l(*pair) for pair in zip(words, references, strict=True)] == pytest.approx(ROUGES, rel=1e-12)


@pytest.mark.parametrize("part", PARTS)
def test_document_frequencies_are_counted_over_the_part(part: tuple[int, ...]) -> None:
    bleus, values = PARTS[part]
    written, references = [WRITTEN[number] for number in part], [REFERENCES[number] for number in part]
    result = measure_captions(written, references, tokenized=True)
    assert [result.measured.values[f"bleu_{order}"] for order in (1, 2, 3, 4)] == pytest.approx(
        [100 * value for value in bleus], rel=1e-8
    )
    assert [each["cider"]["mean"] for each in result.statistics] == [
        [pytest.approx(100 * value, rel=1e-12), 1] for value in values
    ]
    frequencies = document_frequencies([[text.split() for text in several] for several in references])
    assert frequencies[("a",)] == len(
        [several for several in references if any("a" in text.split() for text in several)]
    )


@pytest.mark.parametrize("text", WORDS)
def test_words_are_split_like_by_the_treebank_tokenizer(text: str) -> None:
    assert caption_words(text) == WORDS[text].split()


def test_statistics_of_any_examples_give_their_scores() -> None:
    """Resampling gives the metric itself: BLEU of the resampled corpus, and CIDEr-D with the frequencies of the whole
    part."""
    result = measure_captions(WRITTEN, REFERENCES, tokenized=True)
    some = [0, 0, 3, 7]
    resampled = corpus_values([result.statistics[number] for number in some])
    alone = measure_captions(
        [WRITTEN[number] for number in some],
        [REFERENCES[number] for number in some],
        ("bleu", "rouge_l"),
        tokenized=True,
    )
    assert {name: resampled[name] for name in alone.measured.values} == pytest.approx(alone.measured.values)
    assert resampled["cider"] == pytest.approx(100 * np.mean([CIDERS[number] for number in some]))
    rows = [each["bleu_4"]["bleu_4"] for each in result.statistics]
    low, high = metric_interval("bleu_4", rows, samples=500)
    assert 0 <= low < result.measured.values["bleu_4"] < high <= 100


def test_two_captioners_are_compared_on_cider() -> None:
    references = [[several[0]] for several in REFERENCES]
    systems = [
        measure_captions(texts, references, ("cider",), tokenized=True)
        for texts in (WRITTEN, [text[0] for text in references])
    ]
    first, second = tabulated([[each["cider"]["mean"] for each in system.statistics] for system in systems])
    paired = paired_score_bootstrap([second], [first], FORMULAS["mean"], samples=500)
    assert paired.difference == pytest.approx(systems[1].measured.values["cider"] - systems[0].measured.values["cider"])
    assert paired.difference > 0 and paired.p < 0.05


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {"bleu_1": 0, "bleu_4": 0, "rouge_l": 0, "cider": 0}),
        ("zebra zebra", {"bleu_1": 0, "rouge_l": 0, "cider": 0}),
    ],
)
def test_a_caption_without_a_word_in_common_scores_nothing(text: str, values: dict[str, float]) -> None:
    result = measure_captions([text, "a cat"], [["a dog", "two dogs run"], ["a cat"]], tokenized=True)
    (wrong, *_) = (corpus_values([each]) for each in result.statistics)
    assert {name: wrong[name] for name in values} == values


def test_repeated_trigrams_are_counted() -> None:
    texts = ["a red cat . a red cat . a red cat", "a b c d", "a b"]
    result = measure_captions(texts, [["a"]] * 3, ("repeated_trigrams",), tokenized=True)
    # a red cat, red cat ., cat . a, . a red: nine trigrams, four different; then two, then none
    assert [each["repeated_trigrams"]["share"] for each in result.statistics] == [[5, 9], [0, 2], [0, 0]]
    assert result.measured.values["repeated_trigrams"] == pytest.approx(100 * 5 / 11)


def test_coverage_counts_things_not_words() -> None:
    each = [mention_statistics([1, 0, 2], num_invented=1), mention_statistics([1])]
    assert corpus_values(each) == pytest.approx({"coverage": 75, "mentioned_once": 50, "invented": 20})
    assert corpus_values([mention_statistics([0, 0])]) == {"coverage": 0, "mentioned_once": 0, "invented": 0}


def test_invalid_inputs_are_rejected() -> None:
    with pytest.raises(UserError, match=r"there must be as many captions \(2\) as lists of references \(1\)"):
        measure_captions(["a", "b"], [["a"]])
    with pytest.raises(UserError, match="caption 1 has no reference; every caption needs at least one"):
        measure_captions(["a", "b"], [["a"], []])
    with pytest.raises(
        UserError, match="the references of caption 0 are one string; give a list of references for each caption"
    ):
        measure_captions(["a"], ["a"])
    with pytest.raises(
        UserError, match="no caption was written, so there is no score; give at least one and its references"
    ):
        measure_captions([], [])
    with pytest.raises(
        UserError, match="unknown measure of captions 'cidr'; did you mean 'cider'\\? known: bleu, chrf, cider"
    ):
        measure_captions(["a"], [["a"]], ["cidr"])
    assert set(CAPTION_MEASURES) == {"bleu", "chrf", "rouge_l", "cider", "repeated_trigrams"}


def test_chrf_equals_sacrebleu_over_the_words() -> None:
    streams = [
        [references[number] if number < len(references) else None for references in REFERENCES] for number in range(5)
    ]
    expected = CHRF().corpus_score(WRITTEN, streams).score
    assert measure_captions(WRITTEN, REFERENCES, ["chrf"], tokenized=True).measured.values == {
        "chrf": pytest.approx(expected)
    }
