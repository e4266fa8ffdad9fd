"""Formulas against the metrics that they represent, and significance tests against enumeration of all resamples and
swaps."""

import itertools
import math
from statistics import fmean

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.agreement import Agreement, f1_interval
from clew.metrics.bootstrap import (
    approximate_randomisation,
    bootstrap_interval,
    paired_bootstrap,
    paired_score_bootstrap,
)
from clew.metrics.calibration import calibration
from clew.metrics.classification import count_confusion, count_label_sets
from clew.metrics.correlation import pearson, spearman
from clew.metrics.measures import MEASURES
from clew.metrics.spans import score_spans, tag_statistics
from clew.metrics.statistics import FORMULAS, metric_interval, score, tabulated
from clew.tasks.uses.answers import OneLabel, label_set_statistics, one_label_statistics
from clew.text.labels import Labels

sentences = st.lists(st.sampled_from(["a", "b", "C", "dog", "."]), max_size=9).map(" ".join)


@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6))
def test_the_score_of_the_sums_equals_sacrebleus_corpus_score(pairs: list[tuple[str, str]]) -> None:
    texts, references = map(list, zip(*pairs, strict=True))
    metrics = {"bleu": sacrebleu.BLEU(force=True), "chrf": sacrebleu.CHRF(), "ter": sacrebleu.TER(case_sensitive=True)}
    for name, metric in metrics.items():
        rows = [each[name][name] for each in MEASURES[name].statistics(texts, references, False)]
        assert score(name, rows) == pytest.approx(metric.corpus_score(texts, [references]).score, abs=1e-9)


@pytest.mark.parametrize("name", MEASURES)
def test_statistics_of_sentences_give_the_corpus_score(name: str) -> None:
    texts = ["the cat sat on the mat .", "A dog barks", "nothing", ""]
    references = ["the cat sat on a mat .", "a dog barks", "something else", "a word"]
    for lowercase in (False, True):
        each = MEASURES[name].statistics(texts, references, lowercase)
        for measure, value in MEASURES[name].corpus(texts, references, lowercase).values.items():
            (formula,) = each[0][measure]
            assert score(formula, [statistics[measure][formula] for statistics in each]) == pytest.approx(value), (
                measure
            )


labels = st.sampled_from(["good", "bad", "odd"])


