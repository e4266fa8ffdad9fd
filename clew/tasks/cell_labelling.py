"""A label for every cell of a picture: what its pixels or squares of them are. A body that reads grids (the 2-D LSTM)
or one sequence, over pictures of any sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.baselines.beside import Baseline, Train
from clew.core.batches import to_device
from clew.core.config import Part, TaskSection, build_part, one_of
from clew.core.errors import UserError, named
from clew.core.graph_batches import rows_to
from clew.core.modes import evaluating
from clew.core.reprs import brief
from clew.core.types import State, Term
from clew.data.examples import LabelledPixels
from clew.data.kinds.labelled_pixels import LABELLED_PIXELS
from clew.data.pictures.label_pictures import cell_levels
from clew.data.plans import batches_by_length
from clew.drawing.colours import COLOURS
from clew.drawing.png import palette_png
from clew.metrics.agreement import share_interval
from clew.metrics.bootstrap import Interval
from clew.metrics.measures import Measured
from clew.metrics.overlap import Overlap, count_overlap
from clew.metrics.statistics import Statistics, share_of
from clew.sources.inputs import Decoded, Input
from clew.sources.picture_inputs import CellsReader
from clew.sources.readers import AnyReader
from clew.tasks.captioning import PictureRow
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.shared.input_lengths import places_read
from clew.tasks.shared.input_reading import ReadsInput
from clew.tasks.shared.labelled_inputs import BATCH_PLACES
from clew.tasks.use import Answered, Objects, Options, Use, line_each
from clew.text.labels import UNSEEN, Labels

CELLS = {"cells": CellsReader}
SAMPLES = 2000
"""Resamples of a bootstrap's interval."""
IGNORED = -2
"""The id of a cell without a label."""
MOST_LABELS = 256
"""What a label picture can number."""


class CellLabellingConfig(TaskSection):
    """A label for each cell of a picture: that of most of its pixels, of two with as many the one with the lower
    number."""

    name: Literal["cell_labelling"] = "cell_labelling"
    input: Annotated[Part, one_of("reader of cells", CELLS)] = Field(
        "cells", description="size: the side of a cell in pixels, 1 for each pixel by itself; grey: without colours"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="of what the output layer reads; besides the body's own")
    longest: int = Field(4096, ge=1, description="training pictures of more cells than this are left out, and counted")
    best: Literal["accuracy", "iou", "loss"] = Field("iou", description="what the best evaluation is told by")


class LabelledCells(NamedTuple):
    """A picture to read and the labels of its cells, row by row, UNSEEN where there is none that the training part
    has."""

    input: Input
    targets: list[int]


class CellBatch(NamedTuple):
    inputs: Any
    mask: Tensor | None
    targets: Tensor  # (batch, cells), UNSEEN on padding too
    fresh: bool = True


@dataclass(frozen=True)
class LabelledPicture:
    """The labels of a picture's cells, row by row, and the probability of each; `size` is the side of a cell in pixels,
    `numbers` are the labels' numbers pixel by pixel."""

    picture: str
    size: int
    labels: list[list[str]]
    probabilities: list[list[float]]
    numbers: np.ndarray

    def __repr__(self) -> str:
        return brief(self, self.picture, cells=f"{len(self.labels)} x {len(self.labels[0]) if self.labels else 0}")

    def __str__(self) -> str:
        return "".join("\t".join(row) + "\n" for row in self.labels)


