"""Paragraphs: several sentences on one picture, planned one by one (Krause et al. 2017). Any body that reads one sequence, over a picture's
grid or over given boxes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.core.batches import padded, to_device
from clew.core.config import Part, Section, TaskSection, build_part, one_of
from clew.core.errors import UserError, unknown
from clew.core.modes import evaluating
from clew.core.types import Memory, State, Term
from clew.data.examples import Described, Picture, Regions
from clew.data.file_bytes import File, FileBytes
from clew.data.kinds.described import DESCRIBED, DescribedData
from clew.data.paragraph_readers import read_described, with_boxes
from clew.data.picture_files import as_picture
from clew.data.pictures import find_picture
from clew.data.plans import batches_by_length
from clew.data.scene_texts import is_true, objects_mentioned
from clew.data.scenes import Scene
from clew.data.values import Faulty
from clew.layers.cells import LSTM
from clew.layers.losses import CrossEntropy
from clew.layers.paragraphs import PlannerState, SentencePlanner, SentenceWriter
from clew.layers.recurrent import Recurrent
from clew.layers.scores import SCORES
from clew.metrics.captioning import CAPTION_MEASURES, corpus_values, measure_captions, paragraph_statistics
from clew.metrics.measures import Measured, in_words
from clew.metrics.statistics import Statistics
from clew.sources.inputs import Decoded, Input, InputReader
from clew.sources.readers import PICTURES, AnyReader
from clew.tasks.captioning import VALUES, Captioner
from clew.tasks.entry import TaskEntry
from clew.tasks.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.input_lengths import TakesPlaces, places_read
from clew.tasks.sequence import end_of, without
from clew.tasks.use import Blocks, Objects, Use, WritingOptions
from clew.tasks.writing import DecodingConfig, Hypothesis, filtered_as, write
from clew.text.tokenizer import Tokenizer

BATCH_PLACES = 16_384
"""Places of pictures that are written on at a time, padding counted."""
OF_SCENES = ("all_once", "coverage", "mentioned_once", "true")
"""What is told of scenes, whose truth is known, the highest being best."""
GREEDY = DecodingConfig(method="greedy")


class ParagraphsConfig(TaskSection):
    """Several sentences on a picture."""

    name: Literal["paragraphs"] = "paragraphs"
    input: Annotated[Part, one_of("reader of pictures", PICTURES)] = Field(
        "convolved", description="how a picture is read; regions reads the boxes that are given with it"
    )
    dim: int = Field(128, ge=1, description="width of both recurrent states, that of sentences and that of words")
    embedding_dim: int = Field(128, ge=1, description="width of the words' embedding")
    score: Annotated[Part, one_of("score", SCORES)] = "additive"
    phrases: bool = Field(False, description="the words attend to the phrases of the picture's boxes too, which the data give")
    dropout: float = Field(0.0, ge=0, lt=1, description="of what the output layer reads; besides the body's own")
    stop_weight: float = Field(1.0, ge=0, description="how much it counts, beside the words, to stop where the paragraph does")
    most_sentences: int = Field(10, ge=1, le=1000, description="a paragraph that is written has at most so many sentences")
    longest: int = Field(10_000, ge=1, description="pictures of more places, or sentences of more tokens, are left out, and counted")
    measures: list[str] = Field(
        ["bleu", "repeated_trigrams"],
        description=f"paragraphs are held against their references by {', '.join(CAPTION_MEASURES)}; those of drawn scenes by what they "
        "speak of too",
    )
    best: str = Field("loss", description="the best evaluation is that of the lowest loss, or of the highest value of this measure")

    @property
    def values(self) -> list[str]:
        """The names of what is measured and best when highest."""
        found = [name for measure in self.measures for name in VALUES.get(measure, [measure]) if measure != "repeated_trigrams"]
        return [*found, *OF_SCENES]


class EncodedParagraph(NamedTuple):
    """A picture, the ids of each sentence without its end, and those of each region's phrase."""

    input: Input
    sentences: list[list[int]]
    phrases: Sequence[list[int]] = ()


