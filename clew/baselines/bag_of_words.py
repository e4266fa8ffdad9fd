"""Bag-of-words classifiers: naive Bayes, logistic and softmax regression.

A text is lowercased and split into words: runs of letters and digits, with apostrophes inside (`it'll`), and every
other character by itself, since `!` and `)` say much about a text. Its features are its words and its n-grams of
neighbouring words.

    counts     x_f = the number of times that f occurs in the text
    presence   x_f = 1 if it occurs
    tf-idf     x_f = count_f * (1 + log((1 + N) / (1 + N_f))), the row divided by its length       N_f of N texts have f

All three classifiers are linear: p = softmax(W x + b) if labels exclude each other, else p = sigmoid(W x + b) for each.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clew.baselines.most_frequent import Labels, known_labels, predicted_labels
from clew.baselines.sparse import Sparse, sparse
from clew.core.errors import UserError, unknown

Reading = str | tuple[str, str]
"""A text, or a pair that is judged together; each feature then belongs to the first or the second text."""

Weighting = Literal["counts", "presence", "tf-idf"]
WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|\S")
MAX_STEPS = 1000


def words_of(text: str) -> list[str]:
    return WORD.findall(text.lower())


def features_of(text: Reading, num_words: int) -> Iterator[str]:
    """Yield every occurrence of a feature: n-grams of up to `num_words` words."""
    if not isinstance(text, str):
        first, second = text
        yield from features_of(first, num_words)
        yield from (f"second: {feature}" for feature in features_of(second, num_words))
        return
    words = words_of(text)
    for n in range(1, num_words + 1):
        yield from (" ".join(words[i : i + n]) for i in range(len(words) - n + 1))


@dataclass(frozen=True)
class BagOfWords:
    """Maps texts to rows of a sparse matrix, with one column per feature. Features that were not seen in fitting are
    ignored."""

    features: tuple[str, ...]
    idf: np.ndarray = field(repr=False)  # (features,)
    weighting: Weighting = "counts"
    num_words: int = 2

    @cached_property
    def index(self) -> dict[str, int]:
        return {feature: i for i, feature in enumerate(self.features)}

    def transform(self, texts: Sequence[Reading]) -> Sparse:
        rows: list[int] = []
        columns: list[int] = []
        for row, text in enumerate(texts):
            known = [self.index[feature] for feature in features_of(text, self.num_words) if feature in self.index]
            columns += known
            rows += [row] * len(known)
        counts = sparse(
            np.array(rows), np.array(columns, np.int64), np.ones(len(rows)), (len(texts), len(self.features))
        )
        if self.weighting == "counts":
            return counts
        if self.weighting == "presence":
            return counts._replace(values=torch.ones_like(counts.values))
        weighted = counts.values * torch.from_numpy(self.idf)[counts.columns]
        squares = torch.zeros(len(texts), dtype=weighted.dtype).index_add_(0, counts.rows, weighted**2)
        return counts._replace(values=weighted / squares.sqrt()[counts.rows])


def fit_bag_of_words(
    texts: Sequence[Reading], *, weighting: Weighting = "counts", num_words: int = 2, min_texts: int = 1
) -> BagOfWords:
    """Fit the features that occur in at least `min_texts` texts."""
    if weighting not in get_args(Weighting):
        raise unknown("weighting", weighting, get_args(Weighting))
    if num_words < 1 or min_texts < 1:
        raise UserError(f"num_words ({num_words}) and min_texts ({min_texts}) must be at least 1")
    having: Counter[str] = Counter()
    for text in texts:
        having.update(set(features_of(text, num_words)))
    features = sorted(feature for feature, count in having.items() if count >= min_texts)
    if not features:
        raise UserError(
            f"no word is in {min_texts} of the texts ({len(texts)}); give more texts or a smaller min_texts"
        )
    idf = 1 + np.log((1 + len(texts)) / (1 + np.array([having[feature] for feature in features])))
    return BagOfWords(tuple(features), idf, weighting, num_words)


@dataclass(frozen=True)
class Linear:
    """p(label | x) = softmax(W x + b), or sigmoid(W x + b) for each label separately."""

    weight: Tensor = field(repr=False)  # (features, labels)
    bias: Tensor  # (labels,)
    exclusive: bool = True

    def scores(self, features: Sparse) -> Tensor:
        return features @ self.weight + self.bias  # (texts, labels)

    def probs(self, features: Sparse) -> Tensor:
        logits = self.scores(features)
        return logits.softmax(-1) if self.exclusive else logits.sigmoid()


def fit_naive_bayes(features: Sparse, targets: Tensor, *, exclusive: bool = True, smoothing: float = 1.0) -> Linear:
    """Multinomial naive Bayes (McCallum and Nigam 1998), for targets (texts, labels) of 0 and 1.

        p(label)      = (texts with it + s) / (texts + s * labels)
        p(f | label)  = (x_f over its texts + s) / (all x over its texts + s * features)

    If labels do not exclude each other, each label is classified against its absence.
    """
    if smoothing <= 0:
        raise UserError(f"smoothing ({smoothing}) must be above 0")
    if not exclusive:
        having, lacking = (log_probs(features, side, smoothing, 2) for side in (targets, 1 - targets))
        return Linear(having[0] - lacking[0], having[1] - lacking[1], exclusive=False)
    return Linear(*log_probs(features, targets, smoothing, targets.shape[1]))


def log_probs(features: Sparse, targets: Tensor, smoothing: float, num_outcomes: int) -> tuple[Tensor, Tensor]:
    """log p(f | label) (features, labels), and log p(label)."""
    counts = features.mT @ targets.double() + smoothing
    priors = (targets.double().sum(0) + smoothing) / (len(targets) + smoothing * num_outcomes)
    return (counts / counts.sum(0)).log(), priors.log()


def fit_softmax_regression(features: Sparse, targets: Tensor, *, l2: float = 1.0, max_steps: int = MAX_STEPS) -> Linear:
    """argmin_{W, b}  sum of -log p(target)  +  l2 / 2 * |W|^2, for targets (texts, labels) with a single 1 a row."""

    def cost(logits: Tensor) -> Tensor:
        return -(logits.log_softmax(-1) * targets).sum()

    weight, bias = least_cost(features, targets, l2, cost, lambda logits: logits.softmax(-1), max_steps)
    return Linear(weight, bias)


def fit_logistic_regression(
    features: Sparse, targets: Tensor, *, l2: float = 1.0, max_steps: int = MAX_STEPS
) -> Linear:
    """The same for each label separately, present or absent, for targets (texts, labels) of 0 and 1."""

    def cost(logits: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits, targets.to(logits), reduction="sum")

    weight, bias = least_cost(features, targets, l2, cost, torch.sigmoid, max_steps)
    return Linear(weight, bias, exclusive=False)


def fit_ridge_regression(features: Sparse, targets: Tensor, *, l2: float = 1.0) -> Linear:
    """argmin_{W, b}  sum of (W x + b - target)^2 / 2  +  l2 / 2 * |W|^2, for targets (texts, numbers)."""
    weight, bias = least_cost(
        features, targets, l2, lambda numbers: ((numbers - targets) ** 2).sum() / 2, lambda numbers: numbers
    )
    return Linear(weight, bias)


def least_cost(
    features: Sparse,
    targets: Tensor,
    l2: float,
    cost: Callable[[Tensor], Tensor],
    probs: Callable[[Tensor], Tensor],
    max_steps: int = MAX_STEPS,
) -> tuple[Tensor, Tensor]:
    """The unique minimum W, b of cost + l2 / 2 * |W|^2, by L-BFGS on all texts at once, in float64 and from 0, so
    nothing is random. Stops early after `max_steps`.

    d cost / d W = X^T (p - targets) + l2 * W          d cost / d b = sum of (p - targets)
    """
    if l2 <= 0:
        raise UserError(
            f"l2 ({l2}) must be above 0; without it, the weights of words that determine a label grow without bound"
        )
    transposed = features.mT
    weight = torch.zeros(features.num_columns, targets.shape[1], dtype=torch.float64)
    bias = torch.zeros(targets.shape[1], dtype=torch.float64)

    def closure() -> Tensor:
        logits = features @ weight + bias
        errors = probs(logits) - targets
        weight.grad = transposed @ errors + l2 * weight
        bias.grad = errors.sum(0)
        return cost(logits) + l2 / 2 * (weight**2).sum()

    torch.optim.LBFGS(
        [weight, bias],
        max_iter=max_steps,
        history_size=10,
        tolerance_grad=1e-6 * len(targets),
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    ).step(closure)
    return weight, bias


@dataclass(frozen=True)
class TextClassifier:
    """Classifies texts by their bags of words."""

    labels: Labels
    bag: BagOfWords = field(repr=False)
    linear: Linear = field(repr=False)
    exclusive: bool = True

    def predict_proba(self, texts: Sequence[Reading]) -> np.ndarray:
        """(texts, labels); rows sum to one if labels exclude each other."""
        probs = self.linear.probs(self.bag.transform(texts)).numpy()
        return probs / probs.sum(axis=1, keepdims=True) if self.exclusive else probs

    def predict(self, texts: Sequence[Reading]) -> list[Labels]:
        return predicted_labels(self.predict_proba(texts), self.labels, self.exclusive)


@dataclass(frozen=True)
class TextRegression:
    """Predicts numbers from texts' bags of words."""

    bag: BagOfWords = field(repr=False)
    linear: Linear = field(repr=False)

    def predict(self, texts: Sequence[Reading]) -> np.ndarray:
        return self.linear.scores(self.bag.transform(texts))[:, 0].numpy()


