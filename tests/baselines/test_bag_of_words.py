import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clew.baselines.bag_of_words import (
    METHODS,
    fit_bag_of_words,
    fit_logistic_regression,
    fit_naive_bayes,
    fit_ridge_regression,
    fit_softmax_regression,
    fit_text_classifier,
    fit_text_regression,
    words_of,
)
from clew.baselines.most_frequent import fit_most_frequent_class
from clew.baselines.sparse import sparse
from clew.core.errors import UserError
from clew.data.corpora import read_corpus

TEXTS = ["good good film", "a bad film", "good , not bad", "bad bad bad", "a"]
CLASSES = [("pro",), ("con",), ("pro",), ("con",), ("con",)]
LABELS = [("x", "y"), ("y",), (), ("x",), ("y",)]


def random_problem(seed, num_labels, exclusive):
    random = np.random.default_rng(seed)
    dense = random.poisson(0.6, size=(30, 6)).astype(float)
    rows, columns = dense.nonzero()
    if exclusive:
        targets = F.one_hot(torch.from_numpy(random.integers(num_labels, size=30)), num_labels).double()
    else:
        targets = torch.from_numpy(random.integers(2, size=(30, num_labels))).double()
    return torch.from_numpy(dense), sparse(rows, columns, dense[rows, columns], dense.shape), targets


def test_words_are_lower_case_and_punctuation_is_separate():
    assert " ".join(words_of("It'll DO, 'no' 3.5 snake_case (é)!")) == "it'll do , ' no ' 3 . 5 snake _ case ( é ) !"


def test_features_are_words_and_pairs_of_neighbours():
    bag = fit_bag_of_words(["a b a b", "b c"])
    assert bag.features == ("a", "a b", "b", "b a", "b c", "c")
    assert bag.transform(["a b a b", "", "c new a"]).to_dense().tolist() == [
        [2, 2, 2, 1, 0, 0],
        [0] * 6,
        [1, 0, 0, 0, 0, 1],
    ]
    assert fit_bag_of_words(["a b a b", "b c"], num_words=3).features[2] == "a b a"
    assert fit_bag_of_words(["a b a b", "b c"], min_texts=2).features == ("b",)
    presence = fit_bag_of_words(["a b a b", "b c"], num_words=1, weighting="presence")
    assert presence.transform(["b b c"]).to_dense().tolist() == [[0, 1, 1]]


def test_features_of_the_second_text_are_separate():
    bag = fit_bag_of_words([("a b", "a")])
    assert bag.features == ("a", "a b", "b", "second: a")
    assert bag.transform([("b", "a a"), ("second : a", "")]).to_dense().tolist() == [[0, 0, 1, 2], [1, 0, 0, 0]]


def test_tf_idf_is_its_equation():
    bag = fit_bag_of_words(TEXTS, num_words=1, weighting="tf-idf")
    rows = bag.transform(["bad bad film", "not a film", "never"]).to_dense()
    idf = {word: 1 + math.log(6 / (1 + sum(word in text.split() for text in TEXTS))) for word in bag.features}
    for row, counts in zip(rows, [{"bad": 2, "film": 1}, {"not": 1, "a": 1, "film": 1}, {}], strict=True):
        weights = np.array([counts.get(word, 0) * idf[word] for word in bag.features])
        assert row.numpy() == pytest.approx(weights / max(math.hypot(*weights), 1e-9))


def test_naive_bayes_is_bayes_rule_over_counts():
    model = fit_text_classifier(TEXTS, CLASSES, "naive_bayes", num_words=1)
    words = sorted({word for text in TEXTS for word in text.split()})

    def joint(text, label):
        own = [t.split() for t, (c,) in zip(TEXTS, CLASSES, strict=True) if c == label]
        class_words = [word for t in own for word in t]
        total = (len(own) + 1) / (len(TEXTS) + 2)
        for word in text.split():
            if word in words:
                total *= (class_words.count(word) + 1) / (len(class_words) + len(words))
        return total

    for text in ("good bad bad", "film never", ""):
        expected = np.array([joint(text, "con"), joint(text, "pro")])
        assert model.predict_proba([text])[0] == pytest.approx(expected / expected.sum())
    assert model.predict(["good film", "bad film"]) == [("pro",), ("con",)]


def test_naive_bayes_of_a_non_exclusive_label_models_its_presence_and_absence():
    dense, features, targets = random_problem(1, 3, exclusive=False)
    joint = fit_naive_bayes(features, targets, exclusive=False).probs(features)
    for label in range(3):
        one = targets[:, label]
        alone = fit_naive_bayes(features, torch.stack([1 - one, one], dim=1)).probs(features)
        assert torch.allclose(joint[:, label], alone[:, 1])


@pytest.mark.parametrize("l2", [0.01, 3.0])
def test_softmax_regression_is_where_the_gradient_of_its_cost_is_zero(l2):
    dense, features, targets = random_problem(2, 4, exclusive=True)
    model = fit_softmax_regression(features, targets, l2=l2)
    weight, bias = model.weight.clone().requires_grad_(), model.bias.clone().requires_grad_()
    cost = F.cross_entropy(dense @ weight + bias, targets.argmax(1), reduction="sum") + l2 / 2 * weight.square().sum()
    gradients = torch.autograd.grad(cost, [weight, bias])
    assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-4
    assert torch.allclose(model.probs(features), (dense @ model.weight + model.bias).softmax(1))


