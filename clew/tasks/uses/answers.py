"""Kinds of answers about a whole text: one label, any number of labels, or a number. Members of ANSWERS turn scores
into answers and define their loss and metrics; they know no text and no body."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

import torch
import torch.nn.functional as F
from pydantic import BeforeValidator
from torch import Tensor, nn

from clew.core.errors import UserError, named, shown, unknown
from clew.data.examples import number_of
from clew.metrics.agreement import share_interval
from clew.metrics.bootstrap import Interval, bootstrap_interval
from clew.metrics.calibration import binned, calibration, calibration_interval, fit_temperature, held_out
from clew.metrics.classification import Confusion, count_confusion, count_label_sets, label_set_intervals
from clew.metrics.correlation import correlation, correlation_interval
from clew.metrics.measures import Measured, in_words
from clew.metrics.statistics import Row, Statistics, share_of
from clew.text.labels import Labels

Weights = str | Mapping[str, float]
WEIGHTINGS = ("none", "balanced")


def check_weights(weights: Any) -> Any:
    """Return the value of `task.class_weights`; raise an error if it is not valid."""
    if isinstance(weights, str) and weights not in WEIGHTINGS:
        raise unknown("weighting of classes", weights, WEIGHTINGS)
    for label, weight in weights.items() if isinstance(weights, Mapping) else ():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < math.inf:
            raise UserError(f"a class weight must be a number above 0, but {named(label)} has {shown(weight)}")
    return weights


ClassWeights = Annotated[Literal["none", "balanced"] | dict[str, float], BeforeValidator(check_weights)]
TOLERANCE = 1e-9
"""Losses and errors that differ by less are treated as equal, because of rounding."""
SAMPLES = 2000
"""Number of bootstrap resamples for an interval."""


class Answered(Protocol):
    """The fields of an example that its answer depends on."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def label(self) -> str: ...

    @property
    def id(self) -> str: ...


Prediction = Mapping[str, Any]
"""A predicted answer as JSON."""


