"""Paragraph captioning: several sentences about one picture, planned one by one (Krause et al. 2017). Any body that
reads one sequence, over a picture's grid or over given boxes."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.batches import padded, to_device
from clew.core.config import build_part
from clew.core.errors import UserError, unknown
from clew.core.modes import evaluating
from clew.core.taps import watching
from clew.core.types import State, Term
from clew.data.examples import Described, Regions
from clew.data.kinds.described import DESCRIBED
from clew.data.plans import batches_by_length
from clew.layers.attentive import AttentiveCell
from clew.metrics.captioning import corpus_values
from clew.metrics.measures import Measured, in_words
from clew.metrics.statistics import Statistics
from clew.sources.inputs import Decoded, Input, InputReader
from clew.sources.readers import PICTURES, AnyReader
from clew.tasks.captioning import Captioner
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.offers import ModelInput
from clew.tasks.shared.alignment import Alignment, Tokens, by_row, displayed_tokens, layer_number, with_marks
from clew.tasks.shared.input_lengths import TakesPlaces
from clew.tasks.shared.paragraph_decoder import GREEDY, ParagraphBatch, ParagraphDecoder, ParagraphsConfig
from clew.tasks.shared.paragraph_measures import paragraph_measures
from clew.tasks.shared.paragraph_rows import DESCRIBE, WrittenParagraph
from clew.tasks.shared.picture_looks import SentenceLooks, picture_in
from clew.tasks.shared.sequence import without
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer

BATCH_PLACES = 16_384
"""Positions of pictures per batch when writing, including padding."""


class EncodedParagraph(NamedTuple):
    """A picture, the ids of each sentence without its end token, and the ids of each region's phrase."""

    input: Input
    sentences: list[list[int]]
    phrases: Sequence[list[int]] = ()


