from collections import Counter

import numpy as np
import pytest

from clew.baselines.kneser_ney import fit_kneser_ney
from clew.core.errors import UserError
from clew.data.encoded import TokenFile
from clew.data.examples import Labelled, Parsed, Sentence
from clew.data.labelled_trees import labelled_nodes
from clew.data.notes import Notes
from clew.data.trees import parse_tree
from clew.metrics.score import Score
from clew.recipes.running import config_of
from clew.training import baselines
from clew.training.baselines import Baselines, baselines_of

SCORE = Score({"loss": 1.0, "f1": 50.0}, -50.0, "F1 50.00", {"a": 50.0})


def beside(kind, train, examples):
    return Baselines(kind, lambda: train).beside(SCORE, examples)


def sentence(text):
    words, tags = zip(*(pair.split("/") for pair in text.split()), strict=True)
    return Sentence(words, tags)


def labelled_tree(text):
    return next(labelled_nodes([Parsed(parse_tree(text), "a")], Notes()))


def test_a_parser_is_shown_beside_trees_that_branch_to_the_right():
    # (S a (VP b (VP c d))) has S over all, VP over b..d and c..d; of the gold S, NP and VP over c..d two are right.
    gold = Parsed(parse_tree("(S (NP (DT a) (NN b)) (VP (VB c) (NN d)))"), "a")
    found = beside("trees", [], [gold])
    assert found.measures["right_branching_f1"] == pytest.approx(100 * 4 / 6)
    assert found.text == "F1 50.00; right-branching trees have F1 66.67"
    assert (found.value, found.examples, found.measures["f1"]) == (SCORE.value, SCORE.examples, 50.0)


def test_what_has_no_baseline_is_left_as_it_is():
    assert beside("pairs", [], []) is SCORE
    assert beside("trees", [], [Parsed(parse_tree("(TOP (NN a))"), "a")]) is SCORE


def test_training_data_that_are_gone_leave_the_score_as_it_is():
    def gone():
        raise UserError("no such file: train.conll")

    assert Baselines("tagged", gone).beside(SCORE, [sentence("a/X")]) is SCORE


def test_a_tagger_is_shown_beside_the_most_frequent_tag():
    train = [sentence("the/DET fish/NOUN swims/VERB"), sentence("fish/NOUN fish/VERB")]
    found = beside("tagged", train, [sentence("the/DET fish/VERB swims/VERB"), sentence("fish/NOUN")])
    assert found.measures == {**SCORE.measures, "baseline_most_frequent_tag": 75.0}
    assert found.text == "F1 50.00; the most frequent tag has accuracy 75.00"


def test_tags_of_phrases_are_scored_as_phrases_too():
    train = [sentence("Ada/B-PER Lovelace/I-PER met/O Babbage/B-PER"), sentence("Paris/B-LOC")]
    found = beside("tagged", train, [sentence("Ada/B-PER met/O Paris/B-PER"), sentence("Babbage/B-PER Lovelace/I-PER")])
    assert found.measures["baseline_most_frequent_tag_f1"] == pytest.approx(100 * 2 / 3)
    assert found.text.endswith("the most frequent tag has F1 66.67, accuracy 80.00")


def test_phrases_are_the_same_in_whichever_scheme_they_stand():
    train, test = (sentence(text) for text in ("Ada/B-PER Lovelace/I-PER met/O Bo/B-PER", "Ada/B-PER Lovelace/I-PER met/O"))
    other = Sentence(test.words, ("B-PER", "E-PER", "O"))
    scores = [beside("tagged", [train], [example]).measures for example in (test, other)]
    assert scores[0] == scores[1] and scores[0]["baseline_most_frequent_tag"] == 100


LABELLED = [Labelled(text, (label,)) for text, label in [("good good film", "+"), ("good play", "+"), ("bad film", "-")] * 4]


def test_a_classifier_is_shown_beside_what_counts_words():
    found = beside("labelled", LABELLED, [Labelled("good", ("+",)), Labelled("bad bad", ("-",)), Labelled("bad film", ("-",))])
    assert found.measures["baseline_most_frequent_class"] == pytest.approx(100 / 3)
    assert found.measures["baseline_naive_bayes"] == found.measures["baseline_softmax_regression"] == 100
    assert found.text == (
        "F1 50.00; the most frequent class has accuracy 33.33, naive Bayes has accuracy 100.00, softmax regression has accuracy 100.00"
    )


def test_of_two_texts_both_are_read():
    train = [Labelled("x", (label,), second) for label, second in [("yes", "same"), ("no", "other")] * 5]
    found = beside("labelled", train, [Labelled("x", ("no",), "other"), Labelled("x", ("yes",), "same")])
    assert found.measures["baseline_naive_bayes"] == 100 and found.measures["baseline_most_frequent_class"] == 50