class OneLabel(nn.Module):
    """One label: p = softmax(logits / T), and the most probable label is the answer. An example has the weight of its
    label."""

    shares: tuple[str, ...] = ("accuracy", "macro_f1", "matthews")
    settled = ""
    """Why calibration was tried but no temperature is used."""
    temperature: Tensor
    class_weights: Tensor

    def __init__(
        self,
        labels: Labels,
        *,
        class_weights: Weights = "none",
        label_smoothing: float = 0.0,
        calibrate: bool = True,
        positive: str | None = None,
    ):
        super().__init__()
        if positive is not None:
            labels.id(positive, "task.positive")
        self.labels = labels
        self.positive = positive
        self.weighting = class_weights
        self.label_smoothing = label_smoothing
        self.calibrate = calibrate
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("class_weights", torch.ones(len(labels)))

    @property
    def measures(self) -> tuple[str, ...]:
        """Metric names; the first selects the best checkpoint by default."""
        return (*self.shares, *([] if self.positive is None else ["f1"]))

    def target(self, example: Answered) -> list[float]:
        """Return 1 for each label of the example and 0 for the others."""
        if len(example.labels) != 1:
            raise UserError(
                f"{example.id}: expected one label, found {len(example.labels)}; to train with any number of labels"
                " set task.labels=several"
            )
        return self.row(example)

    def row(self, example: Answered) -> list[float]:
        """Return the target row. A label that is not in the training part has no column."""
        return [float(label in example.labels) for label in self.labels.names]

    def all_labels(self, examples: Sequence[Answered]) -> tuple[str, ...]:
        """Return the labels that can be predicted, then the gold labels that cannot."""
        own = set(self.labels.names)
        return (*self.labels.names, *sorted({label for example in examples for label in example.labels} - own))

    def prepare(self, targets: Callable[[], Tensor]) -> None:
        """Set the class weights, from the training part's targets (examples, labels) if they are to be balanced."""
        if isinstance(self.weighting, Mapping):
            for label, weight in self.weighting.items():
                self.class_weights[self.labels.id(label, "task.class_weights")] = weight
        elif self.weighting == "balanced":
            training_targets = targets()
            self.class_weights.copy_(len(training_targets) / (len(self.labels) * training_targets.sum(0).clamp(min=1)))

    def settle(self, logits: Tensor, targets: Tensor) -> bool:
        """Fit T on the validation part; return whether calibration is on."""
        has_label = targets.any(1)
        if self.calibrate and has_label.any():
            self.fit(logits[has_label], targets[has_label].argmax(1))
        return self.calibrate

    def fit(self, logits: Tensor, targets: Tensor) -> None:
        """Use the T with the lowest loss, or 1 if that T raises the calibration error or the loss. This can happen
        with few examples, or with a smoothed target when nearly all examples are right."""
        temperature = fit_temperature(logits, targets, smoothing=1 / (len(logits) + 2))
        uncalibrated, calibrated = held_out(logits, targets), held_out(logits, targets, temperature)
        pairs = [
            ("calibration error", 100 * uncalibrated.error, 100 * calibrated.error),
            ("loss", uncalibrated.loss, calibrated.loss),
        ]
        worse = [
            f"the {name} from {before:.4g} to {after:.4g}"
            for name, before, after in pairs
            if after > before + TOLERANCE
        ]
        self.temperature.fill_(1.0 if worse else temperature)
        self.settled = (
            f"probabilities are not calibrated: the temperature {temperature:.3g} would raise {' and '.join(worse)} on"
            " the validation part"
            if worse
            else ""
        )

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        shares = self.smoothed(targets, 1 / len(self.labels))
        return -((shares * logits.log_softmax(-1)) * (targets @ self.class_weights)[:, None]).sum()

    def count(self, targets: Tensor) -> Tensor:
        """Return the sum of the examples' weights."""
        if self.weighting == "none":
            return targets.any(1).sum()
        return (targets @ self.class_weights.to(targets.device)).sum()

    def smoothed(self, targets: Tensor, even: float) -> Tensor:
        share = self.label_smoothing if self.training else 0.0
        return (1 - share) * targets + share * even if share else targets

    def predictions(self, logits: Tensor) -> list[dict[str, Any]]:
        probs = self.probabilities(logits / self.temperature)
        return [{"labels": self.chosen(row), "probabilities": row} for row in probs.tolist()]

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)

    def chosen(self, probabilities: Sequence[float]) -> list[str]:
        return [self.labels.names[max(range(len(probabilities)), key=probabilities.__getitem__)]]

    def measure(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> Measured:
        confusion = self.confusion(examples, predictions)
        values = {name: 100 * confusion.value(name, self.positive) for name in self.measures}
        error = 100 * calibration(*self.calibration_data(examples, predictions)).expected_error
        return Measured({**values, "calibration_error": error}, in_words({**values, "calibration_error": error}))

    def intervals(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> dict[str, Interval]:
        confusion = self.confusion(examples, predictions)
        intervals = {name: confusion.interval(name, self.positive, samples=SAMPLES) for name in self.measures}
        intervals["calibration_error"] = calibration_interval(
            *self.calibration_data(examples, predictions), samples=SAMPLES
        )
        return {name: interval.times(100) for name, interval in intervals.items()}

    def report(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> tuple[str, ...]:
        """Return one line per label, and the confusion matrix."""
        confusion = self.confusion(examples, predictions)
        return confusion.describe().partition("\n")[2], confusion.table()

    def confusion(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> Confusion:
        gold, predicted = [example.label for example in examples], [answer["labels"][0] for answer in predictions]
        return count_confusion(gold, predicted, self.all_labels(examples))

    def calibration_data(
        self, examples: Sequence[Answered], predictions: Sequence[Prediction]
    ) -> tuple[Tensor, Tensor]:
        """Return the probabilities (examples, labels) and the gold labels, UNSEEN for a gold label that is not in the
        table."""
        gold = [self.labels.find(example.label) for example in examples]
        return torch.tensor([answer["probabilities"] for answer in predictions]), torch.tensor(gold)

    def scores(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> list[float]:
        """Return 100 for each example whose labels are all right, else 0."""
        return [
            100.0 * (set(example.labels) == set(answer["labels"]))
            for example, answer in zip(examples, predictions, strict=True)
        ]

    def statistics(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> list[Statistics]:
        rows = [
            one_label_statistics(example.label, answer["labels"][0], self.positive)
            for example, answer in zip(examples, predictions, strict=True)
        ]
        probabilities, targets = self.calibration_data(examples, predictions)
        confidence, right, bins = binned(probabilities, targets)
        for row, number, gap in zip(rows, bins.tolist(), (right - confidence).tolist(), strict=True):
            row["calibration_error"] = {"calibration": {str(number): [gap, 1]}}
        return rows

    def row_losses(self, logits: Tensor, targets: Tensor) -> list[list[float]]:
        """Return the loss and the weight of each example."""
        rows = zip(logits.split(1), targets.split(1), strict=True)
        return [[float(self.loss(*row)), float(self.count(row[1]))] for row in rows]

    def described(self, example: Answered, prediction: Prediction) -> dict[str, Any]:
        probability_of = dict(zip(self.labels.names, prediction["probabilities"], strict=True))
        gold_probability = min(
            (probability_of.get(label, 0.0) for label in example.labels), default=1 - max(probability_of.values())
        )
        return {
            "target": example.label,
            "prediction": "|".join(prediction["labels"]),
            "gold_probability": round(gold_probability, 6),
        }


class SeveralLabels(OneLabel):
    """Any number of labels: p_label = sigmoid(logit / T) for each label independently. All labels with p > 1/2 are
    the answer."""

    shares = ("micro_f1", "macro_f1", "exact_match", "accuracy")

    def __init__(self, labels: Labels, *, positive: str | None = None, **options: Any):
        if positive is not None:
            raise UserError(
                "task.positive is for labels that exclude each other; leave it out with task.labels=several"
            )
        super().__init__(labels, **options)

    def target(self, example: Answered) -> list[float]:
        return self.row(example)

    def settle(self, logits: Tensor, targets: Tensor) -> bool:
        # each decision is a choice between two classes, absent and present
        both = torch.stack([torch.zeros_like(logits), logits], -1).flatten(0, 1)
        if self.calibrate:
            self.fit(both, targets.long().flatten())
        return self.calibrate

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        losses = F.binary_cross_entropy_with_logits(logits, self.smoothed(targets, 0.5), reduction="none")
        return (losses * self.class_weights).sum()

    def count(self, targets: Tensor) -> Tensor:
        """Return the number of decisions, weighted by their labels."""
        if self.weighting == "none":
            return torch.full((), targets.numel(), device=targets.device)
        return self.class_weights.sum().to(targets.device) * len(targets)

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def chosen(self, probabilities: Sequence[float]) -> list[str]:
        order = sorted(range(len(probabilities)), key=lambda place: -probabilities[place])
        return [self.labels.names[place] for place in order if probabilities[place] > 0.5]

    def measure(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> Measured:
        golds, answers = [example.labels for example in examples], [answer["labels"] for answer in predictions]
        sets = count_label_sets(golds, answers, self.all_labels(examples))
        values = {name: 100 * getattr(sets, name) for name in self.shares}
        return Measured(values, in_words(values))

    def intervals(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> dict[str, Interval]:
        golds, answers = [example.labels for example in examples], [answer["labels"] for answer in predictions]
        labels = self.all_labels(examples)
        intervals = label_set_intervals(golds, answers, labels, samples=SAMPLES)
        right = [len(labels) - len(set(gold) ^ set(answer)) for gold, answer in zip(golds, answers, strict=True)]
        intervals["accuracy"] = share_interval(right, [len(labels)] * len(right), samples=SAMPLES)
        return {name: interval.times(100) for name, interval in intervals.items()}

    def statistics(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> list[Statistics]:
        num_labels = len(self.all_labels(examples))
        pairs = zip(examples, predictions, strict=True)
        return [label_set_statistics(example.labels, answer["labels"], num_labels) for example, answer in pairs]

    def report(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> tuple[str, ...]:
        golds, answers = [example.labels for example in examples], [answer["labels"] for answer in predictions]
        return (count_label_sets(golds, answers, self.all_labels(examples)).describe().partition("\n")[2],)


class Number(nn.Module):
    """A number, trained with the squared error of its standardised value (mean 0, variance 1)."""

    measures: tuple[str, ...] = ("pearson", "spearman")
    settled = ""
    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        labels: Labels,
        *,
        class_weights: Weights = "none",
        label_smoothing: float = 0.0,
        calibrate: bool = True,
        positive: str | None = None,
    ):
        super().__init__()
        if positive is not None:
            raise UserError("task.positive is for labels, and task.labels=number has none; leave it out")
        if class_weights != "none":
            raise UserError("task.class_weights is for labels, and task.labels=number has none; leave it out")
        self.labels = labels
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))

    def target(self, example: Answered) -> list[float]:
        return [number_of(example)]

    def prepare(self, targets: Callable[[], Tensor]) -> None:
        training_targets = targets()
        self.mean.fill_(float(training_targets.mean()))
        self.scale.fill_(max(float(training_targets.std(correction=0)), 1e-8))

    def settle(self, logits: Tensor, targets: Tensor) -> bool:
        return False

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (logits - (targets - self.mean) / self.scale).square().sum()

    def count(self, targets: Tensor) -> Tensor:
        return torch.full((), len(targets), device=targets.device)

    def predictions(self, logits: Tensor) -> list[dict[str, Any]]:
        return [{"number": number} for number in (self.mean + self.scale * logits[:, 0]).tolist()]

    def measure(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> Measured:
        gold, predicted = self.numbers(examples, predictions)
        values = {name: 100 * correlation(name, gold, predicted) if len(gold) > 1 else 0.0 for name in self.measures}
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(gold, predicted, strict=True)) / max(len(gold), 1))
        return Measured({**values, "error": error}, f"{in_words(values)}, root of the mean squared error {error:.4g}")

    def intervals(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> dict[str, Interval]:
        gold, predicted = self.numbers(examples, predictions)
        intervals = {
            name: correlation_interval(name, gold, predicted).times(100) for name in self.measures if len(gold) > 1
        }
        squares = bootstrap_interval([(a - b) ** 2 for a, b in zip(gold, predicted, strict=True)], samples=SAMPLES)
        return {**intervals, "error": Interval(*map(math.sqrt, squares))}

    def report(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> tuple[str, ...]:
        return ()

    def numbers(
        self, examples: Sequence[Answered], predictions: Sequence[Prediction]
    ) -> tuple[list[float], list[float]]:
        return [number_of(example) for example in examples], [answer["number"] for answer in predictions]

    def scores(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> list[float]:
        """Return the negative squared errors."""
        return [
            -((gold - predicted) ** 2) for gold, predicted in zip(*self.numbers(examples, predictions), strict=True)
        ]

    def statistics(self, examples: Sequence[Answered], predictions: Sequence[Prediction]) -> list[Statistics]:
        return [
            {
                "pearson": {"pearson": [gold, predicted]},
                "spearman": {"spearman": [gold, predicted]},
                "error": {"root": [(gold - predicted) ** 2, 1]},
            }
            for gold, predicted in zip(*self.numbers(examples, predictions), strict=True)
        ]

    def row_losses(self, logits: Tensor, targets: Tensor) -> list[list[float]]:
        rows = zip(logits.split(1), targets.split(1), strict=True)
        return [[float(self.loss(*row)), float(self.count(row[1]))] for row in rows]

    def described(self, example: Answered, prediction: Prediction) -> dict[str, Any]:
        return {"target": example.label, "prediction": f"{prediction['number']:g}"}


def one_label_statistics(gold: str, predicted: str, positive: str | None = None) -> Statistics:
    """Return what the scores of one label per text are computed from. F1 is that of the label `positive`, if there is
    one."""
    rows: Row = {label: agreement(label, {gold}, {predicted}) for label in sorted({gold, predicted})}
    f1: Statistics = {} if positive is None else {"f1": {"f1": agreement(positive, {gold}, {predicted})}}
    return {
        "accuracy": share_of(float(gold == predicted), 1),
        "macro_f1": {"macro_f1": rows},
        "matthews": {"matthews": rows},
        **f1,
    }


def label_set_statistics(gold: Sequence[str], predicted: Sequence[str], num_labels: int) -> Statistics:
    """Return what the scores of any number of labels per text are computed from. Accuracy is over `num_labels`
    decisions per text."""
    golds, answers = set(gold), set(predicted)
    rows: Row = {label: agreement(label, golds, answers) for label in sorted(golds | answers)}
    return {
        "micro_f1": {"f1": [len(golds), len(answers), len(golds & answers)]},
        "macro_f1": {"macro_f1": rows},
        "exact_match": share_of(float(golds == answers), 1),
        "accuracy": share_of(num_labels - len(golds ^ answers), num_labels),
    }


def agreement(label: str, gold: set[str], predicted: set[str]) -> list[float]:
    """Return whether a label is gold, predicted, and both, as 0 or 1."""
    return [float(label in gold), float(label in predicted), float(label in gold & predicted)]


ANSWERS: dict[str, type[OneLabel] | type[Number]] = {"one": OneLabel, "several": SeveralLabels, "number": Number}
