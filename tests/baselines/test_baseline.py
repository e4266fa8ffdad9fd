from collections import Counter

import numpy as np
import pytest

from clew.baselines import label_baselines as labels
from clew.baselines.baseline import Baselines, no_baselines
from clew.baselines.kneser_ney import fit_kneser_ney
from clew.baselines.label_baselines import (
    label_baselines,
    number_baselines,
    several_label_baselines,
    tree_label_baselines,
)
from clew.baselines.tag_baselines import tag_baselines
from clew.baselines.text_baselines import MOST_TEXT, KnownText, is_too_long, text_baselines
from clew.baselines.tree_baselines import tree_baselines
from clew.core.errors import UserError
from clew.data.caching.encoded import TokenFile
from clew.data.examples import Labelled, Parsed, Sentence
from clew.data.formats.tree_files import labelled_nodes
from clew.data.notes import Notes
from clew.data.syntax.trees import parse_tree
from clew.metrics.score import Score
from clew.recipes.resolving import config_of
from clew.tasks import TASKS

SCORE = Score({"loss": 1.0, "f1": 50.0}, -50.0, "F1 50.00", {"a": 50.0})


def score_with(fit, train, examples):
    return Baselines(fit, None, lambda: train).add_to(SCORE, examples)


def sentence(text):
    words, tags = zip(*(pair.split("/") for pair in text.split()), strict=True)
    return Sentence(words, tags)


def labelled_tree(text):
    return next(labelled_nodes([Parsed(parse_tree(text), "a")], Notes()))


def test_a_parser_is_compared_with_right_branching_trees():
    # (S a (VP b (VP c d))) has S over all, VP over b..d and c..d; of the gold S, NP and VP over c..d two are right.
    gold = Parsed(parse_tree("(S (NP (DT a) (NN b)) (VP (VB c) (NN d)))"), "a")
    score = score_with(tree_baselines, [], [gold])
    assert score.measures["right_branching_f1"] == pytest.approx(100 * 4 / 6)
    assert score.text == "F1 50.00; right-branching trees have F1 66.67"
    assert (score.value, score.examples, score.measures["f1"]) == (SCORE.value, SCORE.examples, 50.0)


def test_a_score_without_baselines_is_unchanged():
    assert score_with(no_baselines, [], []) is SCORE
    assert score_with(tree_baselines, [], [Parsed(parse_tree("(TOP (NN a))"), "a")]) is SCORE


def test_without_training_data_the_score_is_unchanged():
    def gone():
        raise UserError("no such file: train.conll")

    assert Baselines(tag_baselines, None, gone).add_to(SCORE, [sentence("a/X")]) is SCORE


def test_a_tagger_is_compared_with_the_most_frequent_tag():
    train = [sentence("the/DET fish/NOUN swims/VERB"), sentence("fish/NOUN fish/VERB")]
    score = score_with(tag_baselines, train, [sentence("the/DET fish/VERB swims/VERB"), sentence("fish/NOUN")])
    assert score.measures == {**SCORE.measures, "baseline_most_frequent_tag": 75.0}
    assert score.text == "F1 50.00; the most frequent tag has accuracy 75.00"


def test_phrase_tags_are_also_scored_as_phrases():
    train = [sentence("Ada/B-PER Lovelace/I-PER met/O Babbage/B-PER"), sentence("Paris/B-LOC")]
    score = score_with(
        tag_baselines, train, [sentence("Ada/B-PER met/O Paris/B-PER"), sentence("Babbage/B-PER Lovelace/I-PER")]
    )
    assert score.measures["baseline_most_frequent_tag_f1"] == pytest.approx(100 * 2 / 3)
    assert score.text.endswith("the most frequent tag has F1 66.67, accuracy 80.00")


def test_phrases_are_scored_equally_in_every_scheme():
    train, test = (
        sentence(text) for text in ("Ada/B-PER Lovelace/I-PER met/O Bo/B-PER", "Ada/B-PER Lovelace/I-PER met/O")
    )
    bioes = Sentence(test.words, ("B-PER", "E-PER", "O"))
    scores = [score_with(tag_baselines, [train], [example]).measures for example in (test, bioes)]
    assert scores[0] == scores[1] and scores[0]["baseline_most_frequent_tag"] == 100


LABELLED = [
    Labelled(text, (label,)) for text, label in [("good good film", "+"), ("good play", "+"), ("bad film", "-")] * 4
]


def test_a_classifier_is_compared_with_word_counting_models():
    score = score_with(
        label_baselines, LABELLED, [Labelled("good", ("+",)), Labelled("bad bad", ("-",)), Labelled("bad film", ("-",))]
    )
    assert score.measures["baseline_most_frequent_class"] == pytest.approx(100 / 3)
    assert score.measures["baseline_naive_bayes"] == score.measures["baseline_softmax_regression"] == 100
    assert (
        score.text
        == "F1 50.00; the most frequent class has accuracy 33.33, naive Bayes has accuracy 100.00, softmax regression"
        " has accuracy 100.00"
    )


def test_both_of_two_texts_are_read():
    train = [Labelled("x", (label,), second) for label, second in [("yes", "same"), ("no", "other")] * 5]
    score = score_with(label_baselines, train, [Labelled("x", ("no",), "other"), Labelled("x", ("yes",), "same")])
    assert score.measures["baseline_naive_bayes"] == 100 and score.measures["baseline_most_frequent_class"] == 50


