"""Captioning: a picture in, a sentence about it out (Xu et al. 2015, Show, attend and tell). Any body that encodes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from torch import Tensor

from clew.baselines.baseline import Baseline, Train
from clew.baselines.nearest_pictures import picture_baselines
from clew.core.batches import to_device
from clew.core.config import Part, Section, build_part, one_of
from clew.core.modes import evaluating
from clew.core.reprs import brief
from clew.data.examples import Captioned
from clew.data.files.file_bytes import File
from clew.data.kinds.captioned import CAPTIONED
from clew.data.kinds.kind import Parts
from clew.data.kinds.section import ExampleData
from clew.data.notes import Notes
from clew.data.plans import batches_by_length
from clew.data.synthetic.scene_texts import ground_text, is_true
from clew.data.synthetic.scenes import Scene
from clew.metrics.captioning import CAPTION_MEASURES, measure_captions
from clew.metrics.measures import Measured, in_words
from clew.metrics.pointing import Pointed, pointed, touched_cells
from clew.metrics.statistics import Statistics
from clew.sources.picture_inputs import PictureReader
from clew.sources.readers import PICTURES, AnyReader
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, TrainTokenizer
from clew.tasks.offers import ModelInput
from clew.tasks.shared.alignment import Alignment, Tokens, attention_weights, displayed_tokens
from clew.tasks.shared.from_inputs import BATCH_PLACES, InputSides, WritesFromInput
from clew.tasks.shared.input_lengths import places_read
from clew.tasks.shared.picture_looks import SentenceLooks, picture_in, why_not_drawn
from clew.tasks.shared.sequence import SequenceConfig, without
from clew.tasks.use import Blocks, Objects, Use, WritingOptions
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer

VALUES = {"bleu": [f"bleu_{order}" for order in (1, 2, 3, 4)]}


class CaptioningConfig(SequenceConfig):
    """A sentence about a picture."""

    name: Literal["captioning"] = "captioning"  # type: ignore[assignment]
    input: Annotated[Part, one_of("reader of pictures", PICTURES)] = Field(
        "convolved", description="how a picture is read"
    )
    measures: list[str] = Field(
        ["bleu", "chrf", "rouge_l", "cider"],
        description=f"metrics that compare a caption with all references: {', '.join(CAPTION_MEASURES)}",
    )
    max_ratio: float | None = Field(
        None, gt=0, description="the most tokens of a caption for each position of its picture"
    )
    best: str = Field(
        "cider", description="what selects the best checkpoint: the lowest loss, or the highest value of a metric"
    )

    @property
    def values(self) -> list[str]:
        return [name for measure in self.measures for name in VALUES.get(measure, [measure])] + ["exact"]


@dataclass(frozen=True)
class Caption:
    """One caption. `log_prob` is that of all tokens and the end, `score` is what beam search ranked it by."""

    picture: str
    text: str
    tokens: list[int]
    log_prob: float
    score: float

    def __repr__(self) -> str:
        return brief(self, self.text, log_prob=self.log_prob)

    def __str__(self) -> str:
        return self.text


class Captioner(WritesFromInput):
    """P(caption | picture), trained on every caption of a picture, and evaluated against all of them."""

    config: CaptioningConfig
    reader: PictureReader
    text_name = "picture"

    def without(self, capability: str) -> str | None:
        if capability == "looks":
            return super().without("aligns") or why_not_drawn(self.reader)
        return super().without(capability)

    def looks(
        self, model_input: ModelInput, layer: int | None = None, config: DecodingConfig | None = None
    ) -> list[SentenceLooks]:
        model_input = model_input._replace(text=picture_in(model_input, self.reader))
        text = model_input.target if model_input.target is not None else self.own_target(model_input, config)
        alignment = self.aligns(model_input._replace(target=text), layer)
        return [SentenceLooks(text, alignment.target.words, alignment.by_word())]

    def measure(self, examples: Sequence[Any], predictions: Sequence[str]) -> Measured:
        measured = measure_captions(
            predictions, [example.captions for example in examples], self.config.measures
        ).measured
        own = {
            "exact": fmean(self.sentence_scores(examples, predictions)),
            **self.measure_scenes(examples, predictions),
        }
        return Measured({**measured.values, **own}, f"{measured.text}, {in_words(own)}")

    def measure_scenes(self, examples: Sequence[Any], predictions: Sequence[str]) -> dict[str, float]:
        """Return metrics of drawn scenes, whose contents are known: the share of captions that are true, of exact
        captions among scenes with a pair of colour and shape that training does not have, and of words whose attention
        points at their object. Empty for other pictures."""
        scenes = [example.picture for example in examples]
        if not scenes or not all(isinstance(scene, Scene) for scene in scenes):
            return {}
        values = {"true": 100 * fmean(is_true(text, scene) for text, scene in zip(predictions, scenes, strict=True))}
        exact = zip(self.sentence_scores(examples, predictions), scenes, strict=True)
        if novel := [score for score, scene in exact if scene.is_novel]:
            values["exact_novel"] = fmean(novel)
        if self.without("aligns") is None and isinstance(self.reader, PictureReader):
            pointing = self.pointed(scenes, predictions)
            values |= {"pointing": pointing.share} if pointing.words else {}
        return values

    def pointed(self, scenes: Sequence[Scene], texts: Sequence[str]) -> Pointed:
        """Count how often a word's attention is highest on the object that it names, with teacher forcing."""
        ids = [without({self.end}, tokens) for tokens in self.target.encode_batch(list(texts))]
        encoded = [InputSides(self.reader.measured(scene), tokens) for scene, tokens in zip(scenes, ids, strict=True)]
        device, counts = next(self.parameters()).device, []
        with evaluating([self]):
            for rows in batches_by_length(np.array([self.lengths(sides) for sides in encoded]), BATCH_PLACES // 8):
                weights = (
                    attention_weights(self, to_device(self.collate([encoded[row] for row in rows]), device))
                    .float()
                    .cpu()
                )
                counts += [
                    self.pointed_in(scenes[row], texts[row], ids[row], each)
                    for row, each in zip(rows, weights, strict=True)
                ]
        return Pointed(sum(each.right for each in counts), sum(each.words for each in counts))

    def pointed_in(self, scene: Scene, text: str, ids: list[int], weights: Tensor) -> Pointed:
        """Count this for one text; `weights` (tokens, positions)."""
        tokens = displayed_tokens(self.target, text, ids)
        places = Tokens([], [""] * weights.shape[1], list(range(weights.shape[1])))
        by_word = (
            Alignment(places, tokens, weights[: len(ids)]).by_word().numpy() if ids else np.zeros((0, weights.shape[1]))
        )
        claims = ground_text(" ".join(tokens.words), scene)
        side, pictures = self.reader.side, self.reader.pictures
        touched = touched_cells(scene.numbers(), len(scene.things), pictures.cell, (side, side), pictures.before)
        return pointed(by_word, claims.things, touched)

    def sentence_scores(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[float]:
        """Return 100 for each caption that equals one of its references, else 0."""
        pairs = zip(examples, self.measured(predictions), strict=True)
        return [100.0 * (text in self.measured(example.captions)) for example, text in pairs]

    def statistics(self, examples: Sequence[Any], predictions: Sequence[str]) -> list[Statistics]:
        statistics = measure_captions(
            predictions, [example.captions for example in examples], self.config.measures
        ).statistics
        exact = self.sentence_scores(examples, predictions)
        return [{**each, "exact": {"share": [score / 100, 1]}} for each, score in zip(statistics, exact, strict=True)]

    def described(self, example: Any, prediction: str) -> dict[str, str]:
        return {"source": example.key, "target": example.target, "prediction": prediction}

    def caption(
        self, pictures: Sequence[Any], options: "CaptionOptions", numbers: Sequence[int]
    ) -> list[list[Caption]]:
        """Return the best captions of each picture."""
        captions = self.write_for(pictures, options.decoding, options.seed, numbers)
        return [
            [Caption(str(getattr(picture, "key", picture)), *each) for each in written]
            for picture, written in zip(pictures, captions, strict=True)
        ]


class CaptionExamples(Examples):
    """Examples in which every caption of a picture is a separate training example."""

    def read(self, data: ExampleData, seed: int, notes: Notes) -> Parts:
        parts = super().read(data, seed, notes)
        captions = (
            example._replace(captions=(text,), id=f"{example.id} {number}")
            for example, number, text in captions_of(parts["train"])
        )
        return {**parts, "train": list(captions)}


def captions_of(examples: Sequence[Captioned]) -> Iterator[tuple[Captioned, int, str]]:
    return ((example, number, text) for example in examples for number, text in enumerate(example.captions, start=1))


def train_caption_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Captioned], config: CaptioningConfig
) -> dict[str, Any]:
    """Build the reader of pictures, and a tokenizer of the captions."""
    reader = build_part("reader of pictures", config.input, PICTURES).fitted(examples[0].picture)
    return {"source": reader, "target": train([text for _, _, text in captions_of(examples)], [])}