class CellLabeller(ReadsInput, ExampleTask):
    """logits = W dropout(h_cell) + b, each cell by itself."""

    reader: CellsReader
    text_name = "picture"

    def __init__(self, body: Any, reader: CellsReader, labels: Labels, config: CellLabellingConfig | None = None):
        super().__init__()
        if len(getattr(body, "blocks", ())):
            raise UserError("every cell has a label, and model.block joins several of them to one; set model.block=1")
        self.config = config = config or CellLabellingConfig()
        self.body = body
        self.reader = reader
        self.labels = labels
        self.decoded, self.known = Decoded(), Decoded()
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(body.dim, len(labels))

    def forward(self, batch: CellBatch, state: State = None) -> tuple[dict[str, Term], State]:
        return {"loss": Term(self.losses(batch).sum(), self.counts(batch)["loss"])}, None

    def counts(self, batch: CellBatch) -> dict[str, Tensor]:
        """Cells whose label is known."""
        return {"loss": (batch.targets != UNSEEN).sum()}

    def losses(self, batch: CellBatch) -> Tensor:
        """-log p of each cell's label (batch, cells), 0 where it is not known."""
        logits = self.logits(batch).float().flatten(0, 1)
        return F.cross_entropy(logits, batch.targets.flatten(), reduction="none", ignore_index=UNSEEN).view_as(
            batch.targets
        )

    def logits(self, batch: CellBatch) -> Tensor:
        """A score for every label of every cell (batch, cells, labels)."""
        hidden = self.body(batch.inputs, batch.mask)[0][
            :, : batch.targets.shape[1]
        ]  # a ragged grid has padding behind its cells
        found: Tensor = self.output(self.dropout(hidden))
        return found

    def row_losses(self, batch: CellBatch) -> list[list[float]]:
        known = batch.targets != UNSEEN
        found: list[list[float]] = torch.stack([self.losses(batch).double().sum(1), known.double().sum(1)], 1).tolist()
        return found

    def gold(self, example: LabelledPixels) -> np.ndarray:
        """The ids of the labels of a picture's cells, row by row; UNSEEN for one that the training part has not,
        IGNORED for none."""

        def read(key: Any) -> Tensor:
            levels = cell_numbers(example, self.reader)
            there = [int(level) for level in np.unique(levels)]
            ids = {level: self.labels.find(label_name(example, level)) if level >= 0 else IGNORED for level in there}
            return torch.tensor([ids[level] for level in levels.flatten().tolist()], dtype=torch.int16)

        return self.known.get((example.pixels, example.names, example.ignored), read).numpy().astype(np.int64)

    def encode(self, examples: Sequence[LabelledPixels]) -> list[LabelledCells]:
        golds = [np.maximum(self.gold(example), UNSEEN).tolist() for example in examples]
        return [
            LabelledCells(self.reader.measured(example.picture), gold)
            for example, gold in zip(examples, golds, strict=True)
        ]

    def without_target(self, given: Any) -> LabelledCells:
        read = self.reader.measured(given)
        return LabelledCells(read, [UNSEEN] * read.length)

    def collate(self, examples: Sequence[LabelledCells]) -> CellBatch:
        inputs, mask = self.reader.collate([each.input for each in examples], self.decoded)
        return CellBatch(
            inputs, mask, rows_to(max(each.input.length for each in examples), [each.targets for each in examples])
        )

    def label_table(self) -> Labels:
        return self.labels

    def gold_labels(self, example: LabelledPixels) -> Iterator[tuple[str, str]]:
        """Each label that a picture has, once."""
        levels = np.unique(cell_numbers(example, self.reader)) if UNSEEN in self.gold(example) else ()
        return ((label_name(example, int(level)), example.id) for level in levels if level >= 0)

    @torch.no_grad()
    def predict(
        self, batch: CellBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None
    ) -> list[list[int]]:
        """The number of every cell's likeliest label."""
        sizes = [batch.targets.shape[1]] * len(batch.targets) if batch.mask is None else batch.mask.sum(1).tolist()
        return [row[:size] for row, size in zip(self.logits(batch).argmax(-1).tolist(), sizes, strict=True)]

    @torch.no_grad()
    def label(self, pictures: Sequence[Any]) -> list[LabelledPicture]:
        """The labels of pictures' cells; a picture that cannot be read is refused by name."""
        encoded = [self.without_target(picture) for picture in pictures]
        for picture, each in zip(pictures, encoded, strict=True):
            self.check_length(each, str(picture))
        lengths = torch.tensor([each.input.length for each in encoded]).reshape(-1, 1).numpy()
        found: dict[int, LabelledPicture] = {}
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH_PLACES):
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                probs, ids = (part.cpu().numpy() for part in self.logits(batch).float().softmax(-1).max(-1))
                for row, shares, labels in zip(rows, probs, ids, strict=True):
                    found[row] = self.told(pictures[row], shares, labels)
        return [found[row] for row in range(len(pictures))]

    def told(self, picture: Any, probabilities: np.ndarray, ids: np.ndarray) -> LabelledPicture:
        (rows, columns), (height, width), size = (
            self.reader.grid(picture),
            self.reader.pixel_size(picture),
            self.reader.size,
        )
        grid, shares = (each[: rows * columns].reshape(rows, columns) for each in (ids, probabilities))
        pixels = np.repeat(np.repeat(grid, size, 0), size, 1)[:height, :width]
        return LabelledPicture(
            str(picture),
            size,
            [[self.labels.names[id] for id in row] for row in grid.tolist()],
            shares.tolist(),
            pixels,
        )

    @property
    def best(self) -> str:
        found: str = self.config.best
        return found

    def overlap(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> Overlap:
        """Over the cells of all pictures that have a label."""
        gold = np.concatenate([self.gold(example) for example in examples])
        told = np.concatenate([np.asarray(found, np.int64) for found in predictions])
        return count_overlap(gold[gold != IGNORED], told[gold != IGNORED], self.labels.names)

    def measure(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> Measured:
        iou = 100 * self.overlap(examples, predictions).mean
        right, total = (sum(counts) for counts in zip(*self.right_cells(examples, predictions), strict=True))
        accuracy = 100 * right / max(total, 1)
        return Measured({"accuracy": accuracy, "iou": iou}, f"accuracy {accuracy:.2f}, IoU {iou:.2f}")

    def right_cells(
        self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]
    ) -> list[tuple[int, int]]:
        """Of each picture how many cells are right, and how many have a label."""
        found = []
        for example, told in zip(examples, predictions, strict=True):
            gold = self.gold(example)
            found.append((int((gold == np.asarray(told)).sum()), int((gold != IGNORED).sum())))
        return found

    def intervals(
        self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]
    ) -> dict[str, Interval]:
        """What the accuracy would be on other pictures of the same kind."""
        right, total = zip(*self.right_cells(examples, predictions), strict=True)
        return {"accuracy": share_interval(right, total, samples=SAMPLES).times(100)}

    def report(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> tuple[str, ...]:
        return (self.overlap(examples, predictions).describe(),)

    def sentence_scores(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> list[float]:
        """The share of cells whose label is right."""
        return [100 * right / max(total, 1) for right, total in self.right_cells(examples, predictions)]

    def statistics(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> list[Statistics]:
        right = self.right_cells(examples, predictions)
        overlaps = [self.overlap([example], [told]) for example, told in zip(examples, predictions, strict=True)]
        return [
            {"accuracy": share_of(*counts), "iou": {"iou": overlap.counts()}}
            for counts, overlap in zip(right, overlaps, strict=True)
        ]

    def described(self, example: LabelledPixels, prediction: Sequence[int]) -> dict[str, Any]:
        """How many cells have each label, and how many are wrong."""
        gold = self.gold(example)
        wrong = int(((gold != np.asarray(prediction)) & (gold != IGNORED)).sum())
        return {
            "source": example.key,
            "target": self.summary(gold),
            "prediction": self.summary(prediction),
            "wrong_cells": wrong,
        }

    def summary(self, ids: Sequence[int] | np.ndarray) -> str:
        numbers, counts = np.unique(np.asarray(ids), return_counts=True)
        return ", ".join(
            f"{self.labels.names[id]} {count}" for id, count in zip(numbers, counts, strict=True) if id >= 0
        )


def cell_numbers(example: LabelledPixels, reader: CellsReader) -> np.ndarray:
    """The numbers (rows, columns) that a picture's cells have in its label picture, -1 where there is none."""
    return cell_levels(example.pixels.levels(), reader.size, example.ignored)


def label_name(example: LabelledPixels, level: int) -> str:
    if not example.names:
        return str(level)
    if level >= len(example.names):
        raise UserError(
            f"{example.id}: its label picture has the number {level}, and data.names has {len(example.names)} names,"
            " the first for 0; name all numbers, or set data.ignored"
        )
    return example.names[level]


def train_cell_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[LabelledPixels], config: CellLabellingConfig
) -> dict[str, Any]:
    """How pictures are read, and the labels in the order of their numbers."""
    reader = build_part("reader of cells", config.input, CELLS)
    numbers: dict[int, str] = {}
    for example in examples:
        numbers |= {
            int(level): label_name(example, int(level))
            for level in np.unique(cell_numbers(example, reader))
            if level >= 0
        }
    if len(numbers) == 1:
        raise UserError(
            f"every cell of the training part has the label {named(*numbers.values())}, so there is nothing to tell"
            " apart; see data.labels"
        )
    return {"input": reader, "labels": Labels([numbers[level] for level in sorted(numbers)])}


def build_cell_labeller(body: Any, vocabularies: dict[str, Any], config: CellLabellingConfig) -> CellLabeller:
    return CellLabeller(body, vocabularies["input"], vocabularies["labels"], config)


def cell_baselines(train: Train, config: CellLabellingConfig) -> Iterator[Baseline]:
    """The most frequent label of all cells."""
    reader = build_part("reader of cells", config.input, CELLS)

    def numbers(examples: Sequence[LabelledPixels]) -> np.ndarray:
        levels = np.concatenate([cell_numbers(example, reader).flatten() for example in examples])
        return levels[levels >= 0]

    most = np.bincount(numbers(train())).argmax()

    def measure(examples: Sequence[LabelledPixels]) -> Measured:
        accuracy = 100 * float((numbers(examples) == most).mean())
        return Measured({"baseline_most_frequent_label": accuracy}, f"accuracy {accuracy:.2f}")

    yield Baseline("the most frequent label has", measure)


class CellOptions(Options):
    """Where label pictures go."""

    label_pictures: str | None = Field(
        None,
        description=(
            "a folder: for each picture a PNG of its name and size, whose palette has the numbers of the run's labels,"
            " from 0"
        ),
        json_schema_extra={"metavar": "FOLDER"},
    )


def label_rows(
    tasks: Sequence[CellLabeller], rows: Sequence[PictureRow], options: CellOptions, numbers: Sequence[int]
) -> list[LabelledPicture]:
    found = tasks[0].label([row.picture for row in rows])
    if options.label_pictures is not None:
        write_label_pictures(found, Path(options.label_pictures).expanduser(), len(tasks[0].labels))
    return found


def write_label_pictures(found: Sequence[LabelledPicture], folder: Path, num_labels: int) -> None:
    if num_labels > MOST_LABELS:
        raise UserError(
            f"label_pictures numbers {MOST_LABELS} labels at most, and this run has {num_labels}; leave it out"
        )
    for each in found:
        path = folder / f"{Path(each.picture).stem}.png"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.samefile(each.picture):
                raise UserError(
                    f"label_pictures has the folder of {each.picture}, which would be overwritten; name another"
                )
            path.write_bytes(palette_png(each.numbers, COLOURS))
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None


def cell_objects(number: int, row: PictureRow, answer: LabelledPicture | None, options: CellOptions) -> Objects:
    if answer is None:
        return [{"line": number, "picture": "", "labels": None}]
    return [
        {
            "line": number,
            "picture": answer.picture,
            "size": answer.size,
            "labels": answer.labels,
            "probabilities": answer.probabilities,
        }
    ]


def as_rows(each: Answered[PictureRow, LabelledPicture]) -> str:
    """A line for each row of cells, labels parted by tabs, and an empty one behind each picture."""
    return "" if each.answer is None else str(each.answer)


CELL_LABELLING = TaskEntry(
    config=CellLabellingConfig,
    build=build_cell_labeller,
    vocabularies={"input": AnyReader, "labels": Labels},
    learning=Examples(LABELLED_PIXELS, train_cell_vocabularies),
    baselines=cell_baselines,
    uses={
        "predict": Use(
            about="label the cells of pictures",
            row=PictureRow,
            options=CellOptions,
            answer=label_rows,
            objects=cell_objects,
            formats={"rows": line_each(as_rows)},
            places=places_read,
            local=("label_pictures",),
            try_it=lambda example: (["picture.png", "--label-pictures", "labels"], None),
        )
    },
    pipeline="image-segmentation",
    gives=("grid",),
)
