"""Classification: a label for a text or for two together, several labels, or a number. Any body, and what its vectors
are pooled to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from clew.baselines.beside import Baseline, Train
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
from clew.tasks.offers import Given, Judged
from clew.tasks.shared.judging import unlabelled_texts
from clew.tasks.shared.pooled import PooledClassifier, PooledConfig, label_table_of
from clew.tasks.shared.reading import ReadsText
from clew.tasks.use import Answered, Objects, Options, PairRow, TextRow, TwoTexts, Use, Watch, line_each, tokens_read
from clew.tasks.uses.answers import Found, Number
from clew.tasks.uses.explaining import Explained, check_no_place, check_not_empty, chosen_label, named_places
from clew.tasks.uses.programs import ReadingProgram, Traced
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer
from clew.text.train import Texts
from clew.text.words import words_of

BATCH = 128
"""Texts that are classified at a time."""
CLASSES_TOLD = """\
found = run("classifier", tensors)
print(dict(zip(about["labels"], found["probabilities"][0])))
"""
NUMBER_TOLD = """\
print(run("classifier", tensors)["number"])
"""
"""How a card shows the program."""


class ClassificationConfig(PooledConfig):
    """A label for each text, several, or a number."""

    name: Literal["classification"] = "classification"
    pair: Literal["joined", "apart"] = Field(
        "joined",
        description=(
            "two texts are read as one with a mark between, or each by itself and joined as [u; v; |u - v|; u v]"
        ),
    )
    split: bool = Field(
        True, description="of text.tokenizer=word: words and punctuation are parted first; false: spaces part words"
    )
    longest: int = Field(512, ge=1, description="training texts with more tokens than this are left out, and counted")
    truncate: bool = Field(
        False,
        description=(
            "texts with more tokens than that, or than the model has positions, are cut at their end; of two the longer"
            " first"
        ),
    )


class LabelledWords(NamedTuple):
    """A text as ids, and a second where they are read apart; what is to be told of it as numbers."""

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
    """What was told of a text, or of two together: its labels, likeliest first, and the probability of every label; or
    a number."""

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
        """What else JSON tells of it."""
        return {}

    def __repr__(self) -> str:
        if self.number is not None:
            return brief(self, self.text, number=self.number)
        chance = self.probabilities.get(self.label) if len(self.labels) == 1 else None
        return brief(self, self.text, label=repr(self.label), probability=chance)

    def __str__(self) -> str:
        return f"{self.number:g}" if self.number is not None else self.label


class Classifier(ReadsText, PooledClassifier):
    """logits = W g(.. g(pool(h_1 .. h_n))), h being the body's vectors, g hidden layers; what they say is the
    `answer`'s."""

    config: ClassificationConfig
    can_bucket = True

    def __init__(self, body: Any, reader: WordReader, labels: Labels, config: ClassificationConfig | None = None):
        config = config or ClassificationConfig()
        super().__init__(body, labels, config, pooled=4 if config.pair == "apart" else 1)
        self.reader = reader
        if config.truncate and reader.context is not None:
            raise UserError(
                "task.truncate cuts what one body reads, and embedding.from has another read it too; leave one of"
                " them out"
            )

    def features(self, batch: ClassBatch) -> Tensor:
        found: list[Tensor] = [self.pooling(self.body(text.inputs, text.mask)[0], text.mask) for text in batch.texts]
        if len(found) == 1:
            return found[0]
        u, v = found
        return torch.cat([u, v, (u - v).abs(), u * v], -1)

    def encode(self, examples: Sequence[Labelled]) -> list[LabelledWords]:
        texts = self.encode_texts(examples)
        return [
            LabelledWords(sides, self.answer.target(example)) for sides, example in zip(texts, examples, strict=True)
        ]

    def encode_texts(self, examples: Sequence[Labelled]) -> list[tuple[EncodedWords, ...]]:
        """Each example's text, and the second with it or beside it."""
        lacking = next((example for example in examples if example.second is None), None)
        is_joined = lacking is None and self.config.pair == "joined"
        framed = not (is_joined or self.config.truncate)
        firsts = self.encode_side([example.text for example in examples], framed=framed)
        if lacking is not None:
            if self.config.pair == "apart":
                raise UserError(
                    f"{lacking.id}: task.pair=apart is for two texts that are judged together; name the second by"
                    " data.second"
                )
            if any(example.second is not None for example in examples):
                raise UserError(f"{lacking.id}: the second text is missing; every example has one, or none has")
            return [(self.alone(first),) for first in firsts]
        pairs = zip(
            firsts, self.encode_side([example.second or "" for example in examples], framed=framed), strict=True
        )
        if is_joined:
            return [(self.reader.joined(*self.shortened(*pair)),) for pair in pairs]
        return [(self.alone(first), self.alone(second)) for first, second in pairs]

    def alone(self, text: EncodedWords) -> EncodedWords:
        """A text that is read by itself."""
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
        """What each text is, or each two texts together. One that is refused is named by its number."""
        examples = unlabelled_texts(texts, numbers)
        nothing = [0.0] * len(self.labels)
        encoded = [LabelledWords(sides, nothing) for sides in self.encode_texts(examples)] if examples else []
        for example, each in zip(examples, encoded, strict=True):
            self.check_length(each, example.id)
        found = self.predict_each(encoded, shortest_first([self.lengths(each) for each in encoded], BATCH))
        return [self.told(*each) for each in zip(examples, found, strict=True)]

    def told(self, example: Labelled, found: Found) -> Classified:
        if "number" in found:
            return Classified(example.text, (), {}, found["number"], example.second)
        pairs = sorted(zip(self.labels.names, found["probabilities"], strict=True), key=lambda pair: -pair[1])
        return Classified(example.text, tuple(found["labels"]), dict(pairs), None, example.second)

    def without(self, capability: str) -> str | None:
        """Why it cannot be asked for something that classifiers else have."""
        if capability == "explains" and self.config.pair == "apart":
            return "reads two texts each by itself; attribution is for what is read as one"
        return None

    def judges(self, given: Given) -> Judged:
        (found,) = self.classify([given.text if given.second is None else (given.text, given.second)])
        return Judged(found.labels, found.probabilities, found.number)

    def explains(self, given: Given, of: str | None = None, place: int | None = None) -> Explained:
        """A class's logit; the number itself where that is what is told."""
        check_no_place(place)
        for text in (given.text, *([] if given.second is None else [given.second])):
            check_not_empty(text)
        (sides,) = self.encode_texts([Labelled(given.text, (), given.second)])
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
            return [ReadingProgram("classifier", ["number"], self.judged, texts=texts, usage=NUMBER_TOLD)]
        return [ReadingProgram("classifier", ["logits", "probabilities"], self.judged, texts=texts, usage=CLASSES_TOLD)]

    def judged(self, given: Traced) -> tuple[Tensor, ...]:
        """Logits and probabilities of the labels, or the number."""
        answer, logits = self.answer, self.logits(ClassBatch(given.texts, given.words))
        if isinstance(answer, Number):
            return (answer.mean + answer.scale * logits[:, 0],)
        return logits, answer.probabilities(logits / answer.temperature)