@pytest.mark.parametrize("l2", [0.01, 3.0])
def test_logistic_regression_is_where_the_gradient_of_its_cost_is_zero(l2):
    dense, features, targets = random_problem(3, 3, exclusive=False)
    model = fit_logistic_regression(features, targets, l2=l2)
    weight, bias = model.weight.clone().requires_grad_(), model.bias.clone().requires_grad_()
    p = torch.sigmoid(dense @ weight + bias)
    cost = -(targets * p.log() + (1 - targets) * (1 - p).log()).sum() + l2 / 2 * weight.square().sum()
    gradients = torch.autograd.grad(cost, [weight, bias])
    assert max(float(gradient.abs().max()) for gradient in gradients) < 1e-4
    assert torch.allclose(model.probs(features), p)


def test_ridge_regression_solves_its_equations():
    dense, features, targets = random_problem(5, 2, exclusive=False)
    model = fit_ridge_regression(features, targets, l2=0.5)
    residuals = dense @ model.weight + model.bias - targets
    assert torch.allclose(dense.T @ residuals + 0.5 * model.weight, torch.zeros_like(model.weight), atol=1e-4)
    assert torch.allclose(residuals.sum(0), torch.zeros(2, dtype=residuals.dtype), atol=1e-4)
    with pytest.raises(UserError, match=r"^there must be as many numbers \(2\) as texts \(1\)$"):
        fit_text_regression(["a"], [1.0, 2.0])


def test_two_classes_of_softmax_regression_are_logistic_regression():
    # Two columns w and -w have twice the penalty of their difference's half: |w|^2 + |w|^2 = |2w|^2 / 2.
    _, features, targets = random_problem(4, 2, exclusive=True)
    softmax = fit_softmax_regression(features, targets, l2=2.0).probs(features)[:, 1]
    logistic = fit_logistic_regression(features, targets[:, 1:], l2=1.0).probs(features)[:, 0]
    assert torch.allclose(softmax, logistic, atol=1e-5)


def test_fitting_is_reproducible():
    first, second = (fit_text_classifier(TEXTS, CLASSES, "softmax") for _ in range(2))
    assert torch.equal(first.linear.weight, second.linear.weight)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_baselines_of_the_sentiment_sample_have_known_accuracies(method):
    parts = read_corpus("sentiment-sample")
    train, test = parts["train"], parts["test"]
    model = fit_text_classifier([e.text for e in train], [e.labels for e in train], method, num_words=1)
    probs = model.predict_proba([e.text for e in test])
    assert probs.sum(1) == pytest.approx(1)
    accuracy = np.mean(
        [answer == e.labels for answer, e in zip(model.predict([e.text for e in test]), test, strict=True)]
    )
    frequent = fit_most_frequent_class([e.labels for e in train]).predict(test)
    assert accuracy > 0.75 > 0.55 > np.mean([answer == e.labels for answer, e in zip(frequent, test, strict=True)])


@pytest.mark.parametrize("method", ["naive_bayes", "logistic"])
def test_non_exclusive_labels_are_predicted(method):
    texts = [f"{'red ' * (i % 2)}{'round ' * (i // 2 % 2)}thing" for i in range(40)]
    answers = [tuple(word for word in ("red", "round") if word in text) for text in texts]
    model = fit_text_classifier(texts, answers, method, exclusive=False)
    assert model.predict(["a red thing", "round and red", "a thing"]) == [("red",), ("red", "round"), ()]
    assert model.predict_proba(["round and red"])[0].sum() > 1


def test_a_label_that_all_texts_have_is_likely():
    for method in ("naive_bayes", "logistic"):
        model = fit_text_classifier(["a", "b", "c"], [("x",), ("x",), ("x", "y")], method, exclusive=False)
        assert model.predict(["a"]) == [("x",)]


def test_one_class_and_texts_without_known_words_are_handled():
    for method in METHODS:
        assert fit_text_classifier(["a", "b"], [("x",), ("x",)], method).predict_proba(["new"]).tolist() == [[1.0]]


def test_invalid_inputs_are_rejected():
    with pytest.raises(
        UserError, match=r"^unknown method 'softmx'; did you mean 'softmax'\? known: logistic, naive_bayes, softmax$"
    ):
        fit_text_classifier(TEXTS, CLASSES, "softmx")
    with pytest.raises(
        UserError, match=r"^unknown weighting 'tfidf'; did you mean 'tf-idf'\? known: counts, presence, tf-idf$"
    ):
        fit_bag_of_words(TEXTS, weighting="tfidf")
    with pytest.raises(UserError, match=r"^there must be as many lists of labels \(4\) as texts \(5\)$"):
        fit_text_classifier(TEXTS, CLASSES[:4])
    with pytest.raises(
        UserError,
        match=r"^softmax regression gives a text one label; use logistic if labels do not exclude each other$",
    ):
        fit_text_classifier(TEXTS, LABELS, "softmax", exclusive=False)
    with pytest.raises(
        UserError, match=r"^no word is in 1 of the texts \(2\); give more texts or a smaller min_texts$"
    ):
        fit_bag_of_words(["", " "])
    with pytest.raises(UserError, match=r"^num_words \(0\) and min_texts \(1\) must be at least 1$"):
        fit_bag_of_words(TEXTS, num_words=0)
    with pytest.raises(
        UserError,
        match=r"^l2 \(0\) must be above 0; without it, the weights of words that determine a label grow without bound$",
    ):
        fit_text_classifier(TEXTS, CLASSES, "logistic", l2=0)
    with pytest.raises(UserError, match=r"^smoothing \(0\) must be above 0$"):
        fit_naive_bayes(*random_problem(1, 2, exclusive=True)[1:], smoothing=0)
