from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.tag_schemes import convert_tags, find_tag_fault, tag_spans
from clew.metrics.agreement import Agreement, f1_interval
from clew.metrics.spans import SpanScore, score_sentences, score_spans
from clew.metrics.strings import Accuracy

ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}
STARTS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
"""The rules of conlleval's endOfChunk and startOfChunk for two tags of one type. A different type also ends and starts
a phrase, and so do [ and ], `assumed to have length 1`. There is no rule for S."""


def ends_phrase(before: str, tag: str) -> bool:
    return before[0] + tag[0] in ENDS or (before[0] != "O" and before[2:] != tag[2:]) or before[0] in "[]"


def starts_phrase(before: str, tag: str) -> bool:
    return before[0] + tag[0] in STARTS or (tag[0] != "O" and before[2:] != tag[2:]) or tag[0] in "[]"


def word_by_word(gold: list[str], predicted: list[str]) -> tuple[int, int, int]:
    """conlleval's algorithm, which builds no phrases: it goes through the words and remembers whether both sides are in
    the same one."""
    counts, same = [0, 0, 0], False
    before = ["O", "O"]
    for pair in [*zip(gold, predicted, strict=True), ("O", "O")]:
        ends = [ends_phrase(last, tag) for last, tag in zip(before, pair, strict=True)]
        starts = [starts_phrase(last, tag) for last, tag in zip(before, pair, strict=True)]
        labels = [tag[2:] for tag in pair]
        if same and all(ends) and before[0][2:] == before[1][2:]:
            counts[2] += 1
            same = False
        elif same and (ends[0] != ends[1] or labels[0] != labels[1]):
            same = False
        if all(starts) and labels[0] == labels[1]:
            same = True
        counts[0] += starts[0]
        counts[1] += starts[1]
        before = list(pair)
    return counts[0], counts[1], counts[2]


def counted(gold: list[str], predicted: list[str]) -> tuple[int, int, int]:
    total = score_spans([gold], [predicted]).total
    return total.gold, total.predicted, total.matched


@pytest.mark.parametrize("prefixes", ["BI", "IE"])
def test_counts_equal_conlleval_on_every_pair_of_short_sentences(prefixes):
    """IOB1, IOB2 and IOE, and tags that violate them: all transitions."""
    tags = ["O", *(f"{prefix}-{label}" for prefix in prefixes for label in "XY")]
    sentences = [list(sentence) for sentence in product(tags, repeat=3)]
    for gold in sentences:
        for predicted in sentences[::3]:
            assert counted(gold, predicted) == word_by_word(gold, predicted)


