"""Classification or regression of a whole input: the body's vectors pooled to one vector, under a classifier. Knows
neither texts nor pictures; a member says what it reads."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from clew.core.batches import to_device
from clew.core.config import Part, TaskSection, build_part, one_of, part_name
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.core.types import State, Term
from clew.data.caching.stores import BLOCK
from clew.layers.pooling import POOLINGS
from clew.tasks.learnings.examples import ExampleTask
from clew.tasks.shared.judging import Judging
from clew.tasks.uses.answers import ANSWERS, ClassWeights, Prediction
from clew.text.labels import Labels


def as_label(label: Any) -> Any:
    """Return a label as a string if it is a number."""
    return str(label) if isinstance(label, int) and not isinstance(label, bool) else label


class PooledConfig(TaskSection):
    """One label, several labels, or a number."""

    labels: Literal["one", "several", "number"] = Field(
        "one",
        description=("one: labels exclude each other; several: any number of labels; number: a number (regression)"),
    )
    pooling: Annotated[Part, one_of("pooling", POOLINGS)] = Field(
        "max", description=f"how the body's vectors are pooled: {', '.join(POOLINGS)}"
    )
    num_hidden: int = Field(0, ge=0, le=10, description="hidden layers between the pooled vector and the output")
    hidden_dim: int | None = Field(None, ge=1, description="width of the hidden layers (default: the body's)")
    class_weights: ClassWeights = Field(
        "none",
        description=(
            "loss weights of labels: none (all examples weigh the same), balanced (all labels weigh the same), or a"
            " number per label"
        ),
    )
    positive: Annotated[str | None, BeforeValidator(as_label)] = Field(
        None, description="a label whose F1 is also measured, as f1"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout of the pooled vector and of hidden layers")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="the share of a target that is spread over all labels in training"
    )
    calibrate: bool = Field(
        True,
        description=(
            "calibrate probabilities by a temperature, fitted on the validation part after training, if it improves"
            " them there"
        ),
    )
    best: str = Field(
        "score",
        description=(
            "what selects the best checkpoint: score (accuracy, micro F1 or Pearson's r), loss, or another metric"
        ),
    )


class PooledClassifier(Judging, ExampleTask):
    """logits = W g(.. g(features)), where g are hidden layers; `answer` interprets the logits.

    A member defines `features(batch)`: its body's vectors pooled to one, `pooled` times as wide as a vector.
    """

    def __init__(self, body: Any, labels: Labels, config: Any, *, pooled: int = 1):
        super().__init__()
        self.config = config
        self.body = body
        self.labels = labels
        self.answer = ANSWERS[config.labels](
            labels,
            class_weights=config.class_weights,
            label_smoothing=config.label_smoothing,
            calibrate=config.calibrate,
            positive=config.positive,
        )
        choices = ["score", "loss", *self.answer.measures]
        if config.best not in choices:
            raise UserError(
                f"task.best={config.best} is not measured with task.labels={config.labels}; choose {', '.join(choices)}"
            )
        halves = {"halves": True} if part_name(config.pooling) == "last" and body.halves else {}
        self.pooling = build_part("pooling", config.pooling, POOLINGS, body.dim, **halves)
        widths = [body.dim * pooled, *[config.hidden_dim or body.dim] * config.num_hidden]
        self.hidden: Any = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(widths[-1], len(labels))

    def predict_each(self, encoded: Sequence[Any], batches: Iterable[Sequence[int]]) -> list[Prediction]:
        """Return the prediction for each example, in the given order; `batches` are rows to read together."""
        predictions: dict[int, Prediction] = {}
        with evaluating([self]):
            for rows in batches:
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                predictions |= dict(zip(rows, self.predict(batch), strict=True))
        return [predictions[row] for row in range(len(encoded))]

    def collate(self, examples: Sequence[Any]) -> Any:
        """Collate examples to a batch; defined by the member."""
        raise NotImplementedError

    def features(self, batch: Any) -> Tensor:
        """Return the pooled vectors (batch, pooled dim); defined by the member."""
        raise NotImplementedError

    def forward(self, batch: Any, state: State = None) -> tuple[dict[str, Term], State]:
        return {"loss": Term(self.answer.loss(self.logits(batch), batch.targets), self.counts(batch)["loss"])}, None

    def counts(self, batch: Any) -> dict[str, Tensor]:
        """Return the sum of the examples' weights."""
        return {"loss": self.answer.count(batch.targets)}

    def logits(self, batch: Any) -> Tensor:
        """Return logits (batch, labels)."""
        features = self.dropout(self.features(batch))
        for layer in self.hidden:
            features = self.dropout(torch.relu(layer(features)))
        scores = self.output(features)
        logits: Tensor = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return logits

    @property
    def best(self) -> str:
        """The metric that selects the best checkpoint."""
        name: str = self.answer.measures[0] if self.config.best == "score" else self.config.best
        return name

    def row_losses(self, batch: Any) -> list[list[float]]:
        losses: list[list[float]] = self.answer.row_losses(self.logits(batch), batch.targets)
        return losses

    def prepare(self, encoded: Sequence[Any]) -> None:
        blocks = (encoded[start : start + BLOCK] for start in range(0, len(encoded), BLOCK))
        self.answer.prepare(
            lambda: torch.cat([torch.tensor([example.target for example in block]) for block in blocks])
        )

    def settle(self, batches: Iterable[tuple[Sequence[Any], Any]]) -> bool:
        with evaluating([self]):
            logits_and_targets = [(self.logits(batch).cpu(), batch.targets.cpu()) for _, batch in batches]
        is_calibrated: bool = self.answer.settle(*(torch.cat(sides) for sides in zip(*logits_and_targets, strict=True)))
        self.settled = self.answer.settled
        return is_calibrated

    def label_table(self) -> Labels | None:
        return None if self.config.labels == "number" else self.labels

    def gold_labels(self, example: Any) -> Iterator[tuple[str, str]]:
        return ((label, example.id) for label in example.labels)

    def unseen_remedy(self, label: str) -> str:
        return f"; data.label_map={{{json.dumps(label, ensure_ascii=False)}: null}} leaves such examples out"

    @torch.no_grad()
    def predict(self, batch: Any, decoding: Any = None, seed: int = 0, row_numbers: Any = None) -> list[dict[str, Any]]:
        predictions: list[dict[str, Any]] = self.answer.predictions(self.logits(batch))
        return predictions


def label_table_of(examples: Sequence[Any], kind: str) -> Labels:
    """Return the labels of a training part, or the single one that stands for a number."""
    labels = (
        Labels(["number"]) if kind == "number" else Labels.of(label for example in examples for label in example.labels)
    )
    if kind == "one" and len(labels) == 1:
        raise UserError(
            f"every training example has the label '{labels.names[0]}', so there is nothing to tell apart; check"
            " data.label"
        )
    if kind == "one" and len(labels) > 2 * len(examples) // 3 and len(labels) > 20:
        raise UserError(
            f"{len(examples):,} training examples have {len(labels):,} different labels; if these are numbers, set"
            " task.labels=number, else name the column of the labels with data.label"
        )
    return labels
