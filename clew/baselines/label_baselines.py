"""Baselines that predict labels or numbers of whole texts."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from clew.baselines.bag_of_words import Reading, fit_text_classifier, fit_text_regression
from clew.baselines.baseline import Baseline, Train
from clew.baselines.most_frequent import fit_most_frequent_class
from clew.data.examples import Labelled, number_of
from clew.metrics.classification import count_label_sets
from clew.metrics.correlation import correlation
from clew.metrics.measures import Measured
from clew.metrics.strings import exact_match

MOST_CHARACTERS = 5_000_000
"""The maximum number of characters that naive Bayes is fitted on."""
MOST_WORK = 4_000_000
"""The largest product of characters and labels that regression is fitted on."""
STEPS = 50
"""Steps of regression; more do not change the scores."""


def label_baselines(train: Train, task: object = None, *, exclusive: bool = True) -> Iterator[Baseline]:
    """The most frequent class, naive Bayes and softmax regression; logistic regression if labels do not exclude each
    other."""
    examples: Sequence[Labelled] = train()
    size = num_characters(examples)
    met: dict[tuple[str, ...], tuple[str, ...]] = {}
    answers = [met.setdefault(example.labels, example.labels) for example in examples]
    num_labels = len({label for answer in met for label in answer})
    frequent = fit_most_frequent_class(answers, exclusive)
    yield label_baseline("most_frequent_class", "the most frequent class has", frequent, exclusive)
    if size * num_labels > 10 * MOST_WORK:
        return
    texts = [reading(example) for example in examples]
    if size <= MOST_CHARACTERS and size * num_labels <= 10 * MOST_WORK:
        bayes = fit_text_classifier(texts, answers, exclusive=exclusive)
        yield label_baseline("naive_bayes", "naive Bayes has", bayes, exclusive)
    if size * num_labels <= MOST_WORK:
        method = "softmax" if exclusive else "logistic"
        regression = fit_text_classifier(texts, answers, method, exclusive=exclusive, min_texts=2, max_steps=STEPS)
        yield label_baseline(f"{method}_regression", f"{method} regression has", regression, exclusive)


def frequent_baselines(train: Train, *, exclusive: bool = True) -> Iterator[Baseline]:
    """Only the most frequent class, for examples that are not texts."""
    model = fit_most_frequent_class([example.labels for example in train()], exclusive)
    yield label_baseline(
        "most_frequent_class", "the most frequent class has", model, exclusive, inputs_of=lambda examples: examples
    )


def several_label_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """The same for labels that do not exclude each other."""
    return label_baselines(train, exclusive=False)


def tree_label_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """The same from a tree's words, without the tree."""
    for words, measure in label_baselines(lambda: [tree.as_text for tree in train()]):
        yield Baseline(words, lambda trees, measure=measure: measure([tree.as_text for tree in trees]))  # type: ignore[misc]


def number_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """The mean of all numbers, and ridge regression."""
    examples: Sequence[Labelled] = train()
    numbers = [number_of(example) for example in examples]
    if not numbers:
        return
    mean = sum(numbers) / len(numbers)

    def measure_mean(part: Sequence[Labelled]) -> Measured:
        errors = [(number_of(example) - mean) ** 2 for example in part]
        error = math.sqrt(sum(errors) / len(errors))
        return Measured({"baseline_mean_error": error}, f"root of the mean squared error {error:.4g}")

    yield Baseline("the mean has", measure_mean)
    if num_characters(examples) > MOST_WORK:
        return
    model = fit_text_regression([reading(example) for example in examples], numbers, min_texts=2)

    def measure_ridge(part: Sequence[Labelled]) -> Measured:
        predicted = model.predict([reading(example) for example in part]).tolist()
        pearson = 100 * correlation("pearson", [number_of(example) for example in part], predicted)
        return Measured({"baseline_ridge_regression": pearson}, f"Pearson {pearson:.2f}")

    yield Baseline("ridge regression has", measure_ridge)


def num_characters(examples: Iterable[Labelled]) -> int:
    return sum(len(example.text) + len(example.second or "") for example in examples)


def reading(example: Labelled) -> Reading:
    return example.text if example.second is None else (example.text, example.second)


def label_baseline(
    name: str,
    words: str,
    model: Any,
    exclusive: bool,
    inputs_of: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
) -> Baseline:
    """`inputs_of` maps examples to the model's inputs; the default is their texts."""
    inputs_of = inputs_of or (lambda examples: [reading(example) for example in examples])

    def measure(examples: Sequence[Labelled]) -> Measured:
        gold, predicted = [example.labels for example in examples], model.predict(inputs_of(examples))
        if exclusive:
            share = 100 * exact_match(predicted, gold).value
            return Measured({f"baseline_{name}": share}, f"accuracy {share:.2f}")
        labels = sorted({label for answer in (*gold, *predicted) for label in answer})
        f1 = 100 * count_label_sets(gold, predicted, labels).micro_f1
        return Measured({f"baseline_{name}": f1}, f"micro F1 {f1:.2f}")

    return Baseline(words, measure)
