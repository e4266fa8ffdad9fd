from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.agreement import Agreement, f1_interval
from clew.metrics.spans import SpanScore, score_sentences, score_spans
from clew.metrics.strings import Accuracy

ENDS = {"BB", "BO", "IB", "IO"}
STARTS = {"BB", "IB", "OB", "OI"}


def word_by_word(gold: list[str], predicted: list[str]) -> tuple[int, int, int]:
    """conlleval's way, which makes no phrases: it goes through the words and remembers whether both sides are in the same one."""
    counts, same = [0, 0, 0], False
    before = ["O", "O"]
    for pair in [*zip(gold, predicted, strict=True), ("O", "O")]:
        ends, starts, labels = [], [], []
        for last, tag in zip(before, pair, strict=True):
            prefixes, label, last_label = last[0] + tag[0], tag[2:], last[2:]
            ends.append(prefixes in ENDS or (last[0] != "O" and last_label != label))
            starts.append(prefixes in STARTS or (tag[0] != "O" and last_label != label))
            labels.append(label)
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


def test_counts_are_those_of_conlleval_on_every_pair_of_short_sentences():
    tags = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    sentences = [list(sentence) for sentence in product(tags, repeat=3)]
    for gold in sentences:
        for predicted in sentences[::3]:
            total = score_spans([gold], [predicted]).total
            assert (total.gold, total.predicted, total.matched) == word_by_word(gold, predicted)


@given(st.lists(st.tuples(*[st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y", "B", "I"])] * 2), max_size=12))
def test_counts_are_those_of_conlleval_on_longer_ones(pairs):
    gold, predicted = [a for a, _ in pairs], [b for _, b in pairs]
    total = score_spans([gold], [predicted]).total
    assert (total.gold, total.predicted, total.matched) == word_by_word(gold, predicted)


def test_the_output_that_conlleval_is_documented_with():
    """CoNLL-2000: 961 tokens with 459 phrases; found 539; correct 371; accuracy 84.08, precision 68.83, recall 80.83, FB1 74.35."""
    score = SpanScore({"all": Agreement(459, 539, 371)}, Accuracy(808, 961))
    assert score.describe().splitlines()[:2] == [
        "F1 74.35, precision 68.83, recall 80.83, accuracy 84.08",
        "371 of 459 gold and 539 predicted phrases, 961 tags",
    ]


def test_a_sentence_by_hand():
    """Of three people one is found, one is cut short and one is called a place, which is also found where nothing is."""
    gold = "B-PER I-PER O B-PER B-PER O O".split()  # noqa: SIM905
    found = "I-PER O O B-PER B-LOC O I-LOC".split()  # noqa: SIM905
    score = score_spans([gold], [found])
    assert score.labels == {"LOC": Agreement(0, 2, 0), "PER": Agreement(3, 2, 1)}
    assert (score.precision, score.recall, score.f1, score.accuracy) == (0.25, 1 / 3, 2 / 7, 3 / 7)
    assert score.describe() == (
        "F1 28.57, precision 25.00, recall 33.33, accuracy 42.86\n"
        "1 of 3 gold and 4 predicted phrases, 7 tags\n"
        "LOC  F1 0.00, precision 0.00, recall 0.00, 0 gold\n"
        "PER  F1 40.00, precision 50.00, recall 33.33, 3 gold"
    )


def test_nothing_but_o_has_an_accuracy_and_no_f1():
    score = score_spans([["O", "O"]], [["O", "O"]])
    assert (score.f1, score.precision, score.recall, score.accuracy) == (0, 0, 0, 1)


def test_a_phrase_does_not_go_on_in_the_next_sentence():
    assert score_spans([["B-X"], ["I-X"]], [["B-X"], ["I-X"]]).total == Agreement(2, 2, 2)


def test_schemes_may_differ():
    assert score_spans([["I-X", "I-X", "B-X"]], [["B-X", "E-X", "S-X"]]).total == Agreement(2, 2, 2)


def test_sentences_add_and_have_an_interval():
    gold = [["B-X", "O"], ["B-Y", "I-Y"]] * 20
    found = [["B-X", "O"], ["B-Y", "O"]] * 20
    parts = score_sentences(gold, found)
    assert sum(parts, SpanScore()) == score_spans(gold, found)
    low, high = f1_interval([part.total for part in parts])
    assert low < 0.5 < high and high - low < 0.4


def test_unequal_sentences_are_refused():
    with pytest.raises(UserError, match="sentence 2 has 1 gold tags and 2 predicted ones; each word has one of both"):
        score_spans([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(UserError, match="must be as many as"):
        score_spans([["O"]], [])
