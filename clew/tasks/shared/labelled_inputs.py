"""A label for an input that is no text: what a picture shows, what a sound is. Any body that reads one sequence, a grid
or vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.baselines.beside import Baseline, Train
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
from clew.tasks.offers import Given, Judged
from clew.tasks.shared.input_lengths import places_read
from clew.tasks.shared.input_reading import GIVEN, ReadsInput
from clew.tasks.shared.pooled import PooledClassifier, PooledConfig, label_table_of
from clew.tasks.use import Answered, Objects, Options, Use, line_each
from clew.tasks.uses.answers import Found
from clew.tasks.uses.explaining import Explained, check_no_place, chosen_label
from clew.text.labels import Labels

BATCH_PLACES = 65_536
"""Places of inputs that are judged at a time, padding counted."""


class EncodedInput(NamedTuple):
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

    def __repr__(self) -> str:
        if self.number is not None:
            return brief(self, self.input, number=self.number)
        chance = self.probabilities.get(self.labels[0]) if len(self.labels) == 1 else None
        return brief(self, self.input, label=repr("|".join(self.labels)), probability=chance)

    def __str__(self) -> str:
        return f"{self.number:g}" if self.number is not None else "|".join(self.labels)


def judged(given: str, found: Found, labels: Labels) -> JudgedInput:
    if "number" in found:
        return JudgedInput(given, (), {}, found["number"])
    pairs = sorted(zip(labels.names, found["probabilities"], strict=True), key=lambda pair: -pair[1])
    return JudgedInput(given, tuple(found["labels"]), dict(pairs))


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

    def encode(self, examples: Sequence[Any]) -> list[EncodedInput]:
        return [EncodedInput(self.reader.measured(example.input), self.answer.target(example)) for example in examples]

    def collate(self, examples: Sequence[EncodedInput]) -> InputBatch:
        inputs, mask = self.reader.collate([each.input for each in examples], self.decoded)
        return InputBatch(inputs, mask, torch.tensor([each.target for each in examples], dtype=torch.float32))

    def without_target(self, given: Any) -> EncodedInput:
        return EncodedInput(self.reader.measured(given), [0.0] * len(self.labels))

    def judge_inputs(self, inputs: Sequence[Any]) -> list[JudgedInput]:
        """What each input is, in the order given; one that cannot be read is refused by name."""
        encoded = [self.without_target(given) for given in inputs]
        for given, each in zip(inputs, encoded, strict=True):
            self.check_length(each, str(given))
        lengths = torch.tensor([each.input.length for each in encoded]).reshape(-1, 1).numpy()
        found = self.predict_each(encoded, batches_by_length(lengths, BATCH_PLACES))
        return [judged(str(given), each, self.labels) for given, each in zip(inputs, found, strict=True)]

    def described(self, example: Any, prediction: Found) -> dict[str, Any]:
        return {"source": example.key, **self.answer.described(example, prediction)}

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
    sure = "|".join(f"{answer.probabilities[label]:.4f}" for label in answer.labels)
    return f"{answer}\t{sure}\t{answer.input}"


LINES = line_each(as_line)


def input_baselines(train: Train, config: PooledConfig) -> Iterator[Baseline]:
    """The most frequent label, where labels are what is told."""
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
    """The entry of a task that labels one kind of input. `row` has a path, such as `file`; `readers` are those of the
    config."""
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
