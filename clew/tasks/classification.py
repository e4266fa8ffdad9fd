"""Classification: a label for a text or for two together, several labels, or a number. Any body, and what its vectors are pooled to."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from clew.baselines.beside import Baseline, Train
from clew.baselines.label_baselines import label_baselines, number_baselines, several_label_baselines
from clew.core.batches import to_device
from clew.core.config import Part, Section, TaskSection, build_part, one_of, part_name
from clew.core.errors import UserError, named
from clew.core.modes import evaluating
from clew.core.types import State, Term
from clew.data.contents import LabelTable
from clew.data.corpora import CORPORA
from clew.data.examples import Labelled
from clew.data.kinds.labelled import LABELLED
from clew.layers.context import Pieces
from clew.layers.pooling import POOLINGS
from clew.sources.words import EncodedWords, WordReader, check_words, one_word_each, places_of
from clew.tasks.answers import ANSWERS, ClassWeights, Found, Number
from clew.tasks.entry import TaskEntry
from clew.tasks.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.explaining import Explained, check_no_place, check_not_empty, chosen_label, named_places
from clew.tasks.judging import Judging, unlabelled_texts
from clew.tasks.offers import Given, Judged
from clew.tasks.programs import ReadingProgram, Traced
from clew.tasks.reading import ReadsText
from clew.tasks.use import Answered, Objects, Options, PairRow, TextRow, TwoTexts, Use, Watch, line_each, tokens_read
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer
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


def as_label(value: Any) -> Any:
    """A label that is a number is written as one."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class ClassificationConfig(TaskSection):
    """A label for each text, several, or a number."""

    name: Literal["classification"] = "classification"
    labels: Literal["one", "several", "number"] = Field(
        "one", description="one: labels exclude each other; several: any of them; number: what is told is a number (regression)"
    )
    pooling: Annotated[Part, one_of("pooling", POOLINGS)] = Field("max", description=f"what a text's vectors become: {', '.join(POOLINGS)}")
    num_hidden: int = Field(0, ge=0, le=10, description="hidden layers between the pooled vector and the output")
    hidden_dim: int | None = Field(None, ge=1, description="their width; the body's where not given")
    pair: Literal["joined", "apart"] = Field(
        "joined", description="two texts are read as one with a mark between, or each by itself and joined as [u; v; |u - v|; u v]"
    )
    split: bool = Field(True, description="of text.tokenizer=word: words and punctuation are parted first; false: spaces part words")
    class_weights: ClassWeights = Field(
        "none", description="what a label's examples weigh: all the same; balanced, so that labels weigh the same; or numbers by label"
    )
    positive: Annotated[str | None, BeforeValidator(as_label)] = Field(None, description="a label whose F1 is measured besides, as f1")
    dropout: float = Field(0.0, ge=0, lt=1, description="of the pooled vector and of hidden layers")
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="the share of a target that is spread over the labels, in training")
    calibrate: bool = Field(
        True,
        description="probabilities are mended by one temperature, found on the validation part at the end, if that makes them better there",
    )
    longest: int = Field(512, ge=1, description="training texts with more tokens than this are left out, and counted")
    truncate: bool = Field(
        False,
        description="texts with more tokens than that, or than the model has positions, are cut at their end; of two the longer first",
    )
    best: str = Field("score", description="the best evaluation: score is accuracy, micro F1 or Pearson's; or loss, or another measure")


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
    """What was told of a text, or of two together: its labels, likeliest first, and the probability of every label; or a number."""

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

    def __str__(self) -> str:
        return f"{self.number:g}" if self.number is not None else self.label