class ParagraphBatch(NamedTuple):
    inputs: Any
    mask: Tensor | None  # (batch, places)
    tokens: Tensor  # (batch, sentences, words), the targets one step late
    targets: Tensor  # (batch, sentences, words)
    real: Tensor  # (batch, sentences, words)
    phrases: Tensor | None = None  # (batch, phrase words) of all regions, one behind the other
    regions: Tensor | None = None  # (batch, phrase words) the region that each is of
    phrase_mask: Tensor | None = None  # (batch, phrase words)
    fresh: bool = True


class Seen(NamedTuple):
    """A picture as it is written on."""

    regions: Memory
    phrases: Memory | None


@dataclass(frozen=True)
class WrittenParagraph:
    """The sentences on a picture; `log_prob` is of all their tokens and ends, and of stopping where they do."""

    picture: str
    sentences: list[str]
    log_prob: float

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    def __str__(self) -> str:
        return self.text


class ParagraphWriter(TakesPlaces, ExampleTask):
    """P(paragraph | picture) = product over sentences j of (1 - p(stop_j)) P(words of j | topic_j), times p(stop) behind the last.

    The body's vectors of the picture's places are what both levels attend to (`clew.layers.paragraphs`). A sentence that was written is
    read by a recurrence of its own, so that in training all sentences are read, planned and written at once.
    """

    config: ParagraphsConfig
    writes = True

    def __init__(self, body: Any, reader: InputReader, target: Tokenizer, config: ParagraphsConfig):
        super().__init__()
        if config.best not in ("loss", *config.values):
            raise unknown("value for task.best", config.best, ["loss", *config.values])
        self.body = body
        self.reader = reader
        self.target = target
        self.config = config
        self.end = end_of(target)
        dim, word_dim = config.dim, config.embedding_dim
        self.embedding = nn.Embedding(target.vocabulary, word_dim)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.sentence_reader = Recurrent(LSTM(word_dim, dim))
        self.planner = SentencePlanner(dim, body.dim, dim, self.score)
        self.writer = SentenceWriter(word_dim, body.dim, dim, phrase_dim=word_dim if config.phrases else None, score=self.score)
        self.phrase_region = nn.Linear(body.dim, word_dim) if config.phrases else None
        self.output = nn.Linear(dim, target.vocabulary)
        self.dropout = nn.Dropout(config.dropout)
        self.cross_entropy = CrossEntropy()
        self.decoded = Decoded()

    def score(self, query_dim: int, key_dim: int) -> Any:
        return build_part("score", self.config.score, SCORES, query_dim, key_dim)

    @property
    def best(self) -> str:
        return self.config.best

    def looked_up(self) -> list[Tensor]:
        return [*super().looked_up(), self.embedding.weight]

    def forward(self, batch: ParagraphBatch, state: State = None) -> tuple[dict[str, Term], State]:
        hidden, stops = self.decode(batch)
        counts = self.counts(batch)
        words = self.cross_entropy(self.dropout(hidden), self.output.weight, self.output.bias, batch.targets, batch.real).loss
        return {
            "loss": Term(words, counts["loss"]),
            "stop": Term(self.stop_losses(batch, stops).sum(), counts["stop"], self.config.stop_weight),
        }, None

    def counts(self, batch: ParagraphBatch) -> dict[str, Tensor]:
        """Tokens; and sentences with the one that is not there, behind the last."""
        return {"loss": batch.real.sum(), "stop": batch.real[..., 0].sum() + len(batch.tokens)}

    def stop_losses(self, batch: ParagraphBatch, stops: Tensor) -> Tensor:
        """-log p(stop or go on) of each sentence and of the one behind the last (batch, sentences + 1), 0 on padding."""
        number = torch.arange(stops.shape[1], device=stops.device)
        ends = batch.real[..., 0].sum(1)[:, None]  # (batch, 1)
        losses = F.binary_cross_entropy_with_logits(stops, (number == ends).to(stops), reduction="none")
        return losses.masked_fill(number > ends, 0.0)

    def decode(self, batch: ParagraphBatch) -> tuple[Tensor, Tensor]:
        """A vector for each word (batch, sentences, words, dim), and the logits of stopping (batch, sentences + 1)."""
        rows, sentences = batch.tokens.shape[:2]
        seen = self.read(batch)
        ends = F.pad(batch.targets, (0, 0, 1, 0)), F.pad(batch.real, (0, 0, 1, 0))  # nothing before the first sentence
        before = self.read_sentences(ends[0].flatten(0, 1), ends[1].flatten(0, 1)).unflatten(0, (rows, sentences + 1))
        plan, _ = self.planner(before, self.planner.initial_state(seen.regions))
        state = self.writer.initial_state(plan.topics[:, :-1].flatten(0, 1), *seen)
        hidden, _ = self.writer(self.embedding(batch.tokens.flatten(0, 1)), batch.real.flatten(0, 1), state)
        return hidden.unflatten(0, (rows, sentences)), plan.stops

    def read(self, batch: ParagraphBatch) -> Seen:
        regions = Memory(self.body(batch.inputs, batch.mask)[0], batch.mask)
        if self.phrase_region is None:
            return Seen(regions, None)
        assert batch.phrases is not None and batch.regions is not None
        each = torch.arange(len(batch.phrases), device=batch.phrases.device)[:, None]
        of_regions = self.phrase_region(regions.values)[each, batch.regions]  # (batch, phrase words, embedding_dim)
        return Seen(regions, Memory(self.embedding(batch.phrases) + of_regions, batch.phrase_mask))

    def read_sentences(self, tokens: Tensor, real: Tensor) -> Tensor:
        """Sentences (rows, words), their ends among them, each as one vector (rows, dim); 0 where there is none."""
        _, state = self.sentence_reader(self.embedding(tokens), real)
        found: Tensor = state.cell.hidden
        return found

    def log_probs(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.output(hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)

    def row_losses(self, batch: ParagraphBatch) -> list[list[float]]:
        log_probs = self.log_probs(self.decode(batch)[0]).gather(-1, batch.targets[..., None])[..., 0].double()
        found: list[list[float]] = torch.stack([-(log_probs * batch.real).sum((1, 2)), batch.real.sum((1, 2)).double()], 1).tolist()
        return found

    def encode(self, examples: Sequence[Described]) -> list[EncodedParagraph]:
        return [
            EncodedParagraph(self.reader.measured(example.input), self.ids(example.sentences), self.phrase_ids(example))
            for example in examples
        ]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [without({self.end}, ids) for ids in self.target.encode_batch(list(texts))] if texts else []

    def phrase_ids(self, example: Described) -> list[list[int]]:
        if not self.config.phrases:
            return []
        count = len(example.phrases)
        regions = len(example.picture.boxes) if isinstance(example.picture, Regions) else 0
        if not count or count != regions or self.reader.name != "regions":
            raise UserError(
                f"{example.id or example.key}: task.phrases=true attends to a phrase for each region, and there are {count} phrases and "
                f"{regions} boxes, read by task.input={self.reader.name}; give both and task.input=regions, or set task.phrases=false"
            )
        return self.ids(example.phrases)

    def lengths(self, encoded: EncodedParagraph) -> tuple[int, int]:  # type: ignore[override]
        """Places of the picture, and tokens of the paragraph."""
        return encoded.input.length, sum(len(ids) + 1 for ids in encoded.sentences)

    def collate(self, examples: Sequence[EncodedParagraph]) -> ParagraphBatch:
        inputs, mask = self.reader.collate([each.input for each in examples], self.decoded)
        sentences = max([1, *(len(each.sentences) for each in examples)])
        words = max([1, *(len(ids) + 1 for each in examples for ids in each.sentences)])
        tokens = torch.zeros(len(examples), sentences, words, dtype=torch.long)
        targets, real = tokens.clone(), torch.zeros_like(tokens, dtype=torch.bool)
        for row, each in enumerate(examples):
            for number, ids in enumerate(each.sentences):
                whole = torch.tensor([self.end, *ids, self.end])
                tokens[row, number, : len(ids) + 1], targets[row, number, : len(ids) + 1] = whole[:-1], whole[1:]
                real[row, number, : len(ids) + 1] = True
        if not self.config.phrases:
            return ParagraphBatch(inputs, mask, tokens, targets, real)
        phrases, phrase_mask = padded([[id for ids in each.phrases for id in ids] for each in examples])
        regions, _ = padded([[region for region, ids in enumerate(each.phrases) for _ in ids] for each in examples])
        return ParagraphBatch(inputs, mask, tokens, targets, real, phrases, regions, phrase_mask)

    @torch.no_grad()
    def write(
        self, batch: ParagraphBatch, config: DecodingConfig = GREEDY, seed: int = 0, row_numbers: Sequence[int] | None = None
    ) -> list[tuple[list[list[int]], float]]:
        """The sentences on each picture as ids, and log p of them all. Each is written by the decoding algorithm, and read before the
        next one is planned; a paragraph stops where that is more probable than not, behind its first sentence."""
        self.check_decoding(config)
        seen = self.read(batch)
        rows, device = len(batch.tokens), batch.tokens.device
        found: list[list[list[int]]] = [[] for _ in range(rows)]
        log_prob, is_open = [0.0] * rows, [True] * rows
        state: PlannerState = self.planner.initial_state(seen.regions)
        before = seen.regions.values.new_zeros(rows, 1, self.config.dim)
        starts = torch.full((rows, 1), self.end, device=device)
        for number in range(self.config.most_sentences):
            plan, state = self.planner(before, state)
            stop = plan.stops[:, 0].double()
            goes_on = [bool(number == 0 or logit <= 0) for logit in stop.tolist()]
            for row, (ends, stays) in enumerate(zip(F.logsigmoid(stop).tolist(), F.logsigmoid(-stop).tolist(), strict=True)):
                if is_open[row]:
                    log_prob[row] += stays if goes_on[row] else ends
                    is_open[row] = goes_on[row]
            if not any(is_open):
                break
            stepper = filtered_as(config, SentenceStepper(self, plan.topics[:, 0], seen), self.never_written)
            sentences = write(
                stepper, starts, config, end=self.end, max_new=config.max_new, seed=seed + 7919 * number, row_numbers=row_numbers
            )
            best = [row[0] if row else Hypothesis([], 0.0, 0.0) for row in sentences]
            for row, hypothesis in enumerate(best):
                if is_open[row]:
                    found[row].append(hypothesis.tokens)
                    log_prob[row] += hypothesis.log_prob
            tokens, mask = padded([[*hypothesis.tokens, self.end] for hypothesis in best])
            real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
            before = self.read_sentences(tokens.to(device), real.to(device))[:, None]
        return list(zip(found, log_prob, strict=True))

    @property
    def never_written(self) -> tuple[int, ...]:
        return () if self.target.pad is None else (self.target.pad,)

    def check_decoding(self, config: DecodingConfig) -> None:
        if config.n_best > 1:
            raise UserError(
                f"n_best ({config.n_best}) must be 1: a paragraph is written sentence by sentence, each from the best before it"
            )
        if config.covers:
            raise UserError(f"coverage_penalty ({config.coverage_penalty}) must be 0: a sentence need not look at the whole picture")

    def predict(
        self, batch: ParagraphBatch, config: DecodingConfig = GREEDY, seed: int = 0, row_numbers: Sequence[int] | None = None
    ) -> list[str]:
        return [" ".join(self.texts(sentences)) for sentences, _ in self.write(batch, config, seed, row_numbers)]

    def texts(self, sentences: Sequence[list[int]]) -> list[str]:
        return [self.target.decode(ids).strip() for ids in sentences]

    def describe(
        self, examples: Sequence[Described], config: DecodingConfig = GREEDY, seed: int = 0, numbers: Sequence[int] | None = None
    ) -> list[WrittenParagraph]:
        """A paragraph on each picture, in the order given; what the examples say of it is not read, but for the phrases of its boxes."""
        numbers = range(1, len(examples) + 1) if numbers is None else numbers
        encoded = [EncodedParagraph(self.reader.measured(each.input), [], self.phrase_ids(each)) for each in examples]
        for each, example in zip(encoded, examples, strict=True):
            self.check_length(each, example.key)
        lengths = torch.tensor([each.input.length for each in encoded]).reshape(-1, 1).numpy()
        found: dict[int, WrittenParagraph] = {}
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH_PLACES):
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                for row, (sentences, log_prob) in zip(rows, self.write(batch, config, seed, [numbers[row] for row in rows]), strict=True):
                    found[row] = WrittenParagraph(examples[row].key, self.texts(sentences), log_prob)
        return [found[row] for row in range(len(encoded))]

    def measure(self, examples: Sequence[Any], predictions: Sequence[str]) -> Measured:
        values = corpus_values(self.statistics(examples, predictions))
        return Measured(values, in_words(values))

    def statistics(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[Statistics]:
        return paragraph_measures(
            [example.picture for example in examples], [e.target for e in examples], predictions, self.config.measures
        )

    def sentence_scores(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[float]:
        """100 where everything is spoken of once, of scenes; else where a paragraph is its reference, word for word."""
        told = self.statistics(examples, predictions)
        if told and "all_once" in told[0]:
            return [corpus_values([each])["all_once"] for each in told]
        return [100.0 * (text.split() == example.target.split()) for example, text in zip(examples, predictions, strict=True)]

    def described(self, example: Any, prediction: str) -> dict[str, str]:
        return {"source": example.key, "target": example.target, "prediction": prediction}


class SentenceStepper:
    """Writes sentences on topics (pictures, dim); the hypotheses of a sentence share its picture."""

    def __init__(self, task: ParagraphWriter, topics: Tensor, seen: Seen):
        self.task, self.topics, self.seen = task, topics, seen
        self.vocabulary = task.target.vocabulary

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return self.task.writer.initial_state(self.topics.repeat_interleave(rows // len(self.topics), 0), *self.seen)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        hidden, state = self.task.writer(self.task.embedding(tokens), mask, state)
        return self.task.log_probs(hidden), state


def paragraph_measures(
    pictures: Sequence[Any], references: Sequence[str], texts: Sequence[str], measures: Sequence[str] = ("bleu", "repeated_trigrams")
) -> list[Statistics]:
    """Of each text on a picture: what it shares with its reference, and where all pictures are scenes what it speaks of."""
    found = measure_captions(texts, [[reference] for reference in references], measures).statistics if measures else [{} for _ in texts]
    inside = [picture.picture if isinstance(picture, Regions) else picture for picture in pictures]
    scenes = [picture for picture in inside if isinstance(picture, Scene)]
    if len(scenes) < len(pictures):
        return found
    mentions = [objects_mentioned(text, scene) for text, scene in zip(texts, scenes, strict=True)]
    return [
        {**paragraph_statistics(each.counts, each.others, is_true(text, scene)), **mine}
        for each, text, scene, mine in zip(mentions, texts, scenes, found, strict=True)
    ]


def with_phrases(examples: Sequence[Described], captioner: Captioner, config: DecodingConfig = GREEDY) -> list[Described]:
    """Examples whose phrases are what a captioner, which was trained on regions (`data.regions`), says of each of their boxes."""
    crops = [example.picture.crops() if isinstance(example.picture, Regions) else [] for example in examples]
    written = iter(captioner.write_for([crop for each in crops for crop in each], config))
    found = [tuple(best[0].text if (best := next(written)) else "" for _ in each) for each in crops]
    return [example._replace(phrases=phrases) for example, phrases in zip(examples, found, strict=True)]


def train_paragraph_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Described], config: ParagraphsConfig
) -> dict[str, Any]:
    """How pictures are read, and a tokenizer of sentences and phrases."""
    reader = build_part("reader of pictures", config.input, PICTURES).fitted(examples[0].picture)
    phrases = [text for example in examples for text in example.phrases] if config.phrases else []
    return {"input": reader, "target": train([*(text for example in examples for text in example.sentences), *phrases], [])}


def build_paragraph_writer(body: Any, vocabularies: dict[str, Any], config: ParagraphsConfig) -> ParagraphWriter:
    return ParagraphWriter(body, vocabularies["input"], vocabularies["target"], config)


class DescribedRow(Section):
    picture: File = Field(description="a picture file", json_schema_extra={"metavar": "FILE"})
    boxes: list[list[int]] | None = Field(
        None, description="the boxes [left, top, right, bottom] in it, where the run reads regions", json_schema_extra={"column": False}
    )
    phrases: list[str] | None = Field(
        None, description="a phrase for each box, where the run attends to them", json_schema_extra={"column": False}
    )


class ParagraphOptions(WritingOptions):
    """How the sentences of a paragraph are written."""


def described_rows(path: Path, data: DescribedData, columns: Mapping[str, str]) -> Iterator[DescribedRow] | None:
    """The lines of a file as training data have them, with or without sentences; None where it is no JSON lines."""
    if path.suffix.lower() != ".jsonl":
        return None
    names: dict[str, Any] = {name: getattr(data, name) for name in ("image", "boxes", "phrases")}
    found = read_described(path, **{**names, "image": columns.get("picture", data.image)}, with_sentences=False)
    return (row_of(example) for example in found)


def row_of(example: Described) -> DescribedRow:
    picture = example.picture
    boxes = [list(box) for box in picture.boxes] if isinstance(picture, Regions) else None
    return DescribedRow(picture=example.key, boxes=boxes, phrases=list(example.phrases) or None)


def paragraph_rows(
    tasks: Sequence[ParagraphWriter], rows: Sequence[DescribedRow], options: ParagraphOptions, numbers: Sequence[int]
) -> list[WrittenParagraph]:
    examples = []
    for row, number in zip(rows, numbers, strict=True):
        try:
            picture = with_boxes(picture_of(row.picture), row.boxes)
        except Faulty as fault:
            raise UserError(f"picture {number}, {row.picture}: {fault}") from None
        examples.append(Described(picture, (), tuple(row.phrases or ()), str(row.picture)))
    return tasks[0].describe(examples, options.decoding, options.seed, numbers)


def picture_of(given: str | FileBytes) -> Picture:
    """A file, or a member of an archive."""
    return given if isinstance(given, FileBytes) else find_picture(given, Path()) or as_picture(given)


def paragraph_objects(number: int, row: DescribedRow, answer: WrittenParagraph | None, options: ParagraphOptions) -> Objects:
    if answer is None:
        return []
    return [{"line": number, "picture": str(row.picture), "text": answer.text, "sentences": answer.sentences, "log_prob": answer.log_prob}]


def as_lines(blocks: Blocks, options: ParagraphOptions, alone: bool) -> Iterator[str]:
    """The paragraph; behind the file's name where there are several."""
    for some in blocks:
        for each in some:
            if each.answer is not None:
                name = "" if alone else f"{each.row.picture}\t"
                yield f"{name}{each.answer.text}\n"


DESCRIBE: Use[DescribedRow, WrittenParagraph] = Use(
    about="write a paragraph on picture files",
    row=DescribedRow,
    options=ParagraphOptions,
    answer=paragraph_rows,
    objects=paragraph_objects,
    formats={"lines": as_lines},
    read_file=described_rows,
    places=lambda task, row: len(row.boxes) if row.boxes else places_read(task, row),
    try_it=lambda example: (["picture.png"], None),
)

PARAGRAPHS = TaskEntry(
    config=ParagraphsConfig,
    build=build_paragraph_writer,
    vocabularies={"input": AnyReader, "target": Tokenizer},
    learning=Examples(DESCRIBED, train_paragraph_vocabularies),
    uses={"caption": DESCRIBE},
    pipeline="image-to-text",
)