def build_captioner(body: Any, vocabularies: dict[str, Any], config: CaptioningConfig) -> Captioner:
    return Captioner(body, vocabularies["source"], vocabularies["target"], config)


def caption_baselines(train: Train, task: CaptioningConfig) -> Iterator[Baseline]:
    def measure(examples: Sequence[Captioned], written: Sequence[str]) -> Measured:
        return measure_captions(written, [example.captions for example in examples], task.measures).measured

    return picture_baselines(train, measure)


class PictureRow(Section):
    picture: File = Field(description="a picture file", json_schema_extra={"metavar": "FILE"})


class CaptionOptions(WritingOptions):
    """How captions are written."""


def caption_rows(
    tasks: Sequence[Captioner], rows: Sequence[PictureRow], options: CaptionOptions, numbers: Sequence[int]
) -> list[list[Caption]]:
    return tasks[0].caption([row.picture for row in rows], options, numbers)


def caption_objects(number: int, row: PictureRow, answer: list[Caption] | None, options: CaptionOptions) -> Objects:
    names = ("picture", "text", "tokens", "log_prob", "score")
    return [
        {"line": number, "rank": rank, **{name: getattr(each, name) for name in names}}
        for rank, each in enumerate(answer or (), start=1)
    ]


def as_lines(blocks: Blocks, options: CaptionOptions, alone: bool) -> Iterator[str]:
    """Write one line per caption: the file's name first if there are several files, the score last with `n_best`."""
    for block in blocks:
        for answered in block:
            for caption in answered.answer or ():
                name = "" if alone else f"{caption.picture}\t"
                score = f"\t{caption.score:.4f}" if options.n_best > 1 else ""
                yield f"{name}{caption.text}{score}\n"


