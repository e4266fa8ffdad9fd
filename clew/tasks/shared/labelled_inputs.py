"""Classification of inputs that are not text: what a picture shows, what a sound is. Works with any body that reads
one sequence, a grid or vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.baselines.baseline import Baseline, Train
from clew.baselines.label_baselines import frequent_baselines
from clew.core.config import Section, build_part
from clew.core.errors import named
from clew.core.reprs import brief
from clew.data.examples import LabelledInput
from clew.data.kinds.kind import Kind
from clew.data.plans import batches_by_length
from clew.sources.inputs import Decoded, Input, InputReader
from clew.sources.readers import AnyReader
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, TrainTokenizer
from clew.tasks.offers import Judged, ModelInput
from clew.tasks.shared.input_lengths import places_read
from clew.tasks.shared.input_reading import GIVEN, ReadsInput
from clew.tasks.shared.pooled import PooledClassifier, PooledConfig, label_table_of
from clew.tasks.use import Answered, Objects, Options, Use, line_each
from clew.tasks.uses.answers import Prediction
from clew.tasks.uses.explaining import Explained, check_no_place, chosen_label
from clew.text.labels import Labels

BATCH_PLACES = 65_536
"""Places of inputs per batch, padding included."""


class EncodedInput(NamedTuple):
    input: Input
    target: list[float]


class InputBatch(NamedTuple):
    inputs: Any
    mask: Tensor | None
    targets: Tensor  # (batch, labels), 1 for the labels of an input; (batch, 1) if they are numbers
    fresh: bool = True


@dataclass(frozen=True)
class JudgedInput:
    """The prediction for an input: its labels, most probable first, and the probability of every label; or a number."""

    input: str
    labels: tuple[str, ...]
    probabilities: Mapping[str, float]
    number: float | None = None

    def __repr__(self) -> str:
        if self.number is not None:
            return brief(self, self.input, number=self.number)
        probability = self.probabilities.get(self.labels[0]) if len(self.labels) == 1 else None
        return brief(self, self.input, label=repr("|".join(self.labels)), probability=probability)

    def __str__(self) -> str:
        return f"{self.number:g}" if self.number is not None else "|".join(self.labels)


def judged_input(name: str, prediction: Prediction, labels: Labels) -> JudgedInput:
    if "number" in prediction:
        return JudgedInput(name, (), {}, prediction["number"])
    pairs = sorted(zip(labels.names, prediction["probabilities"], strict=True), key=lambda pair: -pair[1])
    return JudgedInput(name, tuple(prediction["labels"]), dict(pairs))


class InputClassifier(ReadsInput, PooledClassifier):
    """logits = W g(.. g(pool(h_1 .. h_n))), where h_1 .. h_n are the body's vectors of the places of a picture or a
    sound."""

    def __init__(self, body: Any, reader: InputReader, labels: Labels, config: PooledConfig):
        super().__init__(body, labels, config)
        self.reader = reader
        self.decoded = Decoded()

    def features(self, batch: InputBatch) -> Tensor:
        # a body over a grid may merge places
        hidden_mask = getattr(self.body, "hidden_mask", lambda mask, inputs: mask)
        features: Tensor = self.pooling(self.body(batch.inputs, batch.mask)[0], hidden_mask(batch.mask, batch.inputs))
        return features

    def encode(self, examples: Sequence[Any]) -> list[EncodedInput]:
        return [EncodedInput(self.reader.measured(example.input), self.answer.target(example)) for example in examples]

    def collate(self, examples: Sequence[EncodedInput]) -> InputBatch:
        inputs, mask = self.reader.collate([each.input for each in examples], self.decoded)
        return InputBatch(inputs, mask, torch.tensor([each.target for each in examples], dtype=torch.float32))

    def without_target(self, example: Any) -> EncodedInput:
        return EncodedInput(self.reader.measured(example), [0.0] * len(self.labels))

    def judge_inputs(self, inputs: Sequence[Any]) -> list[JudgedInput]:
        """Return the prediction for each input, in the given order. An error names the input that cannot be read."""
        encoded = [self.without_target(input) for input in inputs]
        for input, encoded_input in zip(inputs, encoded, strict=True):
            self.check_length(encoded_input, str(input))
        lengths = torch.tensor([encoded_input.input.length for encoded_input in encoded]).reshape(-1, 1).numpy()
        predictions = self.predict_each(encoded, batches_by_length(lengths, BATCH_PLACES))
        return [
            judged_input(str(input), encoded_input, self.labels)
            for input, encoded_input in zip(inputs, predictions, strict=True)
        ]

    def described(self, example: Any, prediction: Prediction) -> dict[str, Any]:
        return {"source": example.key, **self.answer.described(example, prediction)}

    def without(self, capability: str) -> str | None:
        """Return why the task has no vectors of places, or None."""
        merges = capability == "reads" and len(getattr(self.body, "blocks", ()))
        return "merges places of a picture, so that single places have no vectors" if merges else None

    def judges(self, model_input: ModelInput) -> Judged:
        (answer,) = self.judge_inputs([model_input.text])
        return Judged(answer.labels, answer.probabilities, answer.number)

    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
        """Explain the logit of a class by the input's numbers; for regression, the predicted number."""
        check_no_place(place)
        encoded, batch = self.one_row(model_input)

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
            self.reader.layout(model_input.text, encoded.input.length),
            self.reader.canvas(model_input.text),
            GIVEN,
            unit="" if is_number else "nats",
        )