METHODS = ("naive_bayes", "logistic", "softmax")


def fit_text_classifier(
    texts: Sequence[Reading],
    answers: Sequence[Labels],
    method: str = "naive_bayes",
    *,
    exclusive: bool = True,
    weighting: Weighting | None = None,
    num_words: int = 2,
    min_texts: int = 1,
    l2: float = 0.1,
    max_steps: int = MAX_STEPS,
) -> TextClassifier:
    """naive_bayes uses counts, logistic and softmax use tf-idf, unless `weighting` is given. logistic classifies each
    label against all others; if labels exclude each other, its probabilities are divided by their sum."""
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if method == "softmax" and not exclusive:
        raise UserError("softmax regression gives a text one label; use logistic if labels do not exclude each other")
    if len(texts) != len(answers):
        raise UserError(f"there must be as many lists of labels ({len(answers)}) as texts ({len(texts)})")
    labels = known_labels(answers, exclusive)
    bag = fit_bag_of_words(
        texts,
        weighting=weighting or ("counts" if method == "naive_bayes" else "tf-idf"),
        num_words=num_words,
        min_texts=min_texts,
    )
    features = bag.transform(texts)
    targets = torch.tensor([[label in answer for label in labels] for answer in answers], dtype=torch.float64)
    if method == "naive_bayes":
        linear = fit_naive_bayes(features, targets, exclusive=exclusive)
    elif method == "logistic":
        linear = fit_logistic_regression(features, targets, l2=l2, max_steps=max_steps)
    else:
        linear = fit_softmax_regression(features, targets, l2=l2, max_steps=max_steps)
    return TextClassifier(labels, bag, linear, exclusive)


def fit_text_regression(
    texts: Sequence[Reading], numbers: Sequence[float], *, num_words: int = 2, min_texts: int = 1, l2: float = 1.0
) -> TextRegression:
    """Ridge regression of numbers on the tf-idf features of texts."""
    if len(texts) != len(numbers):
        raise UserError(f"there must be as many numbers ({len(numbers)}) as texts ({len(texts)})")
    bag = fit_bag_of_words(texts, weighting="tf-idf", num_words=num_words, min_texts=min_texts)
    targets = torch.tensor(numbers, dtype=torch.float64)[:, None]
    return TextRegression(bag, fit_ridge_regression(bag.transform(texts), targets, l2=l2))
