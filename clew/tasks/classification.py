"""Classification: a label for a text or for two together, several labels, or a number. Any body, whose vectors are
pooled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from clew.baselines.baseline import Baseline, Train
from clew.baselines.label_baselines import label_baselines, number_baselines, several_label_baselines
from clew.core.batches import to_device
from clew.core.config import Section
from clew.core.errors import UserError, named
from clew.core.reprs import brief
from clew.data.corpora import CORPORA
from clew.data.corpora.contents import LabelTable
from clew.data.examples import Labelled
from clew.data.kinds.labelled import LABELLED
from clew.data.plans import shortest_first
from clew.layers.context import Pieces
from clew.sources.words import EncodedWords, WordReader, check_words, one_word_each, places_of
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, TrainTokenizer
from clew.tasks.offers import Judged, ModelInput
from clew.tasks.shared.judging import unlabelled_texts
from clew.tasks.shared.pooled import PooledClassifier, PooledConfig, label_table_of
from clew.tasks.shared.reading import ReadsText
from clew.tasks.use import Answered, Objects, Options, PairRow, TextRow, TwoTexts, Use, Watch, line_each, tokens_read
from clew.tasks.uses.answers import Number, Prediction
from clew.tasks.uses.explaining import Explained, check_no_place, check_not_empty, chosen_label, named_places
from clew.tasks.uses.programs import ReadingProgram, Traced
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer
from clew.text.train import Texts
from clew.text.words import words_of

BATCH = 128
"""Texts classified at a time."""
CLASSES_USAGE = """\
outputs = run("classifier", tensors)
print(dict(zip(about["labels"], outputs["probabilities"][0])))
"""
NUMBER_USAGE = """\
print(run("classifier", tensors)["number"])
"""
"""The example code of a program in its card."""


class ClassificationConfig(PooledConfig):
    """A label for each text, several, or a number."""

    name: Literal["classification"] = "classification"
    pair: Literal["joined", "apart"] = Field(
        "joined",
        description=(
            "joined: two texts are read as one, with a separator; apart: each by itself, combined as"
            " [u; v; |u - v|; u v]"
        ),
    )
    split: bool = Field(
        True, description="with text.tokenizer=word: split words from punctuation first; false: split at spaces only"
    )
    longest: int = Field(512, ge=1, description="training texts with more tokens than this are left out, and counted")
    truncate: bool = Field(
        False,
        description=(
            "cut texts with more tokens than task.longest, or than the model has positions, at the end; of two texts"
            " the longer first"
        ),
    )


class LabelledWords(NamedTuple):
    """A text as ids, a second one if the two are read apart, and the target as numbers."""

    texts: tuple[EncodedWords, ...]
    target: list[float]


class ClassBatch(NamedTuple):
    texts: tuple[Pieces, ...]
    targets: Tensor  # (batch, labels), 1 where a label is the text's; (batch, 1) of numbers
    fresh: bool = True

    @property
    def num_tokens(self) -> int:
        return sum(text.num_tokens for text in self.texts)


@dataclass(frozen=True)
class Classified:
    """The prediction for a text, or for two together: its labels, most probable first, and the probability of every
    label; or a number."""

    text: str
    labels: tuple[str, ...]
    probabilities: Mapping[str, float]
    number: float | None = None
    second: str | None = None

    @property
    def label(self) -> str:
        """All labels in one string."""
        return "|".join(self.labels)

    def more(self) -> dict[str, Any]:
        """Return further JSON fields."""
        return {}

    def __repr__(self) -> str:
        if self.number is not None:
            return brief(self, self.text, number=self.number)
        chance = self.probabilities.get(self.label) if len(self.labels) == 1 else None
        return brief(self, self.text, label=repr(self.label), probability=chance)

    def __str__(self) -> str:
        return f"{self.number:g}" if self.number is not None else self.label


class Classifier(ReadsText, PooledClassifier):
    """logits = W g(.. g(pool(h_1 .. h_n))), with the body's vectors h and hidden layers g. `answer` says whether the
    logits are for one label, for several, or a number."""

    config: ClassificationConfig
    can_bucket = True

    def __init__(self, body: Any, reader: WordReader, labels: Labels, config: ClassificationConfig | None = None):
        config = config or ClassificationConfig()
        super().__init__(body, labels, config, pooled=4 if config.pair == "apart" else 1)
        self.reader = reader
        if config.truncate and reader.context is not None:
            raise UserError(
                "task.truncate cuts the input of one body, and embedding.from passes it to a second; leave one of them"
                " out"
            )

    def features(self, batch: ClassBatch) -> Tensor:
        vectors: list[Tensor] = [self.pooling(self.body(text.inputs, text.mask)[0], text.mask) for text in batch.texts]
        if len(vectors) == 1:
            return vectors[0]
        u, v = vectors
        return torch.cat([u, v, (u - v).abs(), u * v], -1)

    def encode(self, examples: Sequence[Labelled]) -> list[LabelledWords]:
        texts = self.encode_texts(examples)
        return [
            LabelledWords(sides, self.answer.target(example)) for sides, example in zip(texts, examples, strict=True)
        ]

    def encode_texts(self, examples: Sequence[Labelled]) -> list[tuple[EncodedWords, ...]]:
        """Encode each example's text: with two texts, joined into one or separately."""
        single = next((example for example in examples if example.second is None), None)
        is_joined = single is None and self.config.pair == "joined"
        framed = not (is_joined or self.config.truncate)
        firsts = self.encode_side([example.text for example in examples], framed=framed)
        if single is not None:
            if self.config.pair == "apart":
                raise UserError(
                    f"{single.id}: task.pair=apart is for two texts that are classified together; name the column of"
                    " the second with data.second"
                )
            if any(example.second is not None for example in examples):
                raise UserError(
                    f"{single.id}: the second text is missing; either every example needs one, or none may have one"
                )
            return [(self.alone(first),) for first in firsts]
        pairs = zip(
            firsts, self.encode_side([example.second or "" for example in examples], framed=framed), strict=True
        )
        if is_joined:
            return [(self.reader.joined(*self.shortened(*pair)),) for pair in pairs]
        return [(self.alone(first), self.alone(second)) for first, second in pairs]

    def alone(self, text: EncodedWords) -> EncodedWords:
        """Frame, and if needed shorten, a text that is read separately."""
        return self.reader.framed(*self.shortened(text)) if self.config.truncate else text

    def shortened(self, *texts: EncodedWords) -> tuple[EncodedWords, ...]:
        return self.reader.shortened(texts, self.longest) if self.config.truncate else texts

    def encode_side(self, texts: Sequence[str], *, framed: bool) -> list[EncodedWords]:
        if self.reader.tokenizer.unit == "word":
            return self.reader.encode([cut(text, self.config) for text in texts], framed=framed)
        return self.reader.encode_whole(texts, framed=framed)

    def lengths(self, encoded: LabelledWords) -> tuple[int, ...]:
        return tuple(map(places_of, encoded.texts))

    @property
    def longest(self) -> int:
        return min(self.config.longest, self.body.max_length or self.config.longest)

    def check_length(self, encoded: LabelledWords, place: str) -> None:
        for text in encoded.texts:
            check_words(text, self.body.max_length, place)

    def collate(self, examples: Sequence[LabelledWords]) -> ClassBatch:
        sides = zip(*(example.texts for example in examples), strict=True)
        return ClassBatch(
            tuple(self.reader.collate(side) for side in sides),
            torch.tensor([example.target for example in examples], dtype=torch.float32),
        )

    def classify(
        self, texts: Sequence[str | tuple[str, ...]], numbers: Sequence[int] | None = None
    ) -> list[Classified]:
        """Classify each text, or each pair of texts. Errors name a text by its number."""
        examples = unlabelled_texts(texts, numbers)
        blank = [0.0] * len(self.labels)
        encoded = [LabelledWords(sides, blank) for sides in self.encode_texts(examples)] if examples else []
        for example, each in zip(examples, encoded, strict=True):
            self.check_length(each, example.id)
        predictions = self.predict_each(encoded, shortest_first([self.lengths(each) for each in encoded], BATCH))
        return [self.classified(*each) for each in zip(examples, predictions, strict=True)]

    def classified(self, example: Labelled, prediction: Prediction) -> Classified:
        if "number" in prediction:
            return Classified(example.text, (), {}, prediction["number"], example.second)
        pairs = sorted(zip(self.labels.names, prediction["probabilities"], strict=True), key=lambda pair: -pair[1])
        return Classified(example.text, tuple(prediction["labels"]), dict(pairs), None, example.second)

    def without(self, capability: str) -> str | None:
        """Return why this classifier lacks a capability of other classifiers."""
        if capability == "explains" and self.config.pair == "apart":
            return "reads two texts each by itself; attribution needs texts that are read as one"
        return None

    def judges(self, model_input: ModelInput) -> Judged:
        (answer,) = self.classify(
            [model_input.text if model_input.second is None else (model_input.text, model_input.second)]
        )
        return Judged(answer.labels, answer.probabilities, answer.number)

    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
        """Explain the logit of a class, or the predicted number."""
        check_no_place(place)
        for text in (model_input.text, *([] if model_input.second is None else [model_input.second])):
            check_not_empty(text)
        (sides,) = self.encode_texts([Labelled(model_input.text, (), model_input.second)])
        self.check_length(LabelledWords(sides, []), "the text")
        batch = self.collate([LabelledWords(sides, [0.0] * len(self.labels))])
        pieces = to_device(batch.texts[0], self.output.weight.device)

        def logits(inputs: Any) -> Tensor:
            return self.logits(batch._replace(texts=(Pieces(inputs, None, pieces.starts, pieces.ends),)))

        label = chosen_label(self.labels.names, logits, pieces.inputs, of)
        what = "the number" if self.config.labels == "number" else f"the logit of {named(self.labels.names[label])}"
        tokens, own = named_places(self.reader.tokenizer, sides[0].tokens)
        unit = "" if self.config.labels == "number" else "nats"
        return Explained(
            self,
            pieces.inputs,
            lambda inputs: logits(inputs)[:, label],
            tokens,
            own,
            what,
            self.reader.tokenizer,
            unit=unit,
        )

    def programs(self) -> list[ReadingProgram]:
        texts = 2 if self.config.pair == "apart" else 1
        if isinstance(self.answer, Number):
            return [ReadingProgram("classifier", ["number"], self.judged, texts=texts, usage=NUMBER_USAGE)]
        return [
            ReadingProgram("classifier", ["logits", "probabilities"], self.judged, texts=texts, usage=CLASSES_USAGE)
        ]

    def judged(self, inputs: Traced) -> tuple[Tensor, ...]:
        """Return the logits and probabilities of the labels, or the number."""
        answer, logits = self.answer, self.logits(ClassBatch(inputs.texts, inputs.words))
        if isinstance(answer, Number):
            return (answer.mean + answer.scale * logits[:, 0],)
        return logits, answer.probabilities(logits / answer.temperature)