def test_non_exclusive_labels_are_scored_by_f1():
    train = [Labelled("a b", ("A", "B")), Labelled("a c", ("A",)), Labelled("c c", ())] * 4
    score = score_with(
        several_label_baselines, train, [Labelled("a b", ("A", "B")), Labelled("c", ()), Labelled("new", ("new",))]
    )
    assert score.measures["baseline_most_frequent_class"] == pytest.approx(
        100 * 2 / 6
    )  # A everywhere: 1 of 3 predictions right, 3 gold labels
    assert score.measures["baseline_logistic_regression"] > 50
    assert "the most frequent class has micro F1 33.33, naive Bayes has micro F1" in score.text


def test_predictors_of_numbers_are_compared_with_the_mean_and_ridge_regression():
    train = [Labelled(f"a {word}", (number,)) for word, number in [("low", "1"), ("middle", "2"), ("high", "3")] * 5]
    score = score_with(
        number_baselines, train, [Labelled("low", ("0",)), Labelled("high", ("4",)), Labelled("middle", ("2",))]
    )
    assert score.measures["baseline_mean_error"] == pytest.approx((8 / 3) ** 0.5)
    assert score.measures["baseline_ridge_regression"] > 99
    assert score.text.startswith(
        "F1 50.00; the mean has root of the mean squared error 1.633, ridge regression has Pearson "
    )
    assert score_with(number_baselines, [], []) is SCORE


def test_tree_classifiers_are_compared_with_bags_of_words():
    trees = [labelled_tree("(+ (+ good) (+ film))"), labelled_tree("(- (- bad) (+ film))")]
    score = score_with(tree_label_baselines, trees * 3, trees)
    assert score.measures["baseline_most_frequent_class"] == 50 and score.measures["baseline_naive_bayes"] == 100


@pytest.mark.parametrize(
    ("recipe", "settings", "train", "measure"),
    [
        ("classify", [], LABELLED, "baseline_naive_bayes"),
        (
            "classify",
            ["task.labels=several"],
            [Labelled("a", ("A", "B")), Labelled("b", ())] * 3,
            "baseline_logistic_regression",
        ),
        ("classify", ["task.labels=number"], [Labelled("a", ("1",)), Labelled("b", ("2",))] * 3, "baseline_mean_error"),
        ("tag", [], [sentence("a/X b/Y")], "baseline_most_frequent_tag"),
        (
            "classify-trees",
            [],
            [labelled_tree("(+ (+ a) (- b))"), labelled_tree("(- (- b) (- c))")] * 3,
            "baseline_naive_bayes",
        ),
        ("parse", [], [Parsed(parse_tree("(S (NP (DT a) (NN b)) (VP (VB c)))"), "a")], "right_branching_f1"),
    ],
)
def test_a_task_has_the_baselines_of_its_predictions(recipe, settings, train, measure):
    task = config_of(recipe, ["data.train=x", *settings]).task
    score = Baselines(TASKS[task.name].baselines, task, lambda: train).add_to(SCORE, train)
    assert measure in score.measures


def test_slow_baselines_are_left_out(monkeypatch):
    examples = [Labelled("good", ("+",))]
    monkeypatch.setattr(labels, "MOST_WORK", 20)
    assert "baseline_softmax_regression" not in score_with(label_baselines, LABELLED, examples).measures
    monkeypatch.setattr(labels, "MOST_CHARACTERS", 20)
    assert [name for name in score_with(label_baselines, LABELLED, examples).measures if "baseline" in name] == [
        "baseline_most_frequent_class"
    ]


def known_text(tokens, source=()):
    return KnownText(source, lambda: tokens, 4)


def test_a_too_long_text_is_not_encoded_to_measure_it():
    piece = "x" * (MOST_TEXT // 2)
    assert not is_too_long([piece, piece]) and is_too_long([piece, piece, "x"])

    def encode():
        raise AssertionError("it was encoded")

    assert score_with(text_baselines, KnownText([piece, piece, "x"], encode, 4), None) is SCORE


def test_a_language_model_is_compared_with_n_grams_over_its_tokens():
    tokens = np.array([0, 1, 2] * 30, dtype=np.uint16)
    score = score_with(
        text_baselines, known_text(TokenFile(tokens, 90, 89, 0)), known_text(TokenFile(tokens[:5], 5, 4, 0))
    )
    assert score.measures["baseline_kneser_ney"] == pytest.approx(np.exp(score.measures["baseline_kneser_ney_loss"]))
    expected = -fit_kneser_ney([tokens], 4, 5).log_probs([0, 1, 2, 0, 1])[1:].mean()  # nothing predicts the first
    assert score.measures["baseline_kneser_ney_loss"] == pytest.approx(expected)
    assert (
        score.text == f"F1 50.00; 5-grams (Kneser-Ney) have loss {expected:.4f} and perplexity {np.exp(expected):.2f}"
    )


def test_baselines_are_fitted_once(monkeypatch):
    reads = Counter()

    def train():
        reads["train"] += 1
        return LABELLED

    baselines = Baselines(label_baselines, None, train)
    scores = [baselines.add_to(SCORE, [example]) for example in LABELLED[:2]]
    assert reads["train"] == 1 and len(baselines.fitted) == 3
    assert scores[0].measures == scores[1].measures


def test_interruption_is_checked_between_two_baselines():
    answers = iter([False, True])
    baselines = Baselines(label_baselines, None, lambda: LABELLED)
    assert baselines.add_to(SCORE, LABELLED, lambda: next(answers)) is None
    assert len(baselines.fitted) == 2