@given(st.lists(st.tuples(labels, labels), min_size=1, max_size=12))
def test_statistics_of_labels_give_accuracy_macro_f1_and_matthews(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = map(list, zip(*pairs, strict=True))
    confusion = count_confusion(gold, predicted, ["bad", "good", "odd"])
    each = [one_label_statistics(a, b, "good") for a, b in pairs]
    for measure in ("accuracy", "macro_f1", "matthews", "f1"):
        (formula,) = each[0][measure]
        actual = score(formula, [statistics[measure][formula] for statistics in each])
        assert actual == pytest.approx(100 * confusion.value(measure, "good" if measure == "f1" else None), abs=1e-9), (
            measure
        )


@given(st.lists(st.tuples(st.sets(labels), st.sets(labels)), min_size=1, max_size=8))
def test_statistics_of_label_sets_give_their_scores(pairs: list[tuple[set[str], set[str]]]) -> None:
    gold, predicted = map(list, zip(*pairs, strict=True))
    sets = count_label_sets(gold, predicted, ["bad", "good", "odd"])
    each = [label_set_statistics(sorted(a), sorted(b), 3) for a, b in pairs]
    for measure in ("micro_f1", "macro_f1", "exact_match", "accuracy"):
        (formula,) = each[0][measure]
        actual = score(formula, [statistics[measure][formula] for statistics in each])
        assert actual == pytest.approx(100 * getattr(sets, measure), abs=1e-9), measure


def test_statistics_of_answers_give_their_calibration_error() -> None:
    answer = OneLabel(Labels(["a", "b"]))

    class Example:
        def __init__(self, label: str):
            self.label, self.labels, self.id = label, (label,), label

    examples = [Example("a"), Example("b"), Example("a")]
    predictions = [{"labels": ["a"], "probabilities": [p, 1 - p]} for p in (0.9, 0.8, 0.62)]
    each = answer.statistics(examples, predictions)
    error = score("calibration", [statistics["calibration_error"]["calibration"] for statistics in each])
    assert error == pytest.approx(100 * calibration(*answer.calibration_data(examples, predictions)).expected_error)
    assert error == pytest.approx(100 * (0.1 + 0.8 + 0.38) / 3)


def test_statistics_of_tags_give_the_f1_of_phrases() -> None:
    gold = [["B-PER", "I-PER", "O"], ["O", "B-LOC"], ["B-PER", "O"]]
    predicted = [["B-PER", "I-PER", "O"], ["B-LOC", "B-LOC"], ["O", "O"]]
    each = [tag_statistics(a, b, phrases=True) for a, b in zip(gold, predicted, strict=True)]
    spans = score_spans(gold, predicted)
    for measure, value in {
        "f1": spans.f1,
        "precision": spans.precision,
        "recall": spans.recall,
        "accuracy": spans.accuracy,
    }.items():
        (formula,) = each[0][measure]
        assert score(formula, [statistics[measure][formula] for statistics in each]) == pytest.approx(100 * value)


def test_formulas_of_numbers_losses_and_roots_equal_their_definitions() -> None:
    gold, predicted = [1.0, 2.0, 4.0, 3.0], [0.5, 2.5, 2.0, 9.0]
    pairs = list(zip(gold, predicted, strict=True))
    assert score("pearson", pairs) == pytest.approx(100 * pearson(gold, predicted))
    assert score("spearman", pairs) == pytest.approx(100 * spearman(gold, predicted))
    assert score("root", [(9.0, 1), (16.0, 1)]) == pytest.approx(math.sqrt(12.5))
    assert score("mean", [(6.0, 2), (3.0, 4)]) == pytest.approx(1.5), "per token, and not a mean of sentences' means"
    assert score("perplexity", [(6.0, 2), (3.0, 4)]) == pytest.approx(math.exp(1.5))


A = np.array([[2.0, 3.0, 2.0], [4.0, 1.0, 1.0], [1.0, 1.0, 0.0], [3.0, 5.0, 2.0]])
B = np.array([[2.0, 1.0, 1.0], [4.0, 4.0, 2.0], [1.0, 2.0, 1.0], [3.0, 2.0, 0.0]])
"""Counts of gold, predicted and matched items of two systems on four sentences."""


def f1_of(rows: np.ndarray) -> float:
    gold, predicted, matched = rows.sum(0)
    return 200 * matched / (gold + predicted)


def test_a_corpus_bootstrap_equals_that_of_all_resamples() -> None:
    """Within five standard errors of 40,000 draws."""
    resamples = [list(chosen) for chosen in itertools.product(range(4), repeat=4)]
    differences = [f1_of(A[chosen]) - f1_of(B[chosen]) for chosen in resamples]
    observed = f1_of(A) - f1_of(B)
    exact = fmean(difference * np.sign(observed) <= 1e-9 for difference in differences)
    comparison = paired_score_bootstrap([A], [B], FORMULAS["f1"], samples=40_000)
    assert comparison.difference == pytest.approx(observed)
    assert comparison.p == pytest.approx(
        min(1.0, 2 * exact), abs=2 * 5 * math.sqrt(exact * (1 - exact) / 40_000) + 1e-4
    )
    assert comparison.interval == pytest.approx(np.quantile(differences, [0.025, 0.975]), abs=0.5)


def test_randomisation_equals_that_of_all_swaps() -> None:
    """Within five standard errors of 40,000 draws."""
    observed, differences = abs(f1_of(A) - f1_of(B)), []
    for stays in itertools.product([True, False], repeat=4):
        is_kept = np.array(stays)[:, None]
        differences.append(abs(f1_of(np.where(is_kept, A, B)) - f1_of(np.where(is_kept, B, A))))
    exact = fmean(difference >= observed - 1e-9 for difference in differences)
    comparison = approximate_randomisation([A], [B], FORMULAS["f1"], samples=40_000)
    assert 0.1 < exact < 1 and comparison == pytest.approx(
        exact, abs=5 * math.sqrt(exact * (1 - exact) / 40_000) + 1e-4
    )


def test_a_mean_is_resampled_like_in_the_paired_bootstrap() -> None:
    first, second = [0.3, 0.9, 0.4, 0.8, 0.5], [0.2, 0.7, 0.6, 0.1, 0.5]
    one, two = tabulated([[(value, 1.0) for value in values] for values in (first, second)])
    actual, expected = (
        paired_score_bootstrap([one], [two], FORMULAS["mean"], samples=40_000),
        paired_bootstrap(first, second, samples=40_000),
    )
    assert actual.difference == pytest.approx(expected.difference)
    assert actual.p == pytest.approx(expected.p, abs=0.02) and actual.interval == pytest.approx(
        expected.interval, abs=0.02
    )


def test_equal_systems_do_not_differ_in_both_tests() -> None:
    assert paired_score_bootstrap([A], [A], FORMULAS["f1"]).p == 1.0
    assert approximate_randomisation([A], [A], FORMULAS["f1"]) == 1.0


def test_a_system_of_several_runs_scores_their_mean() -> None:
    """Each run has equal weight within its system, also if the systems have different numbers of runs."""
    comparison = paired_score_bootstrap([A, B], [B], FORMULAS["f1"], samples=2000)
    assert comparison.difference == pytest.approx((f1_of(A) - f1_of(B)) / 2)
    assert comparison.p == paired_score_bootstrap([A], [B], FORMULAS["f1"], samples=2000).p, (
        "half the difference, on the same resamples"
    )
    single = approximate_randomisation([A], [B], FORMULAS["f1"], samples=2000)
    assert approximate_randomisation([A, A], [B, B, B], FORMULAS["f1"], samples=2000) == single


def test_labels_predicted_by_only_one_system_have_columns_in_both() -> None:
    one, two = tabulated([[{"a": [1, 1, 1]}, {}], [{"a": [1, 0, 0], "b": [0, 1, 0]}, {}]])
    assert one.tolist() == [[1, 1, 1, 0, 0, 0], [0] * 6] and two.tolist() == [[1, 0, 0, 0, 1, 0], [0] * 6]
    assert score("macro_f1", [{}, {}]) == 0.0


def test_the_interval_of_a_metric_is_not_that_of_a_mean_of_sentences() -> None:
    parts = [Agreement(9, 9, 9), Agreement(1, 1, 0), Agreement(1, 1, 0), Agreement(2, 3, 1)] * 10
    rows = [(part.gold, part.predicted, part.matched) for part in parts]
    low, high = metric_interval("f1", rows)
    assert (low / 100, high / 100) == pytest.approx(f1_interval(parts), abs=0.01)
    assert low > bootstrap_interval([100 * part.f1 for part in parts]).high, (
        "the mean of sentences' F1 is another number"
    )


def test_invalid_statistics_are_rejected() -> None:
    with pytest.raises(UserError, match="unknown formula 'f2'; did you mean 'f1'"):
        score("f2", [(1, 1, 1)])
    with pytest.raises(
        UserError, match="statistics must be finite numbers, the same count for every example; leave out the others"
    ):
        score("f1", [(1, 1, 1), (1, 1)])
    with pytest.raises(UserError, match="the bootstrap needs at least one example"):
        paired_score_bootstrap([np.zeros((0, 3))], [np.zeros((0, 3))], FORMULAS["f1"])
    with pytest.raises(UserError, match="paired systems are scored on the same examples, but one has 3 and another 4"):
        approximate_randomisation([A], [B[:3]], FORMULAS["f1"])
