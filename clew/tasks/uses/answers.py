"""What is told of a whole text: one label of several, any number of labels, or a number. Members of ANSWERS know how a
score becomes an answer, what a wrong one costs, and how answers are measured; they know no text and no body."""

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


def known_weights(given: Any) -> Any:
    """What `task.class_weights` takes, if it is that; else the sentence."""
    if isinstance(given, str) and given not in WEIGHTINGS:
        raise unknown("weighting of classes", given, WEIGHTINGS)
    for label, weight in given.items() if isinstance(given, Mapping) else ():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < math.inf:
            raise UserError(f"the weight of a label is a number above 0, and that of {named(label)} is {shown(weight)}")
    return given


ClassWeights = Annotated[Literal["none", "balanced"] | dict[str, float], BeforeValidator(known_weights)]
SAME = 1e-9
"""Losses and errors that differ by less are equal: rounding."""
SAMPLES = 2000
"""Resamples of a bootstrap's interval."""


class Answered(Protocol):
    """An example, as far as its answer is concerned."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def label(self) -> str: ...

    @property
    def id(self) -> str: ...


Found = Mapping[str, Any]
"""An answer as JSON."""


class OneLabel(nn.Module):
    """p = softmax(logits / T); the likeliest label is the answer. An example weighs what its label does."""

    shares: tuple[str, ...] = ("accuracy", "macro_f1", "matthews")
    settled = ""
    """Why there is no temperature, where one was looked for and none is used."""
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
        """1 for each label of the example, 0 for the others."""
        if len(example.labels) != 1:
            raise UserError(
                f"{example.id}: {len(example.labels)} labels, and there is to be one; set task.labels=several for any"
                " number"
            )
        return self.row(example)

    def row(self, example: Answered) -> list[float]:
        """A label that the training part has not is in no column."""
        return [float(label in example.labels) for label in self.labels.names]

    def all_labels(self, examples: Sequence[Answered]) -> tuple[str, ...]:
        """The labels that it tells, and behind them others that are gold, which it never does."""
        own = set(self.labels.names)
        return (*self.labels.names, *sorted({label for example in examples for label in example.labels} - own))

    def prepare(self, targets: Callable[[], Tensor]) -> None:
        """Takes the labels' weights from the training part's targets (examples, labels), where they are asked for."""
        if isinstance(self.weighting, Mapping):
            for label, weight in self.weighting.items():
                self.class_weights[self.labels.id(label, "task.class_weights")] = weight
        elif self.weighting == "balanced":
            of_examples = targets()
            self.class_weights.copy_(len(of_examples) / (len(self.labels) * of_examples.sum(0).clamp(min=1)))

    def settle(self, logits: Tensor, targets: Tensor) -> bool:
        """Finds T on the validation part; whether it was looked for."""
        known = targets.any(1)
        if self.calibrate and known.any():
            self.fit(logits[known], targets[known].argmax(1))
        return self.calibrate

    def fit(self, logits: Tensor, targets: Tensor) -> None:
        """Takes the T of least loss, and 1 where that T makes the calibration error or the loss larger. Few examples,
        or a smoothed target of examples that are nearly all right, can do so."""
        temperature = fit_temperature(logits, targets, smoothing=1 / (len(logits) + 2))
        plain, mended = held_out(logits, targets), held_out(logits, targets, temperature)
        pairs = [("calibration error", 100 * plain.error, 100 * mended.error), ("loss", plain.loss, mended.loss)]
        worse = [
            f"the {name} from {before:.4g} to {after:.4g}" for name, before, after in pairs if after > before + SAME
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
        """What the examples weigh together."""
        if self.weighting == "none":
            return targets.any(1).sum()
        return (targets @ self.class_weights.to(targets.device)).sum()

    def smoothed(self, targets: Tensor, even: float) -> Tensor:
        share = self.label_smoothing if self.training else 0.0
        return (1 - share) * targets + share * even if share else targets

    def told(self, logits: Tensor) -> list[dict[str, Any]]:
        probs = self.probabilities(logits / self.temperature)
        return [{"labels": self.chosen(row), "probabilities": row} for row in probs.tolist()]

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)

    def chosen(self, probabilities: Sequence[float]) -> list[str]:
        return [self.labels.names[max(range(len(probabilities)), key=probabilities.__getitem__)]]

    def measure(self, examples: Sequence[Answered], found: Sequence[Found]) -> Measured:
        confusion = self.confusion(examples, found)
        values = {name: 100 * confusion.value(name, self.positive) for name in self.measures}
        error = 100 * calibration(*self.sure(examples, found)).expected_error
        return Measured({**values, "calibration_error": error}, in_words({**values, "calibration_error": error}))

    def intervals(self, examples: Sequence[Answered], found: Sequence[Found]) -> dict[str, Interval]:
        confusion = self.confusion(examples, found)
        intervals = {name: confusion.interval(name, self.positive, samples=SAMPLES) for name in self.measures}
        intervals["calibration_error"] = calibration_interval(*self.sure(examples, found), samples=SAMPLES)
        return {name: interval.times(100) for name, interval in intervals.items()}

    def report(self, examples: Sequence[Answered], found: Sequence[Found]) -> tuple[str, ...]:
        """A line a label, and which label was taken for which."""
        confusion = self.confusion(examples, found)
        return confusion.describe().partition("\n")[2], confusion.table()

    def confusion(self, examples: Sequence[Answered], found: Sequence[Found]) -> Confusion:
        gold, told = [example.label for example in examples], [answer["labels"][0] for answer in found]
        return count_confusion(gold, told, self.all_labels(examples))

    def sure(self, examples: Sequence[Answered], found: Sequence[Found]) -> tuple[Tensor, Tensor]:
        """Probabilities (examples, labels), and the right labels, UNSEEN where it is none of them."""
        right = [self.labels.find(example.label) for example in examples]
        return torch.tensor([answer["probabilities"] for answer in found]), torch.tensor(right)

    def scores(self, examples: Sequence[Answered], found: Sequence[Found]) -> list[float]:
        """100 where all is right, else 0."""
        return [
            100.0 * (set(example.labels) == set(answer["labels"]))
            for example, answer in zip(examples, found, strict=True)
        ]

    def statistics(self, examples: Sequence[Answered], found: Sequence[Found]) -> list[Statistics]:
        rows = [
            one_label_statistics(example.label, answer["labels"][0], self.positive)
            for example, answer in zip(examples, found, strict=True)
        ]
        probabilities, targets = self.sure(examples, found)
        confidence, right, bins = binned(probabilities, targets)
        for row, place, gap in zip(rows, bins.tolist(), (right - confidence).tolist(), strict=True):
            row["calibration_error"] = {"calibration": {str(place): [gap, 1]}}
        return rows

    def row_losses(self, logits: Tensor, targets: Tensor) -> list[list[float]]:
        """Each example's loss, and what it weighs."""
        rows = zip(logits.split(1), targets.split(1), strict=True)
        return [[float(self.loss(*row)), float(self.count(row[1]))] for row in rows]

    def described(self, example: Answered, found: Found) -> dict[str, Any]:
        of = dict(zip(self.labels.names, found["probabilities"], strict=True))
        sure = min((of.get(label, 0.0) for label in example.labels), default=1 - max(of.values()))
        return {"target": example.label, "prediction": "|".join(found["labels"]), "gold_probability": round(sure, 6)}