CAPTION: Use[PictureRow, list[Caption]] = Use(
    about="caption pictures",
    row=PictureRow,
    options=CaptionOptions,
    answer=caption_rows,
    objects=caption_objects,
    formats={"lines": as_lines},
    places=places_read,
    try_it=lambda example: (["picture.png"], None),
    help="""Each FILE is the path of a picture: PNG, and with `pip install 'clew[pictures]'` JPEG and other formats.
Without FILE, each line of standard input or of --file is such a path. Each caption is one line of standard output. If
there are several files, the line starts with the file's name and a tab.

A run of the task `paragraphs` writes several sentences. If it reads regions, --file is JSON lines with the boxes of
each picture, [left, top, right, bottom] in pixels: {"image": "scene.png", "boxes": [[4, 2, 20, 18], [24, 8, 44,
28]]}. With task.phrases=true each line also has "phrases": ["...", "..."], one for each box.

  clew caption runs/scenes-captioner scene.png
  clew caption runs/scenes-captioner *.png --beams 5
  clew caption runs/scenes-captioner scene.png --n-best 3 --json
  clew caption runs/scenes-paragraphs --file pictures.jsonl

`clew look caption` draws the attention of each word over the picture.""",
)

CAPTIONING = TaskEntry(
    config=CaptioningConfig,
    build=build_captioner,
    needs=Captioner.needs,
    vocabularies={"source": AnyReader, "target": Tokenizer},
    learning=CaptionExamples(CAPTIONED, train_caption_vocabularies),
    baselines=caption_baselines,
    uses={"caption": CAPTION},
    pipeline="image-to-text",
)