def cut(text: str, config: ClassificationConfig) -> list[str]:
    """Return a text's words; a placeholder if it has none."""
    return (words_of(text) if config.split else text.split()) or ["_"]


def train_class_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Labelled], config: ClassificationConfig
) -> dict[str, Any]:
    """Train a tokenizer on all texts, and build the table of labels."""
    texts = Texts(lambda: (text for example in examples for text in (example.text, example.second) if text is not None))
    return {
        "tokenizer": train(
            Texts(lambda: (one_word_each(cut(text, config)) for text in texts)) if config.split else texts, []
        ),
        "labels": label_table_of(examples, config.labels),
    }


def class_baselines(train: Train, config: ClassificationConfig) -> Iterator[Baseline]:
    """Fit the baselines for one label, several labels, or a number."""
    fit = {"one": label_baselines, "several": several_label_baselines, "number": number_baselines}
    return fit[config.labels](train)


def build_classifier(body: Any, vocabularies: dict[str, Any], config: ClassificationConfig) -> Classifier:
    return Classifier(body, WordReader.of(body, vocabularies), vocabularies["labels"], config)


CLASSES = {"tokenizer": Tokenizer, "labels": Labels}


def classify_rows(
    tasks: Sequence[Classifier], rows: Sequence[Any], options: Options, numbers: Sequence[int]
) -> list[Classified]:
    return tasks[0].classify([texts[0] if len(texts) == 1 else texts for texts in map(texts_of, rows)], numbers)


