"""A label for an input that is no text: what a picture shows, what a sound is. Any body that reads one sequence, a grid or vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.baselines.beside import Baseline, Train
from clew.baselines.label_baselines import frequent_baselines
from clew.core.batches import to_device
from clew.core.errors import named
from clew.core.modes import evaluating
from clew.data.plans import batches_by_length
from clew.sources.inputs import Decoded, Input, InputReader
from clew.tasks.answers import Found
from clew.tasks.explaining import Explained, check_no_place, chosen_label
from clew.tasks.input_reading import GIVEN, ReadsInput
from clew.tasks.offers import Given, Judged
from clew.tasks.pooled import PooledClassifier, PooledConfig
from clew.tasks.use import Answered, Objects, Options, line_each
from clew.text.labels import Labels

BATCH_PLACES = 65_536
"""Places of inputs that are judged at a time, padding counted."""


class LabelledInput(NamedTuple):
    input: Input
    target: list[float]


class InputBatch(NamedTuple):
    inputs: Any
    mask: Tensor | None
    targets: Tensor  # (batch, labels), 1 where a label is the input's; (batch, 1) of numbers
    fresh: bool = True


@dataclass(frozen=True)
class JudgedInput:
    """What was told of an input: its labels, likeliest first, and the probability of every label; or a number."""

    input: str
    labels: tuple[str, ...]
    probabilities: Mapping[str, float]
    number: float | None = None

    def __str__(self) -> str:
        return f"{self.number:g}" if self.number is not None else "|".join(self.labels)


class InputClassifier(ReadsInput, PooledClassifier):
    """logits = W g(.. g(pool(h_1 .. h_n))), h being the body's vectors of a picture's or a sound's places."""

    def __init__(self, body: Any, reader: InputReader, labels: Labels, config: PooledConfig):
        super().__init__(body, labels, config)
        self.reader = reader
        self.decoded = Decoded()

    def features(self, batch: InputBatch) -> Tensor:
        hidden_mask = getattr(self.body, "hidden_mask", lambda mask, inputs: mask)  # a body over a grid may join places
        found: Tensor = self.pooling(self.body(batch.inputs, batch.mask)[0], hidden_mask(batch.mask, batch.inputs))
        return found

    def encode(self, examples: Sequence[Any]) -> list[LabelledInput]:
        return [LabelledInput(self.reader.measured(example.input), self.answer.target(example)) for example in examples]

    def collate(self, examples: Sequence[LabelledInput]) -> InputBatch:
        inputs, mask = self.reader.collate([each.input for each in examples], self.decoded)
        return InputBatch(inputs, mask, torch.tensor([each.target for each in examples], dtype=torch.float32))

    def without_target(self, given: Any) -> LabelledInput:
        return LabelledInput(self.reader.measured(given), [0.0] * len(self.labels))

    def judge_inputs(self, inputs: Sequence[Any]) -> list[JudgedInput]:
        """What each input is, in the order given; one that cannot be read is refused by name."""
        encoded = [self.without_target(given) for given in inputs]
        for given, each in zip(inputs, encoded, strict=True):
            self.check_length(each, str(given))
        lengths = torch.tensor([each.input.length for each in encoded]).reshape(-1, 1).numpy()
        found: dict[int, Found] = {}
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH_PLACES):
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                found |= dict(zip(rows, self.predict(batch), strict=True))
        return [self.told(str(given), found[row]) for row, given in enumerate(inputs)]

    def told(self, given: str, found: Found) -> JudgedInput:
        if "number" in found:
            return JudgedInput(given, (), {}, found["number"])
        pairs = sorted(zip(self.labels.names, found["probabilities"], strict=True), key=lambda pair: -pair[1])
        return JudgedInput(given, tuple(found["labels"]), dict(pairs))

    def described(self, example: Any, prediction: Found) -> dict[str, Any]:
        return {"source": str(example.input), **self.answer.described(example, prediction)}

    def without(self, capability: str) -> str | None:
        """Why it cannot be asked for the vectors of places."""
        joins = capability == "reads" and len(getattr(self.body, "blocks", ()))
        return "joins places of a picture, which have then no vectors of their own" if joins else None

    def judges(self, given: Given) -> Judged:
        (found,) = self.judge_inputs([given.text])
        return Judged(found.labels, found.probabilities, found.number)

    def explains(self, given: Given, of: str | None = None, place: int | None = None) -> Explained:
        """A class's logit by the numbers that are read; the number itself where that is what is told."""
        check_no_place(place)
        read, batch = self.one_row(given)

        def logits(inputs: Any) -> Tensor:
            return self.logits(batch._replace(inputs=inputs, mask=None))

        label = chosen_label(self.labels.names, logits, batch.inputs, of)
        is_number = self.config.labels == "number"
        what = "the number" if is_number else f"the logit of {named(self.labels.names[label])}"
        return Explained.of_input(
            self,
            batch.inputs,
            lambda inputs: logits(inputs)[:, label],
            what,
            self.reader.layout(given.text, read.input.length),
            self.reader.canvas(given.text),
            GIVEN,
            unit="" if is_number else "nats",
        )


def judged_objects(number: int, row: Any, answer: JudgedInput | None, options: Options) -> Objects:
    if answer is None:
        return [{"line": number, "input": "", "label": None}]
    if answer.number is not None:
        return [{"line": number, "input": answer.input, "number": answer.number}]
    return [{"line": number, "input": answer.input, "label": str(answer), "labels": answer.labels, "probabilities": answer.probabilities}]


def as_line(each: Answered[Any, JudgedInput]) -> str:
    answer = each.answer
    if answer is None:
        return ""
    if answer.number is not None:
        return f"{answer.number:.4g}\t{answer.input}"
    sure = "|".join(f"{answer.probabilities[label]:.4f}" for label in answer.labels)
    return f"{answer}\t{sure}\t{answer.input}"


LINES = line_each(as_line)


def input_baselines(train: Train, config: PooledConfig) -> Iterator[Baseline]:
    """The most frequent label, where labels are what is told."""
    return iter(()) if config.labels == "number" else frequent_baselines(train, exclusive=config.labels == "one")