class ParagraphWriter(TakesPlaces, ParagraphDecoder, ExampleTask):
    """A `ParagraphDecoder` trained on pictures with sentences."""

    config: ParagraphsConfig

    writes = True
    text_name = "picture"
    names_files = True

    def __init__(self, body: Any, reader: InputReader, target: Tokenizer, config: ParagraphsConfig):
        if config.best not in ("loss", *config.values):
            raise unknown("value for task.best", config.best, ["loss", *config.values])
        super().__init__(body, target, config)
        self.reader = reader
        self.decoded = Decoded()

    @property
    def best(self) -> str:
        return self.config.best

    def looked_up(self) -> list[Tensor]:
        return [*super().looked_up(), self.embedding.weight]

    def forward(self, batch: ParagraphBatch, state: State = None) -> tuple[dict[str, Term], State]:
        hidden, stops = self.decode(batch)
        counts = self.counts(batch)
        words = self.cross_entropy(
            self.dropout(hidden), self.output.weight, self.output.bias, batch.targets, batch.real
        ).loss
        return {
            "loss": Term(words, counts["loss"]),
            "stop": Term(self.stop_losses(batch, stops).sum(), counts["stop"], self.config.stop_weight),
        }, None

    def counts(self, batch: ParagraphBatch) -> dict[str, Tensor]:
        """Return the number of tokens, and the number of sentences, counting the stop after the last as one."""
        return {"loss": batch.real.sum(), "stop": batch.real[..., 0].sum() + len(batch.tokens)}

    def row_losses(self, batch: ParagraphBatch) -> list[list[float]]:
        log_probs = self.log_probs(self.decode(batch)[0]).gather(-1, batch.targets[..., None])[..., 0].double()
        rows: list[list[float]] = torch.stack(
            [-(log_probs * batch.real).sum((1, 2)), batch.real.sum((1, 2)).double()], 1
        ).tolist()
        return rows

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
                f"{example.id or example.key}: task.phrases=true needs a phrase for each region, and there are"
                f" {count} phrases and {regions} boxes, read by task.input={self.reader.name}; give a phrase for each"
                " box and set task.input=regions, or set task.phrases=false"
            )
        return self.ids(example.phrases)

    def lengths(self, encoded: EncodedParagraph) -> tuple[int, int]:  # type: ignore[override]
        """Return the positions of the picture and the tokens of the paragraph."""
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

    def predict(
        self,
        batch: ParagraphBatch,
        config: DecodingConfig = GREEDY,
        seed: int = 0,
        row_numbers: Sequence[int] | None = None,
    ) -> list[str]:
        return [" ".join(self.texts(sentences)) for sentences, _ in self.write(batch, config, seed, row_numbers)]

    def texts(self, sentences: Sequence[list[int]]) -> list[str]:
        return [self.target.decode(ids).strip() for ids in sentences]

    def describe(
        self,
        examples: Sequence[Described],
        config: DecodingConfig = GREEDY,
        seed: int = 0,
        numbers: Sequence[int] | None = None,
    ) -> list[WrittenParagraph]:
        """Write a paragraph about each picture, in the order given. Of an example's texts only the phrases of its boxes
        are read."""
        numbers = range(1, len(examples) + 1) if numbers is None else numbers
        encoded = [EncodedParagraph(self.reader.measured(each.input), [], self.phrase_ids(each)) for each in examples]
        for each, example in zip(encoded, examples, strict=True):
            self.check_length(each, example.key)
        lengths = torch.tensor([each.input.length for each in encoded]).reshape(-1, 1).numpy()
        paragraphs: dict[int, WrittenParagraph] = {}
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH_PLACES):
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                for row, (sentences, log_prob) in zip(
                    rows, self.write(batch, config, seed, [numbers[row] for row in rows]), strict=True
                ):
                    paragraphs[row] = WrittenParagraph(examples[row].key, self.texts(sentences), log_prob)
        return [paragraphs[row] for row in range(len(encoded))]

    def looks(
        self, model_input: ModelInput, layer: int | None = None, config: DecodingConfig | None = None
    ) -> list[SentenceLooks]:
        layer_number(layer, 1)
        picture = picture_in(model_input, self.reader)
        example = Described(picture, (), tuple(model_input.phrases), str(model_input.text))
        (written,) = self.describe([example], config or GREEDY) if model_input.target is None else [None]
        sentences = written.sentences if written is not None else sentences_of(model_input.target or "") or [""]
        (encoded,) = self.encode([example._replace(sentences=tuple(sentences))])
        self.check_length(encoded, str(model_input.text))
        words, topics = self.weights_over_places(to_device(self.collate([encoded]), self.output.weight.device))
        looks = []
        for number, (text, ids) in enumerate(zip(sentences, encoded.sentences, strict=True)):
            tokens = with_marks(displayed_tokens(self.target, text, ids), [], [self.target.token(self.end)])
            places = Tokens([], [""] * words.shape[-1], [*range(words.shape[-1])])
            by_word = Alignment(places, tokens, words[number, : len(tokens.texts)]).by_word()
            looks.append(SentenceLooks(text, tokens.words, by_word, topics[number]))
        return looks

    def weights_over_places(self, batch: ParagraphBatch) -> tuple[Tensor, Tensor]:
        """Return the attention over one picture: that of each word (sentences, words, positions), and that of the
        planner for each sentence (sentences, positions)."""
        words: list[Tensor] = []
        topics: list[Tensor] = []
        cell = self.writer.words.cell
        assert isinstance(cell, AttentiveCell)
        taps: dict[nn.Module, Any] = {
            cell.attention.weights: words.append,
            self.planner.looking.attention.weights: topics.append,
        }
        with evaluating([self]), watching(taps):
            self.decode(batch)
        return by_row(words[0], batch.tokens.shape[1]).cpu(), by_row(topics[0], 1)[0].cpu()

    def measure(self, examples: Sequence[Any], predictions: Sequence[str]) -> Measured:
        values = corpus_values(self.statistics(examples, predictions))
        return Measured(values, in_words(values))

    def statistics(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[Statistics]:
        return paragraph_measures(
            [example.picture for example in examples], [e.target for e in examples], predictions, self.config.measures
        )

    def sentence_scores(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[float]:
        """Return 100 or 0 for each paragraph. For scenes, 100 if it mentions every object exactly once; for other
        pictures, if it equals its reference word for word."""
        statistics = self.statistics(examples, predictions)
        if statistics and "all_once" in statistics[0]:
            return [corpus_values([each])["all_once"] for each in statistics]
        return [
            100.0 * (text.split() == example.target.split())
            for example, text in zip(examples, predictions, strict=True)
        ]

    def described(self, example: Any, prediction: str) -> dict[str, str]:
        return {"source": example.key, "target": example.target, "prediction": prediction}


def sentences_of(text: str) -> list[str]:
    """Split a paragraph into sentences, which end in a full stop, question or exclamation mark before white space."""
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text.strip()) if sentence]


def with_phrases(
    examples: Sequence[Described], captioner: Captioner, config: DecodingConfig = GREEDY
) -> list[Described]:
    """Return the examples with a phrase for each of their boxes, written by a captioner that was trained on regions
    (`data.regions`)."""
    crops = [example.picture.crops() if isinstance(example.picture, Regions) else [] for example in examples]
    captions = iter(captioner.write_for([crop for each in crops for crop in each], config))
    phrases = [tuple(best[0].text if (best := next(captions)) else "" for _ in each) for each in crops]
    return [example._replace(phrases=texts) for example, texts in zip(examples, phrases, strict=True)]


def train_paragraph_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Described], config: ParagraphsConfig
) -> dict[str, Any]:
    """Build the reader of pictures, and a tokenizer of sentences and phrases."""
    reader = build_part("reader of pictures", config.input, PICTURES).fitted(examples[0].picture)
    phrases = [text for example in examples for text in example.phrases] if config.phrases else []
    return {
        "input": reader,
        "target": train([*(text for example in examples for text in example.sentences), *phrases], []),
    }


def build_paragraph_writer(body: Any, vocabularies: dict[str, Any], config: ParagraphsConfig) -> ParagraphWriter:
    return ParagraphWriter(body, vocabularies["input"], vocabularies["target"], config)


PARAGRAPHS = TaskEntry(
    config=ParagraphsConfig,
    build=build_paragraph_writer,
    vocabularies={"input": AnyReader, "target": Tokenizer},
    learning=Examples(DESCRIBED, train_paragraph_vocabularies),
    uses={"caption": DESCRIBE},
    pipeline="image-to-text",
)