def texts_of(row: Section) -> tuple[str, ...]:
    """Return the one or two texts of a row."""
    return tuple(text for _, text in row if text is not None)


def row_for(data: Any, options: Options) -> type[Any]:
    """Return the row type: two texts if the run was trained on two together, else one."""
    content = CORPORA[data.corpus].content if data.corpus in CORPORA else None
    is_pair = data.second is not None or (isinstance(content, LabelTable) and content.second is not None)
    return TwoTexts if is_pair else TextRow


def classified_objects(number: int, row: Section, answer: Classified | None, options: Options) -> Objects:
    if answer is None:
        return [{"line": number, "text": "", "label": None}]
    second = {} if answer.second is None else {"second": answer.second}
    fields: dict[str, Any] = {"line": number, "text": answer.text, **second}
    if answer.number is not None:
        return [{**fields, "number": answer.number}]
    return [
        {
            **fields,
            "label": answer.label,
            "labels": answer.labels,
            "probabilities": answer.probabilities,
            **answer.more(),
        }
    ]


def as_line(each: Answered[Any, Classified]) -> str:
    answer = each.answer
    if answer is None:
        return ""
    text = "\t".join(" ".join(side.split()) for side in (answer.text, answer.second) if side is not None)
    if answer.number is not None:
        return f"{answer.number:.4g}\t{text}"
    sure = "|".join(f"{answer.probabilities[label]:.4f}" for label in answer.labels)
    return f"{answer.label}\t{sure}\t{text}"


