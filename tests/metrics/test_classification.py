import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.agreement import Agreement
from clew.metrics.classification import count_confusion, count_label_sets, label_set_intervals

LABELS = ("a", "b", "c")
drawn = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=30)


def counted(pairs, labels=LABELS):
    return count_confusion([gold for gold, _ in pairs], [predicted for _, predicted in pairs], labels)


def reference_f1(pairs, label):
    matched = sum(gold == label == predicted for gold, predicted in pairs)
    total = sum(gold == label for gold, _ in pairs) + sum(predicted == label for _, predicted in pairs)
    return 2 * matched / total if total else None


def reference_matthews(pairs):
    """Gorodkin's definition: the covariance of the two indicator matrices, divided by the root of their variances."""
    gold, predicted = (
        np.array([[which[k] == label for label in LABELS] for which in pairs], dtype=float) for k in (0, 1)
    )
    gold, predicted = gold - gold.mean(0), predicted - predicted.mean(0)
    spread = np.sqrt((gold * gold).sum() * (predicted * predicted).sum())
    return (gold * predicted).sum() / spread if spread > 1e-9 else 0.0


@given(drawn)
def test_scores_equal_their_definitions(pairs):
    confusion = counted(pairs)
    assert confusion.accuracy == pytest.approx(sum(gold == predicted for gold, predicted in pairs) / len(pairs))
    scores = [score for label in LABELS if (score := reference_f1(pairs, label)) is not None]
    assert confusion.macro_f1 == pytest.approx(sum(scores) / len(scores))
    assert confusion.matthews == pytest.approx(reference_matthews(pairs), abs=1e-9)
    assert sum(confusion.by_label.values(), Agreement()).f1 == pytest.approx(confusion.accuracy)  # micro


@given(drawn, drawn)
def test_parts_add(first, second):
    assert counted(first) + counted(second) == counted(first + second)


def test_the_published_example_of_cats_and_dogs_is_reproduced():
    """Twelve pets of which eight are cats; six of these and three dogs are recognised: Matthews' correlation is
    0.478."""
    pairs = [("cat", "cat")] * 6 + [("cat", "dog")] * 2 + [("dog", "cat")] + [("dog", "dog")] * 3
    confusion = counted(pairs, ("cat", "dog"))
    assert confusion.counts == ((6, 2), (1, 3))
    assert confusion.matthews == pytest.approx((6 * 3 - 1 * 2) / (7 * 8 * 4 * 5) ** 0.5)
    assert round(confusion.matthews, 3) == 0.478
    assert confusion.table() == "gold \\ predicted  cat  dog\ncat                 6    2\ndog                 1    3"


def test_a_report_equals_a_hand_computed_one():
    confusion = counted([("a", "a"), ("b", "a"), ("c", "c"), ("c", "c"), ("c", "b")])
    assert confusion.describe() == (
        "accuracy 60.00, macro F1 48.89, Matthews 0.401, 5 examples\n"
        "label  precision  recall     F1  support\n"
        "a          50.00  100.00  66.67        1\n"
        "b           0.00    0.00   0.00        1\n"
        "c         100.00   66.67  80.00        3"
    )


def test_labels_that_never_occur_are_left_out_of_means():
    assert counted([("a", "a"), ("b", "b")]).macro_f1 == 1


def test_a_single_label_has_no_correlation():
    assert counted([("a", "a"), ("b", "a")]).matthews == 0


@pytest.mark.parametrize("name", ["accuracy", "macro_f1", "matthews"])
def test_an_interval_equals_resampling_examples(name):
    rng = np.random.default_rng(0)
    pairs = [("a", "a")] * 30 + [("b", "b")] * 15 + [("a", "b")] * 8 + [("c", "a")] * 4 + [("c", "c")] * 3
    values = [
        counted([pairs[place] for place in rng.integers(len(pairs), size=len(pairs))]).value(name) for _ in range(2000)
    ]
    np.testing.assert_allclose(counted(pairs).interval(name), np.quantile(values, [0.025, 0.975]), atol=0.02)


def test_invalid_inputs_are_rejected_with_a_sentence():
    with pytest.raises(UserError, match="unknown label 'd'; known: a, b, c"):
        counted([("a", "d")])
    with pytest.raises(UserError, match=r"there must be as many predicted labels \(0\) as gold ones \(1\)"):
        count_confusion(["a"], [], LABELS)
    with pytest.raises(UserError, match="nothing was counted, so there is no score; give at least one example"):
        _ = counted([]).accuracy
    with pytest.raises(UserError, match="unknown measure 'macrof1'; did you mean 'macro_f1'"):
        counted([("a", "a")]).value("macrof1")
    with pytest.raises(UserError, match="counts of different labels cannot be added: a, b, c and a"):
        counted([("a", "a")]) + counted([("a", "a")], ("a",))


def test_scores_of_label_sets_equal_hand_computed_ones():
    gold = [{"a"}, {"a", "b"}, set(), {"c"}]
    predicted = [{"a"}, {"a"}, {"b"}, {"c", "a"}]
    score = count_label_sets(gold, predicted, LABELS)
    assert score.by_label == {"a": Agreement(2, 3, 2), "b": Agreement(1, 1, 0), "c": Agreement(1, 1, 1)}
    assert score.micro_f1 == pytest.approx(2 * 3 / (4 + 5))
    assert score.macro_f1 == pytest.approx((0.8 + 0 + 1) / 3)
    assert (score.exact_match, score.accuracy) == (0.25, 0.75)
    assert score.describe().startswith(
        "micro F1 66.67, macro F1 60.00, exact match 25.00, accuracy 75.00, 4 examples\nlabel"
    )


@given(st.lists(st.tuples(*[st.sets(st.sampled_from(LABELS))] * 2), min_size=2))
def test_counts_of_label_sets_add_up(pairs):
    parts = [count_label_sets([gold], [predicted], LABELS) for gold, predicted in pairs]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    assert whole == count_label_sets([gold for gold, _ in pairs], [predicted for _, predicted in pairs], LABELS)


def test_intervals_of_label_sets_equal_resampling_texts():
    rng = np.random.default_rng(0)
    gold = [{"a"}, {"a", "b"}, set(), {"c"}] * 15
    predicted = [{"a"}, {"a"}, {"b"}, {"c", "a"}] * 10 + [{"a"}, {"a", "b"}, set(), set()] * 5
    scores = []
    for _ in range(1000):
        places = rng.integers(len(gold), size=len(gold))
        scores.append(
            count_label_sets([gold[place] for place in places], [predicted[place] for place in places], LABELS)
        )
    intervals = label_set_intervals(gold, predicted, LABELS)
    for name, interval in intervals.items():
        np.testing.assert_allclose(
            interval, np.quantile([getattr(score, name) for score in scores], [0.025, 0.975]), atol=0.03
        )


def test_the_f1_of_one_label_ignores_other_labels() -> None:
    confusion = count_confusion(["1", "1", "1", "0"], ["1", "0", "1", "1"], ["0", "1"])
    assert confusion.value("f1", "1") == pytest.approx(2 / 3)
    assert confusion.value("f1", "0") == 0
    low, high = confusion.interval("f1", "1")[:2]
    assert low <= 2 / 3 <= high
    with pytest.raises(UserError, match="unknown label '2'"):
        confusion.value("f1", "2")