class SeveralLabels(OneLabel):
    """p_label = sigmoid(logit / T) for each by itself; all that are likelier than not are the answer."""

    shares = ("micro_f1", "macro_f1", "exact_match", "accuracy")

    def __init__(self, labels: Labels, *, positive: str | None = None, **options: Any):
        if positive is not None:
            raise UserError(
                "task.positive is one of labels that exclude each other; with task.labels=several leave it out"
            )
        super().__init__(labels, **options)

    def target(self, example: Answered) -> list[float]:
        return self.row(example)

    def settle(self, logits: Tensor, targets: Tensor) -> bool:
        both = torch.stack([torch.zeros_like(logits), logits], -1).flatten(
            0, 1
        )  # there or not: two labels that exclude each other
        if self.calibrate:
            self.fit(both, targets.long().flatten())
        return self.calibrate

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        losses = F.binary_cross_entropy_with_logits(logits, self.smoothed(targets, 0.5), reduction="none")
        return (losses * self.class_weights).sum()

    def count(self, targets: Tensor) -> Tensor:
        """Decisions, by what their labels weigh."""
        if self.weighting == "none":
            return torch.full((), targets.numel(), device=targets.device)
        return self.class_weights.sum().to(targets.device) * len(targets)

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def chosen(self, probabilities: Sequence[float]) -> list[str]:
        order = sorted(range(len(probabilities)), key=lambda place: -probabilities[place])
        return [self.labels.names[place] for place in order if probabilities[place] > 0.5]

    def measure(self, examples: Sequence[Answered], found: Sequence[Found]) -> Measured:
        golds, answers = [example.labels for example in examples], [answer["labels"] for answer in found]
        sets = count_label_sets(golds, answers, self.all_labels(examples))
        values = {name: 100 * getattr(sets, name) for name in self.shares}
        return Measured(values, in_words(values))

    def intervals(self, examples: Sequence[Answered], found: Sequence[Found]) -> dict[str, Interval]:
        golds, answers = [example.labels for example in examples], [answer["labels"] for answer in found]
        labels = self.all_labels(examples)
        intervals = label_set_intervals(golds, answers, labels, samples=SAMPLES)
        right = [len(labels) - len(set(gold) ^ set(answer)) for gold, answer in zip(golds, answers, strict=True)]
        intervals["accuracy"] = share_interval(right, [len(labels)] * len(right), samples=SAMPLES)
        return {name: interval.times(100) for name, interval in intervals.items()}

    def statistics(self, examples: Sequence[Answered], found: Sequence[Found]) -> list[Statistics]:
        num_labels = len(self.all_labels(examples))
        pairs = zip(examples, found, strict=True)
        return [label_set_statistics(example.labels, answer["labels"], num_labels) for example, answer in pairs]

    def report(self, examples: Sequence[Answered], found: Sequence[Found]) -> tuple[str, ...]:
        golds, answers = [example.labels for example in examples], [answer["labels"] for answer in found]
        return (count_label_sets(golds, answers, self.all_labels(examples)).describe().partition("\n")[2],)