class Classifier(ReadsText, Judging, ExampleTask):
    """logits = W g(.. g(pool(h_1 .. h_n))), h being the body's vectors, g hidden layers; what they say is the `answer`'s."""

    def __init__(self, body: Any, reader: WordReader, labels: Labels, config: ClassificationConfig | None = None):
        super().__init__()
        self.config = config = config or ClassificationConfig()
        self.body = body
        self.reader = reader
        self.labels = labels
        self.answer = ANSWERS[config.labels](
            labels,
            class_weights=config.class_weights,
            label_smoothing=config.label_smoothing,
            calibrate=config.calibrate,
            positive=config.positive,
        )
        known = ["score", "loss", *self.answer.measures]
        if config.best not in known:
            raise UserError(f"task.best={config.best} is not measured where task.labels={config.labels}; take {', '.join(known)}")
        if config.truncate and reader.context is not None:
            raise UserError("task.truncate cuts what one body reads, and embedding.from has another read it too; leave one of them out")
        halves = {"halves": True} if part_name(config.pooling) == "last" and body.halves else {}
        self.pooling = build_part("pooling", config.pooling, POOLINGS, body.dim, **halves)
        width = body.dim * (4 if config.pair == "apart" else 1)
        widths = [width, *[config.hidden_dim or body.dim] * config.num_hidden]
        self.hidden: Any = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(widths[-1], len(labels))

    def forward(self, batch: ClassBatch, state: State = None) -> tuple[dict[str, Term], State]:
        return {"loss": Term(self.answer.loss(self.logits(batch), batch.targets), self.counts(batch)["loss"])}, None

    def counts(self, batch: ClassBatch) -> dict[str, Tensor]:
        """What the examples weigh together."""
        return {"loss": self.answer.count(batch.targets)}

    def logits(self, batch: ClassBatch) -> Tensor:
        """(batch, labels)."""
        found = [self.pooling(self.body(text.inputs, text.mask)[0], text.mask) for text in batch.texts]
        features = found[0]
        if len(found) == 2:
            u, v = found
            features = torch.cat([u, v, (u - v).abs(), u * v], -1)
        features = self.dropout(features)
        for layer in self.hidden:
            features = self.dropout(torch.relu(layer(features)))
        given: Tensor = self.output(features).float()
        return given

    def row_losses(self, batch: ClassBatch) -> list[list[float]]:
        found: list[list[float]] = self.answer.row_losses(self.logits(batch), batch.targets)
        return found

    def prepare(self, encoded: Sequence[LabelledWords]) -> None:
        self.answer.prepare(torch.tensor([example.target for example in encoded]))

    def settle(self, batches: Iterable[tuple[Sequence[Labelled], ClassBatch]]) -> bool:
        with evaluating([self]):
            found = [(self.logits(batch).cpu(), batch.targets.cpu()) for _, batch in batches]
        given: bool = self.answer.settle(*(torch.cat(sides) for sides in zip(*found, strict=True)))
        self.settled = self.answer.settled
        return given

    def label_table(self) -> Labels | None:
        return None if self.config.labels == "number" else self.labels

    def gold_labels(self, example: Labelled) -> Iterator[tuple[str, str]]:
        return ((label, example.id) for label in example.labels)

    def unseen_remedy(self, label: str) -> str:
        return f"; data.label_map={{{json.dumps(label, ensure_ascii=False)}: null}} leaves such examples out"

    def encode(self, examples: Sequence[Labelled]) -> list[LabelledWords]:
        texts = self.encode_texts(examples)
        return [LabelledWords(sides, self.answer.target(example)) for sides, example in zip(texts, examples, strict=True)]

    def encode_texts(self, examples: Sequence[Labelled]) -> list[tuple[EncodedWords, ...]]:
        """Each example's text, and the second with it or beside it."""
        lacking = next((example for example in examples if example.second is None), None)
        is_joined = lacking is None and self.config.pair == "joined"
        framed = not (is_joined or self.config.truncate)
        firsts = self.encode_side([example.text for example in examples], framed=framed)
        if lacking is not None:
            if self.config.pair == "apart":
                raise UserError(f"{lacking.id}: task.pair=apart is for two texts that are judged together; name the second by data.second")
            if any(example.second is not None for example in examples):
                raise UserError(f"{lacking.id}: the second text is missing; every example has one, or none has")
            return [(self.alone(first),) for first in firsts]
        pairs = zip(firsts, self.encode_side([example.second or "" for example in examples], framed=framed), strict=True)
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
            tuple(self.reader.collate(side) for side in sides), torch.tensor([example.target for example in examples], dtype=torch.float32)
        )

    @torch.no_grad()
    def predict(self, batch: ClassBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.answer.told(self.logits(batch))
        return found

    def classify(self, texts: Sequence[str | tuple[str, ...]], numbers: Sequence[int] | None = None) -> list[Classified]:
        """What each text is, or each two texts together. One that is refused is named by its number."""
        examples = unlabelled_texts(texts, numbers)
        nothing = [0.0] * len(self.labels)
        encoded = [LabelledWords(sides, nothing) for sides in self.encode_texts(examples)] if examples else []
        for example, each in zip(examples, encoded, strict=True):
            self.check_length(each, example.id)
        order = sorted(range(len(encoded)), key=lambda row: self.lengths(encoded[row]))
        found: dict[int, Found] = {}
        with evaluating([self]):
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                found |= dict(zip(rows, self.predict(batch), strict=True))
        return [self.told(example, found[row]) for row, example in enumerate(examples)]

    def told(self, example: Labelled, found: Found) -> Classified:
        if "number" in found:
            return Classified(example.text, (), {}, found["number"], example.second)
        pairs = sorted(zip(self.labels.names, found["probabilities"], strict=True), key=lambda pair: -pair[1])
        return Classified(example.text, tuple(found["labels"]), dict(pairs), None, example.second)

    @property
    def best(self) -> str:
        """The name of what the best evaluation is told by."""
        return self.answer.measures[0] if self.config.best == "score" else self.config.best

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
        return Explained(self, pieces.inputs, lambda inputs: logits(inputs)[:, label], tokens, own, what, self.reader.tokenizer, unit=unit)

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
    texts = [text for example in examples for text in (example.text, example.second) if text is not None]
    labels = Labels(["number"]) if config.labels == "number" else Labels.of(label for example in examples for label in example.labels)
    if config.labels == "one" and len(labels) == 1:
        raise UserError(f"every training example has the label '{labels.names[0]}', so there is nothing to tell apart; see data.label")
    if config.labels == "one" and len(labels) > 2 * len(examples) // 3 and len(labels) > 20:
        raise UserError(
            f"{len(examples):,} training examples have {len(labels):,} different labels; if these are numbers set task.labels=number, "
            "and else name the column of the labels with data.label"
        )
    return {"tokenizer": train([one_word_each(cut(text, config)) for text in texts] if config.split else texts, []), "labels": labels}


def class_baselines(train: Train, config: ClassificationConfig) -> Iterator[Baseline]:
    """Those of one label, of several, or of a number."""
    fit = {"one": label_baselines, "several": several_label_baselines, "number": number_baselines}
    return fit[config.labels](train)


def build_classifier(body: Any, vocabularies: dict[str, Any], config: ClassificationConfig) -> Classifier:
    return Classifier(body, WordReader.of(body, vocabularies), vocabularies["labels"], config)


CLASSES = {"tokenizer": Tokenizer, "labels": Labels}


def classify_rows(tasks: Sequence[Classifier], rows: Sequence[Any], options: Options, numbers: Sequence[int]) -> list[Classified]:
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
    return [{**fields, "label": answer.label, "labels": answer.labels, "probabilities": answer.probabilities, **answer.more()}]


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
    help="""Every TEXT, or else every line of standard input or of --file, has a line of standard output, in the same order and as soon
as it is there: `label<TAB>probability<TAB>text`; an empty line, or an empty cell of a table, has an empty one. Where a run
was trained on two texts together, --second is the other one of TEXT, and a line has both, with a tab between; where it was
trained on trees, a line has a bracketed tree, or FILE is CoNLL-U.

  clew classify runs/sentiment-lstm 'A film that never finds its feet.'
  echo 'A film that never finds its feet.' | clew classify runs/sentiment-lstm
  clew classify runs/classify 'It rains.' --second 'It is wet.'
  clew classify runs/sentiment-lstm --file reviews.txt > labels.tsv
  clew classify runs/classify --file tickets.csv --text body
  clew classify runs/classify --file pairs.jsonl --text premise --second hypothesis
  clew classify runs/sentiment-lstm --file reviews.txt --json
  echo '(SQ (VBZ Is) (NP (PRP it)) (ADJP (JJ big)) (. ?))' | clew classify runs/gum-tree-lstm

With --text the file is a table: CSV, TSV or JSON lines, a text in the column of that name or number. A file that ends in
.csv, .tsv or .jsonl is one in any case, and the columns are those that the run was trained with. Of several labels, and
their probabilities, each stands behind a `|`. Of numbers there is `number<TAB>text`. --json has one object a text, with
the probability of every label.

A language model that was never trained to classify takes the likeliest of --choices, where --template has room for one. A
choice may stand for a label: 1=good,0=bad. With {second} in the template a line has two texts, with a tab between.

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