def cut(text: str, config: ClassificationConfig) -> list[str]:
    """A text's words; one that stands for nothing where there are none."""
    return (words_of(text) if config.split else text.split()) or ["_"]


def train_class_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Labelled], config: ClassificationConfig
) -> dict[str, Any]:
    """A tokenizer of all texts, and a table of labels."""
    texts = Texts(lambda: (text for example in examples for text in (example.text, example.second) if text is not None))
    return {
        "tokenizer": train(
            Texts(lambda: (one_word_each(cut(text, config)) for text in texts)) if config.split else texts, []
        ),
        "labels": label_table_of(examples, config.labels),
    }


def class_baselines(train: Train, config: ClassificationConfig) -> Iterator[Baseline]:
    """Those of one label, of several, or of a number."""
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
    """One text of a row, or two."""
    return tuple(text for _, text in row if text is not None)


def row_for(data: Any, options: Options) -> type[Any]:
    """Two texts together where the run was trained so, and else one."""
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


def confidence_of(answer: Classified) -> float | None:
    return fmean(answer.probabilities[label] for label in answer.labels) if answer.labels else None


CLASSIFY: Use[PairRow, Classified] = Use(
    about="give texts their labels, or numbers",
    row=PairRow,
    options=Options,
    answer=classify_rows,
    objects=classified_objects,
    formats={"lines": line_each(as_line)},
    row_for=row_for,
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.reader.tokenizer, texts_of(row), by_words=True),
        confidence=confidence_of,
        labels=lambda task, answer: answer.labels,
        row_of=lambda example: PairRow(text=example.text, second=example.second),
        own_labels=lambda task, example: [label for label in example.labels if label in task.labels.names],
        is_quick=True,
    ),
    help="""Every TEXT, or else every line of standard input or of --file, has a line of standard output, in the same
order and as soon as it is there: `label<TAB>probability<TAB>text`; an empty line, or an empty cell of a table, has an
empty one. Where a run was trained on two texts together, --second is the other one of TEXT, and a line has both, with
a tab between; where it was trained on trees, a line has a bracketed tree, or FILE is CoNLL-U.

  clew classify runs/sentiment-lstm 'A film that never finds its feet.'
  echo 'A film that never finds its feet.' | clew classify runs/sentiment-lstm
  clew classify runs/classify 'It rains.' --second 'It is wet.'
  clew classify runs/sentiment-lstm --file reviews.txt > labels.tsv
  clew classify runs/classify --file tickets.csv --text body
  clew classify runs/classify --file pairs.jsonl --text premise --second hypothesis
  clew classify runs/sentiment-lstm --file reviews.txt --json
  echo '(SQ (VBZ Is) (NP (PRP it)) (ADJP (JJ big)) (. ?))' | clew classify runs/gum-tree-lstm

With --text the file is a table: CSV, TSV or JSON lines, a text in the column of that name or number. A file that ends
in .csv, .tsv or .jsonl is one in any case, and the columns are those that the run was trained with. Of several
labels, and their probabilities, each stands behind a `|`. Of numbers there is `number<TAB>text`. --json has one
object a text, with the probability of every label.

A language model that was never trained to classify takes the likeliest of --choices, where --template has room for
one. A choice may stand for a label: 1=good,0=bad. With {second} in the template a line has two texts, with a tab
between.

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