def class_confidence(answer: Classified) -> float | None:
    return fmean(answer.probabilities[label] for label in answer.labels) if answer.labels else None


CLASSIFY: Use[PairRow, Classified] = Use(
    about="classify texts, or score them with numbers",
    row=PairRow,
    options=Options,
    answer=classify_rows,
    objects=classified_objects,
    formats={"lines": line_each(as_line)},
    row_for=row_for,
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.reader.tokenizer, texts_of(row), by_words=True),
        confidence=class_confidence,
        labels=lambda task, answer: answer.labels,
        row_of=lambda example: PairRow(text=example.text, second=example.second),
        own_labels=lambda task, example: [label for label in example.labels if label in task.labels.names],
        is_quick=True,
    ),
    help="""Each TEXT, or else each line of standard input or of --file, gives one line of standard output, in the same
order and as soon as it is ready: `label<TAB>probability<TAB>text`. An empty line, or an empty cell of a table, gives
an empty line. If the run was trained on two texts together, pass the second with --second, or separate the two on a
line with a tab. If it was trained on trees, a line is a bracketed tree, or FILE is CoNLL-U.

  clew classify runs/sentiment-lstm 'A film that never finds its feet.'
  echo 'A film that never finds its feet.' | clew classify runs/sentiment-lstm
  clew classify runs/classify 'It rains.' --second 'It is wet.'
  clew classify runs/sentiment-lstm --file reviews.txt > labels.tsv
  clew classify runs/classify --file tickets.csv --text body
  clew classify runs/classify --file pairs.jsonl --text premise --second hypothesis
  clew classify runs/sentiment-lstm --file reviews.txt --json
  echo '(SQ (VBZ Is) (NP (PRP it)) (ADJP (JJ big)) (. ?))' | clew classify runs/gum-tree-lstm

With --text the file is a table (CSV, TSV or JSON lines) and --text is the name or number of the text's column. A file
that ends in .csv, .tsv or .jsonl is always a table; its columns are by default those that the run was trained with.
Several labels, and their probabilities, are separated by `|`. A run that predicts numbers prints `number<TAB>text`.
--json prints one object per text, with the probability of every label.

A language model that was not trained to classify picks the most probable of --choices, filled into --template. A
choice may stand for a label: 1=good,0=bad. If the template has {second}, a line has two texts, separated by a tab.

  clew classify runs/gpt2 --choices good,bad --template 'Review: {text} It was {choice}.' --file reviews.txt
  clew classify runs/text-gpt --choices 1=good,0=bad --calibrate --normalise tokens --file reviews.csv --text review""",
)


CLASSIFICATION = TaskEntry(
    config=ClassificationConfig,
    build=build_classifier,
    vocabularies=CLASSES,
    learning=Examples(LABELLED, train_class_vocabularies),
    baselines=class_baselines,
    uses={"classify": CLASSIFY},
    pipeline="text-classification",
)
