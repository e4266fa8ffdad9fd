"""What is told of a whole text: one label of several, any number of labels, or a number. Members of ANSWERS know how a score becomes an
answer, what a wrong one costs, and how answers are measured; they know no text and no body."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol

import torch
import torch.nn.functional as F
from pydantic import BeforeValidator
from torch import Tensor, nn

from clew.core.errors import UserError, named, shown, unknown
from clew.data.examples import number_of
from clew.metrics.agreement import share_interval
from clew.metrics.bootstrap import Interval, bootstrap_interval
from clew.metrics.calibration import calibration, calibration_interval, fit_temperature
from clew.metrics.classification import Confusion, count_confusion, count_label_sets, label_set_intervals
from clew.metrics.correlation import correlation, correlation_interval
from clew.metrics.measures import Measured, in_words
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
        """What is measured, what the best evaluation is told by unless told being the first."""
        return (*self.shares, *([] if self.positive is None else ["f1"]))

    def target(self, example: Answered) -> list[float]:
        """1 for each label of the example, 0 for the others."""
        if len(example.labels) != 1:
            raise UserError(f"{example.id}: {len(example.labels)} labels, and there is to be one; set task.labels=several for any number")
        return self.row(example)

    def row(self, example: Answered) -> list[float]:
        row = [0.0] * len(self.labels)
        for label in example.labels:
            remedy = f"; data.label_map={{{json.dumps(label, ensure_ascii=False)}: null}} leaves such examples out"
            row[self.labels.id(label, example.id, remedy)] = 1.0
        return row

    def prepare(self, targets: Tensor) -> None:
        """Takes the labels' weights from the training part's targets (examples, labels)."""
        if isinstance(self.weighting, Mapping):
            for label, weight in self.weighting.items():
                self.class_weights[self.labels.id(label, "task.class_weights")] = weight
        elif self.weighting == "balanced":
            self.class_weights.copy_(len(targets) / (len(self.labels) * targets.sum(0).clamp(min=1)))

    def settle(self, logits: Tensor, targets: Tensor) -> bool:
        """Finds T on the validation part; whether there is one."""
        if self.calibrate:
            self.temperature.fill_(fit_temperature(logits, targets.argmax(1), smoothing=1 / (len(logits) + 2)))
        return self.calibrate

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        shares = self.smoothed(targets, 1 / len(self.labels))
        return -((shares * logits.log_softmax(-1)) * (targets @ self.class_weights)[:, None]).sum()

    def count(self, targets: Tensor) -> Tensor:
        """What the examples weigh together."""
        if self.weighting == "none":
            return torch.full((), len(targets), device=targets.device)
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
        return count_confusion([example.label for example in examples], [answer["labels"][0] for answer in found], self.labels.names)

    def sure(self, examples: Sequence[Answered], found: Sequence[Found]) -> tuple[Tensor, Tensor]:
        """Probabilities (examples, labels), and the right labels."""
        right = [self.labels.id(example.label) for example in examples]
        return torch.tensor([answer["probabilities"] for answer in found]), torch.tensor(right)

    def scores(self, examples: Sequence[Answered], found: Sequence[Found]) -> list[float]:
        """100 where all is right, else 0."""
        return [100.0 * (set(example.labels) == set(answer["labels"])) for example, answer in zip(examples, found, strict=True)]

    def described(self, example: Answered, found: Found) -> dict[str, Any]:
        of = dict(zip(self.labels.names, found["probabilities"], strict=True))
        sure = min((of[label] for label in example.labels), default=1 - max(of.values()))
        return {"target": example.label, "prediction": "|".join(found["labels"]), "gold_probability": round(sure, 6)}


class SeveralLabels(OneLabel):
    """p_label = sigmoid(logit / T) for each by itself; all that are likelier than not are the answer."""

    shares = ("micro_f1", "macro_f1", "exact_match", "accuracy")

    def __init__(self, labels: Labels, *, positive: str | None = None, **options: Any):
        if positive is not None:
            raise UserError("task.positive is one of labels that exclude each other; with task.labels=several leave it out")
        super().__init__(labels, **options)

    def target(self, example: Answered) -> list[float]:
        return self.row(example)

    def settle(self, logits: Tensor, targets: Tensor) -> bool:
        both = torch.stack([torch.zeros_like(logits), logits], -1).flatten(0, 1)  # there or not: two labels that exclude each other
        if self.calibrate:
            self.temperature.fill_(fit_temperature(both, targets.long().flatten(), smoothing=1 / (len(both) + 2)))
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
        sets = count_label_sets([example.labels for example in examples], [answer["labels"] for answer in found], self.labels.names)
        values = {name: 100 * getattr(sets, name) for name in self.shares}
        return Measured(values, in_words(values))

    def intervals(self, examples: Sequence[Answered], found: Sequence[Found]) -> dict[str, Interval]:
        golds, answers = [example.labels for example in examples], [answer["labels"] for answer in found]
        intervals = label_set_intervals(golds, answers, self.labels.names, samples=SAMPLES)
        right = [len(self.labels) - len(set(gold) ^ set(answer)) for gold, answer in zip(golds, answers, strict=True)]
        intervals["accuracy"] = share_interval(right, [len(self.labels)] * len(right), samples=SAMPLES)
        return {name: interval.times(100) for name, interval in intervals.items()}

    def report(self, examples: Sequence[Answered], found: Sequence[Found]) -> tuple[str, ...]:
        golds, answers = [example.labels for example in examples], [answer["labels"] for answer in found]
        return (count_label_sets(golds, answers, self.labels.names).describe().partition("\n")[2],)


class Number(nn.Module):
    """The number itself, by its squared error; it is learnt with mean 0 and variance 1."""

    measures: tuple[str, ...] = ("pearson", "spearman")
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

    def prepare(self, targets: Tensor) -> None:
        self.mean.fill_(float(targets.mean()))
        self.scale.fill_(max(float(targets.std(correction=0)), 1e-8))

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

    def described(self, example: Answered, found: Found) -> dict[str, Any]:
        return {"target": example.label, "prediction": f"{found['number']:g}"}


ANSWERS: dict[str, type[OneLabel] | type[Number]] = {"one": OneLabel, "several": SeveralLabels, "number": Number}
