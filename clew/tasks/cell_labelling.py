"""Cell labelling (semantic segmentation): a label for every cell of a picture, a pixel or a square of pixels. A body
that reads grids (the 2-D LSTM) or one sequence, over pictures of any size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.baselines.baseline import Baseline, Train
from clew.core.batches import to_device
from clew.core.config import Part, TaskSection, build_part, one_of
from clew.core.errors import UserError, named
from clew.core.graph_batches import rows_to
from clew.core.modes import evaluating
from clew.core.reprs import brief
from clew.core.types import State, Term
from clew.core.wording import argument, argument_name
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
"""The most labels that a label picture can number."""


class CellLabellingConfig(TaskSection):
    """A label for each cell of a picture: that of most of its pixels; in a tie, the one with the lower number."""

    name: Literal["cell_labelling"] = "cell_labelling"
    input: Annotated[Part, one_of("reader of cells", CELLS)] = Field(
        "cells", description="size: the side of a cell in pixels, 1 to label single pixels; grey: ignore colours"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="of the output layer's input, besides the body's own dropout")
    longest: int = Field(4096, ge=1, description="training pictures with more cells are left out, and counted")
    best: Literal["accuracy", "iou", "loss"] = Field("iou", description="the metric that selects the best checkpoint")


class LabelledCells(NamedTuple):
    """A picture to read and the label ids of its cells, row by row; UNSEEN for no label and for labels that are not in
    the training part."""

    input: Input
    targets: list[int]


class CellBatch(NamedTuple):
    inputs: Any
    mask: Tensor | None
    targets: Tensor  # (batch, cells), UNSEEN on padding too
    fresh: bool = True


@dataclass(frozen=True)
class LabelledPicture:
    """The labels of a picture's cells, row by row, and the probability of each. `size` is the side of a cell in pixels,
    `numbers` has the number of each pixel's label."""

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
    """logits = W dropout(h_cell) + b, for each cell independently."""

    reader: CellsReader
    text_name = "picture"

    def __init__(self, body: Any, reader: CellsReader, labels: Labels, config: CellLabellingConfig | None = None):
        super().__init__()
        if len(getattr(body, "blocks", ())):
            raise UserError("model.block merges several cells into one, and each cell needs a label; set model.block=1")
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
        """Count the cells whose label is known."""
        return {"loss": (batch.targets != UNSEEN).sum()}

    def losses(self, batch: CellBatch) -> Tensor:
        """Return -log p of each cell's label (batch, cells), 0 where it is unknown."""
        logits = self.logits(batch).float().flatten(0, 1)
        return F.cross_entropy(logits, batch.targets.flatten(), reduction="none", ignore_index=UNSEEN).view_as(
            batch.targets
        )

    def logits(self, batch: CellBatch) -> Tensor:
        """Return a score for every label of every cell (batch, cells, labels)."""
        hidden, _ = self.body(batch.inputs, batch.mask)
        # A ragged grid has padding after its cells.
        logits: Tensor = self.output(self.dropout(hidden[:, : batch.targets.shape[1]]))
        return logits

    def row_losses(self, batch: CellBatch) -> list[list[float]]:
        known = batch.targets != UNSEEN
        rows: list[list[float]] = torch.stack([self.losses(batch).double().sum(1), known.double().sum(1)], 1).tolist()
        return rows

    def gold(self, example: LabelledPixels) -> np.ndarray:
        """Return the label ids of a picture's cells, row by row: UNSEEN for a label that is not in the training part,
        IGNORED for a cell without a label."""

        def read(key: Any) -> Tensor:
            levels = cell_numbers(example, self.reader)
            present = [int(level) for level in np.unique(levels)]
            ids = {level: self.labels.find(label_name(example, level)) if level >= 0 else IGNORED for level in present}
            return torch.tensor([ids[level] for level in levels.flatten().tolist()], dtype=torch.int16)

        return self.known.get((example.pixels, example.names, example.ignored), read).numpy().astype(np.int64)

    def encode(self, examples: Sequence[LabelledPixels]) -> list[LabelledCells]:
        golds = [np.maximum(self.gold(example), UNSEEN).tolist() for example in examples]
        return [
            LabelledCells(self.reader.measured(example.picture), gold)
            for example, gold in zip(examples, golds, strict=True)
        ]

    def without_target(self, example: Any) -> LabelledCells:
        picture = self.reader.measured(example)
        return LabelledCells(picture, [UNSEEN] * picture.length)

    def collate(self, examples: Sequence[LabelledCells]) -> CellBatch:
        inputs, mask = self.reader.collate([each.input for each in examples], self.decoded)
        return CellBatch(
            inputs, mask, rows_to(max(each.input.length for each in examples), [each.targets for each in examples])
        )

    def label_table(self) -> Labels:
        return self.labels

    def gold_labels(self, example: LabelledPixels) -> Iterator[tuple[str, str]]:
        """Iterate over the distinct labels of a picture."""
        levels = np.unique(cell_numbers(example, self.reader)) if UNSEEN in self.gold(example) else ()
        return ((label_name(example, int(level)), example.id) for level in levels if level >= 0)

    @torch.no_grad()
    def predict(
        self, batch: CellBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None
    ) -> list[list[int]]:
        """Return the id of every cell's most probable label."""
        sizes = [batch.targets.shape[1]] * len(batch.targets) if batch.mask is None else batch.mask.sum(1).tolist()
        return [row[:size] for row, size in zip(self.logits(batch).argmax(-1).tolist(), sizes, strict=True)]

    @torch.no_grad()
    def label(self, pictures: Sequence[Any]) -> list[LabelledPicture]:
        """Label the cells of pictures. Raises UserError with the name of a picture that cannot be read."""
        encoded = [self.without_target(picture) for picture in pictures]
        for picture, each in zip(pictures, encoded, strict=True):
            self.check_length(each, str(picture))
        lengths = torch.tensor([each.input.length for each in encoded]).reshape(-1, 1).numpy()
        labelled: dict[int, LabelledPicture] = {}
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH_PLACES):
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                probs, ids = (part.cpu().numpy() for part in self.logits(batch).float().softmax(-1).max(-1))
                for row, shares, labels in zip(rows, probs, ids, strict=True):
                    labelled[row] = self.labelled_picture(pictures[row], shares, labels)
        return [labelled[row] for row in range(len(pictures))]

    def labelled_picture(self, picture: Any, probabilities: np.ndarray, ids: np.ndarray) -> LabelledPicture:
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
        best: str = self.config.best
        return best

    def overlap(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> Overlap:
        """Count the overlap of gold and predicted labels, over all cells that have a label."""
        gold = np.concatenate([self.gold(example) for example in examples])
        predicted = np.concatenate([np.asarray(prediction, np.int64) for prediction in predictions])
        return count_overlap(gold[gold != IGNORED], predicted[gold != IGNORED], self.labels.names)

    def measure(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> Measured:
        iou = 100 * self.overlap(examples, predictions).mean
        right, total = (sum(counts) for counts in zip(*self.right_cells(examples, predictions), strict=True))
        accuracy = 100 * right / max(total, 1)
        return Measured({"accuracy": accuracy, "iou": iou}, f"accuracy {accuracy:.2f}, IoU {iou:.2f}")

    def right_cells(
        self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]
    ) -> list[tuple[int, int]]:
        """Return for each picture the number of correct cells and the number of cells with a label."""
        counts = []
        for example, prediction in zip(examples, predictions, strict=True):
            gold = self.gold(example)
            counts.append((int((gold == np.asarray(prediction)).sum()), int((gold != IGNORED).sum())))
        return counts

    def intervals(
        self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]
    ) -> dict[str, Interval]:
        """Return the interval of the accuracy over resampled pictures."""
        right, total = zip(*self.right_cells(examples, predictions), strict=True)
        return {"accuracy": share_interval(right, total, samples=SAMPLES).times(100)}

    def report(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> tuple[str, ...]:
        return (self.overlap(examples, predictions).describe(),)

    def sentence_scores(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> list[float]:
        """Return the accuracy of each picture."""
        return [100 * right / max(total, 1) for right, total in self.right_cells(examples, predictions)]

    def statistics(self, examples: Sequence[LabelledPixels], predictions: Sequence[Sequence[int]]) -> list[Statistics]:
        right = self.right_cells(examples, predictions)
        overlaps = [
            self.overlap([example], [prediction]) for example, prediction in zip(examples, predictions, strict=True)
        ]
        return [
            {"accuracy": share_of(*counts), "iou": {"iou": overlap.counts()}}
            for counts, overlap in zip(right, overlaps, strict=True)
        ]

    def described(self, example: LabelledPixels, prediction: Sequence[int]) -> dict[str, Any]:
        """Describe a picture: the number of cells of each label, gold and predicted, and of wrong cells."""
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
    """Return the numbers (rows, columns) of a picture's cells in its label picture, -1 for cells without a label."""
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
    """Build the reader of pictures, and the label table in the order of the labels' numbers."""
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
            " apart; check data.labels"
        )
    return {"input": reader, "labels": Labels([numbers[level] for level in sorted(numbers)])}


def build_cell_labeller(body: Any, vocabularies: dict[str, Any], config: CellLabellingConfig) -> CellLabeller:
    return CellLabeller(body, vocabularies["input"], vocabularies["labels"], config)


def cell_baselines(train: Train, config: CellLabellingConfig) -> Iterator[Baseline]:
    """Predict the most frequent label for all cells."""
    reader = build_part("reader of cells", config.input, CELLS)

    def numbers(examples: Sequence[LabelledPixels]) -> np.ndarray:
        levels = np.concatenate([cell_numbers(example, reader).flatten() for example in examples])
        return levels[levels >= 0]

    most_frequent = np.bincount(numbers(train())).argmax()

    def measure(examples: Sequence[LabelledPixels]) -> Measured:
        accuracy = 100 * float((numbers(examples) == most_frequent).mean())
        return Measured({"baseline_most_frequent_label": accuracy}, f"accuracy {accuracy:.2f}")

    yield Baseline("the most frequent label has", measure)


class CellOptions(Options):
    """Where label pictures are written."""

    label_pictures: str | None = Field(
        None,
        description=(
            "a folder in which to write, for each picture, a PNG of its name and size, in which each pixel is the"
            " number of its label in the run, from 0"
        ),
        json_schema_extra={"metavar": "FOLDER"},
    )


def label_rows(
    tasks: Sequence[CellLabeller], rows: Sequence[PictureRow], options: CellOptions, numbers: Sequence[int]
) -> list[LabelledPicture]:
    labelled = tasks[0].label([row.picture for row in rows])
    if options.label_pictures is not None:
        write_label_pictures(labelled, Path(options.label_pictures).expanduser(), len(tasks[0].labels))
    return labelled


def write_label_pictures(labelled: Sequence[LabelledPicture], folder: Path, num_labels: int) -> None:
    if num_labels > MOST_LABELS:
        raise UserError(
            f"{argument_name('label_pictures')} can write at most {MOST_LABELS} labels, and this run has"
            f" {num_labels}; leave it out"
        )
    for picture in labelled:
        path = folder / f"{Path(picture.picture).stem}.png"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.samefile(picture.picture):
                raise UserError(
                    f"label_pictures is the folder of {picture.picture}, which would be overwritten; name another"
                )
            path.write_bytes(palette_png(picture.numbers, COLOURS))
        except OSError as error:
            raise UserError(
                f"{path}: cannot be written: {error.strerror or error}; name another folder with"
                f" {argument('label_pictures')}"
            ) from None


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
    """Write one line for each row of cells, labels separated by tabs, and an empty line after each picture."""
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