@given(st.lists(st.tuples(*[st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y", "B", "I"])] * 2), max_size=12))
def test_counts_equal_conlleval_on_longer_sentences(pairs):
    gold, predicted = [a for a, _ in pairs], [b for _, b in pairs]
    assert counted(gold, predicted) == word_by_word(gold, predicted)


BIOES = ["O", *(f"{prefix}-{label}" for prefix in "BIES" for label in "XY")]


def test_two_tags_are_separated_like_in_conlleval_except_around_s_and_e_before_b():
    """Of all transitions between tags of one label, only these are read differently; conlleval has no rule for them."""
    disagreeing = {
        f"{before[0]}{tag[0]}"
        for before, tag in product(BIOES, BIOES)
        if "O" not in (before, tag) and (len(tag_spans([before, tag])) == 2) != starts_phrase(before, tag)
    }
    assert disagreeing == {"EB", "ES", "BS", "IS", "SB", "SI", "SE", "SS"}


def test_bioes_equals_conlleval_after_conversion_to_iob2():
    """All well-formed BIOES sequences of up to four words."""
    sentences = [
        list(tags)
        for length in range(1, 5)
        for tags in product(BIOES, repeat=length)
        if find_tag_fault(tags, "bioes") is None
    ]
    num_other = 0
    for tags in sentences:
        plain = convert_tags(tags, "iob2")
        num = len(tag_spans(tags))
        assert counted(tags, tags) == word_by_word(plain, plain) == (num, num, num)
        neighbours = any((a.end, a.label) == (b.start, b.label) for a, b in pairwise(tag_spans(tags)))
        assert (word_by_word(tags, tags) != (num, num, num)) == neighbours, (
            "as they stand it takes neighbours of one label for one phrase"
        )
        num_other += neighbours
    assert 0 < num_other < len(sentences)
    assert word_by_word(["S-X", "S-X"], ["S-X", "S-X"]) == (1, 1, 1)
    assert word_by_word(["B-X", "E-X", "B-X", "E-X"], ["B-X", "E-X", "B-X", "E-X"]) == (1, 1, 1)


def test_conllevals_bracket_tags_are_rejected():
    """In conlleval each is a phrase of one word."""
    assert word_by_word(["[-X", "]-X", "O"], ["[-X", "]-X", "O"]) == (2, 2, 2)
    for tag in ("[-X", "]-X"):
        with pytest.raises(
            UserError, match=f"the tag '.{tag[1:]}' belongs to no scheme; a tag is O, or B-, I-, E- or S- and a label"
        ):
            score_spans([[tag]], [["O"]])


def test_the_documented_output_of_conlleval_is_reproduced():
    """CoNLL-2000: 961 tokens with 459 phrases; found 539; correct 371; accuracy 84.08, precision 68.83, recall 80.83,
    FB1 74.35."""
    score = SpanScore({"all": Agreement(459, 539, 371)}, Accuracy(808, 961))
    assert score.describe().splitlines()[:2] == [
        "F1 74.35, precision 68.83, recall 80.83, accuracy 84.08",
        "371 of 459 gold and 539 predicted phrases, 961 tags",
    ]


def test_counts_of_a_sentence_equal_hand_computed_ones():
    """Of three people one is found, one is truncated and one is labelled as a place; another place is predicted where
    nothing is."""
    gold = "B-PER I-PER O B-PER B-PER O O".split()  # noqa: SIM905
    predicted = "I-PER O O B-PER B-LOC O I-LOC".split()  # noqa: SIM905
    score = score_spans([gold], [predicted])
    assert score.labels == {"LOC": Agreement(0, 2, 0), "PER": Agreement(3, 2, 1)}
    assert (score.precision, score.recall, score.f1, score.accuracy) == (0.25, 1 / 3, 2 / 7, 3 / 7)
    assert score.describe() == (
        "F1 28.57, precision 25.00, recall 33.33, accuracy 42.86\n"
        "1 of 3 gold and 4 predicted phrases, 7 tags\n"
        "LOC  F1 0.00, precision 0.00, recall 0.00, 0 gold\n"
        "PER  F1 40.00, precision 50.00, recall 33.33, 3 gold"
    )


def test_sentences_of_only_o_have_an_accuracy_and_no_f1():
    score = score_spans([["O", "O"]], [["O", "O"]])
    assert (score.f1, score.precision, score.recall, score.accuracy) == (0, 0, 0, 1)


def test_a_phrase_does_not_continue_in_the_next_sentence():
    assert score_spans([["B-X"], ["I-X"]], [["B-X"], ["I-X"]]).total == Agreement(2, 2, 2)


def test_schemes_may_differ():
    assert score_spans([["I-X", "I-X", "B-X"]], [["B-X", "E-X", "S-X"]]).total == Agreement(2, 2, 2)


def test_sentences_add_up_and_have_an_interval():
    gold = [["B-X", "O"], ["B-Y", "I-Y"]] * 20
    predicted = [["B-X", "O"], ["B-Y", "O"]] * 20
    parts = score_sentences(gold, predicted)
    assert sum(parts, SpanScore()) == score_spans(gold, predicted)
    low, high = f1_interval([part.total for part in parts])
    assert low < 0.5 < high and high - low < 0.4


def test_sentences_of_unequal_length_are_rejected():
    with pytest.raises(UserError, match="sentence 2 has 1 gold tags and 2 predicted ones; each word needs one of each"):
        score_spans([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(UserError, match="there must be as many hypotheses"):
        score_spans([["O"]], [])