def test_labels_that_do_not_exclude_each_other_are_scored_by_their_f1():
    train = [Labelled("a b", ("A", "B")), Labelled("a c", ("A",)), Labelled("c c", ())] * 4
    found = beside("several_labels", train, [Labelled("a b", ("A", "B")), Labelled("c", ()), Labelled("new", ("new",))])
    assert found.measures["baseline_most_frequent_class"] == pytest.approx(100 * 2 / 6)  # A everywhere: 1 of 3 right, of 3 gold
    assert found.measures["baseline_logistic_regression"] > 50
    assert "the most frequent class has micro F1 33.33, naive Bayes has micro F1" in found.text


def test_numbers_are_told_beside_their_mean_and_ridge_regression():
    train = [Labelled(f"a {word}", (number,)) for word, number in [("low", "1"), ("middle", "2"), ("high", "3")] * 5]
    found = beside("numbers", train, [Labelled("low", ("0",)), Labelled("high", ("4",)), Labelled("middle", ("2",))])
    assert found.measures["baseline_mean_error"] == pytest.approx((8 / 3) ** 0.5)
    assert found.measures["baseline_ridge_regression"] > 99
    assert found.text.startswith("F1 50.00; the mean has root of the mean squared error 1.633, ridge regression has Pearson ")
    assert beside("numbers", [], []) is SCORE


def test_trees_are_told_beside_their_words_alone():
    trees = [labelled_tree("(+ (+ good) (+ film))"), labelled_tree("(- (- bad) (+ film))")]
    found = beside("labelled_trees", trees * 3, trees)
    assert found.measures["baseline_most_frequent_class"] == 50 and found.measures["baseline_naive_bayes"] == 100


@pytest.mark.parametrize(
    ("recipe", "settings", "kind"),
    [("classify", [], "labelled"), ("classify", ["task.labels=several"], "several_labels"), ("classify", ["task.labels=number"], "numbers"),
     ("tag", [], "tagged"), ("classify-trees", [], "labelled_trees"), ("parse", [], "trees")],
)  # fmt: skip
def test_a_task_has_the_baselines_of_what_it_tells(recipe, settings, kind, monkeypatch):
    monkeypatch.setattr(baselines, "BASELINES", {name: lambda train, name=name: iter([name]) for name in baselines.BASELINES})
    found = baselines_of(config_of(recipe, ["data.train=x", *settings]), list)
    assert list(found.unfitted) == [kind]


def test_what_would_take_long_is_left_out(monkeypatch):
    examples = [Labelled("good", ("+",))]
    monkeypatch.setattr(baselines, "MOST_WORK", 20)
    assert "baseline_softmax_regression" not in beside("labelled", LABELLED, examples).measures
    monkeypatch.setattr(baselines, "MOST_CHARACTERS", 20)
    assert [name for name in beside("labelled", LABELLED, examples).measures if "baseline" in name] == ["baseline_most_frequent_class"]


def test_a_language_model_is_shown_beside_n_grams_over_its_tokens():
    tokens = np.array([0, 1, 2] * 30, dtype=np.uint16)
    text = TokenFile(tokens, 90, 89, 0)
    found = beside("text", (text, 4), TokenFile(np.array([0, 1, 2, 0, 1], dtype=np.uint16), 5, 4, 0))
    assert found.measures["baseline_kneser_ney"] == pytest.approx(np.exp(found.measures["baseline_kneser_ney_loss"]))
    expected = -fit_kneser_ney([tokens], 4, 5).log_probs([0, 1, 2, 0, 1])[1:].mean()  # nothing predicts the first
    assert found.measures["baseline_kneser_ney_loss"] == pytest.approx(expected)
    assert found.text == f"F1 50.00; 5-grams (Kneser-Ney) have loss {expected:.4f} and perplexity {np.exp(expected):.2f}"


def test_baselines_are_fitted_once(monkeypatch):
    reads = Counter()

    def train():
        reads["train"] += 1
        return LABELLED

    both = Baselines("labelled", train)
    scores = [both.beside(SCORE, [example]) for example in LABELLED[:2]]
    assert reads["train"] == 1 and len(both.fitted) == 3
    assert scores[0].measures == scores[1].measures


def test_an_interruption_is_obeyed_between_two_baselines():
    asked = iter([False, True])
    both = Baselines("labelled", lambda: LABELLED)
    assert both.beside(SCORE, LABELLED, lambda: next(asked)) is None
    assert len(both.fitted) == 2