def judged_objects(number: int, row: Any, answer: JudgedInput | None, options: Options) -> Objects:
    if answer is None:
        return [{"line": number, "input": "", "label": None}]
    if answer.number is not None:
        return [{"line": number, "input": answer.input, "number": answer.number}]
    return [
        {
            "line": number,
            "input": answer.input,
            "label": str(answer),
            "labels": answer.labels,
            "probabilities": answer.probabilities,
        }
    ]


def as_line(each: Answered[Any, JudgedInput]) -> str:
    answer = each.answer
    if answer is None:
        return ""
    if answer.number is not None:
        return f"{answer.number:.4g}\t{answer.input}"
    probabilities = "|".join(f"{answer.probabilities[label]:.4f}" for label in answer.labels)
    return f"{answer}\t{probabilities}\t{answer.input}"


LINES = line_each(as_line)


def input_baselines(train: Train, config: PooledConfig) -> Iterator[Baseline]:
    """Return the most frequent label, if the task predicts labels."""
    return iter(()) if config.labels == "number" else frequent_baselines(train, exclusive=config.labels == "one")


def input_classification(
    config: type[PooledConfig],
    classifier: type[InputClassifier],
    kind: Kind,
    row: type[Section],
    readers: Mapping[str, type[InputReader]],
    *,
    file: str,
    about: str,
    pipeline: str,
    gives: tuple[str, ...] = (),
) -> TaskEntry:
    """Create the entry of a task that labels one kind of input. `row` has a path, such as `file`; `readers` are those
    of the config."""
    noun = f"reader of {classifier.text_name}s"

    def train_vocabularies(
        train: TrainTokenizer, joint: bool, examples: Sequence[LabelledInput], config: Any
    ) -> dict[str, Any]:
        reader = build_part(noun, config.input, readers).fitted(examples[0].input)
        return {"input": reader, "labels": label_table_of(examples, config.labels)}

    def build(body: Any, vocabularies: dict[str, Any], config: Any) -> InputClassifier:
        return classifier(body, vocabularies["input"], vocabularies["labels"], config)

    def judge_rows(
        tasks: Sequence[InputClassifier], rows: Sequence[Section], options: Options, numbers: Sequence[int]
    ) -> list[JudgedInput]:
        return tasks[0].judge_inputs([next(value for _, value in row) for row in rows])

    use: Use[Any, JudgedInput] = Use(
        about=about,
        row=row,
        options=Options,
        answer=judge_rows,
        objects=judged_objects,
        formats={"lines": LINES},
        places=places_read,
        try_it=lambda example: ([file], None),
    )
    return TaskEntry(
        config=config,
        build=build,
        vocabularies={"input": AnyReader, "labels": Labels},
        learning=Examples(kind, train_vocabularies),
        baselines=input_baselines,
        uses={"predict": use},
        pipeline=pipeline,
        gives=gives,
    )