class Number(nn.Module):
    """The number itself, by its squared error; it is learnt with mean 0 and variance 1."""

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
            raise UserError("task.positive is one of two labels, and task.labels=number has none; leave it out")
        if class_weights != "none":
            raise UserError("task.class_weights is for labels, and task.labels=number has none; leave it out")
        self.labels = labels
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))

    def target(self, example: Answered) -> list[float]:
        return [number_of(example)]

    def prepare(self, targets: Callable[[], Tensor]) -> None:
        of_examples = targets()
        self.mean.fill_(float(of_examples.mean()))
        self.scale.fill_(max(float(of_examples.std(correction=0)), 1e-8))

    def settle(self, logits: Tensor, targets: Tensor) -> bool:
        return False

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (logits - (targets - self.mean) / self.scale).square().sum()

    def count(self, targets: Tensor) -> Tensor:
        return torch.full((), len(targets), device=targets.device)

    def told(self, logits: Tensor) -> list[dict[str, Any]]:
        return [{"number": number} for number in (self.mean + self.scale * logits[:, 0]).tolist()]

    def measure(self, examples: Sequence[Answered], found: Sequence[Found]) -> Measured:
        gold, told = self.numbers(examples, found)
        values = {name: 100 * correlation(name, gold, told) if len(gold) > 1 else 0.0 for name in self.measures}
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(gold, told, strict=True)) / max(len(gold), 1))
        return Measured({**values, "error": error}, f"{in_words(values)}, root of the mean squared error {error:.4g}")

    def intervals(self, examples: Sequence[Answered], found: Sequence[Found]) -> dict[str, Interval]:
        gold, told = self.numbers(examples, found)
        intervals = {name: correlation_interval(name, gold, told).times(100) for name in self.measures if len(gold) > 1}
        squares = bootstrap_interval([(a - b) ** 2 for a, b in zip(gold, told, strict=True)], samples=SAMPLES)
        return {**intervals, "error": Interval(*map(math.sqrt, squares))}

    def report(self, examples: Sequence[Answered], found: Sequence[Found]) -> tuple[str, ...]:
        return ()

    def numbers(self, examples: Sequence[Answered], found: Sequence[Found]) -> tuple[list[float], list[float]]:
        return [number_of(example) for example in examples], [answer["number"] for answer in found]

    def scores(self, examples: Sequence[Answered], found: Sequence[Found]) -> list[float]:
        """Less the squared error."""
        return [-((gold - told) ** 2) for gold, told in zip(*self.numbers(examples, found), strict=True)]

    def statistics(self, examples: Sequence[Answered], found: Sequence[Found]) -> list[Statistics]:
        return [
            {
                "pearson": {"pearson": [gold, told]},
                "spearman": {"spearman": [gold, told]},
                "error": {"root": [(gold - told) ** 2, 1]},
            }
            for gold, told in zip(*self.numbers(examples, found), strict=True)
        ]

    def row_losses(self, logits: Tensor, targets: Tensor) -> list[list[float]]:
        rows = zip(logits.split(1), targets.split(1), strict=True)
        return [[float(self.loss(*row)), float(self.count(row[1]))] for row in rows]

    def described(self, example: Answered, found: Found) -> dict[str, Any]:
        return {"target": example.label, "prediction": f"{found['number']:g}"}


def one_label_statistics(gold: str, told: str, positive: str | None = None) -> Statistics:
    """What the scores of one label a text are computed from; F1 is that of the label `positive`, where there is one."""
    rows: Row = {label: agreement(label, {gold}, {told}) for label in sorted({gold, told})}
    f1: Statistics = {} if positive is None else {"f1": {"f1": agreement(positive, {gold}, {told})}}
    return {
        "accuracy": share_of(float(gold == told), 1),
        "macro_f1": {"macro_f1": rows},
        "matthews": {"matthews": rows},
        **f1,
    }


def label_set_statistics(gold: Sequence[str], told: Sequence[str], num_labels: int) -> Statistics:
    """The same of any number of labels; accuracy is of a decision for each of `num_labels`."""
    golds, answers = set(gold), set(told)
    rows: Row = {label: agreement(label, golds, answers) for label in sorted(golds | answers)}
    return {
        "micro_f1": {"f1": [len(golds), len(answers), len(golds & answers)]},
        "macro_f1": {"macro_f1": rows},
        "exact_match": share_of(float(golds == answers), 1),
        "accuracy": share_of(num_labels - len(golds ^ answers), num_labels),
    }


def agreement(label: str, gold: set[str], told: set[str]) -> list[float]:
    """Whether a label is gold, told and both."""
    return [float(label in gold), float(label in told), float(label in gold & told)]


ANSWERS: dict[str, type[OneLabel] | type[Number]] = {"one": OneLabel, "several": SeveralLabels, "number": Number}
