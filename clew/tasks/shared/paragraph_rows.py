"""The use of a paragraph generator: the rows of a command or a file, and the answers as JSON and as lines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.core.reprs import brief
from clew.data.examples import Described, Picture, Regions
from clew.data.files.file_bytes import File, FileBytes
from clew.data.kinds.described import DescribedData
from clew.data.pictures.paragraph_readers import read_described, with_boxes
from clew.data.pictures.picture_files import as_picture
from clew.data.pictures.references import find_picture
from clew.data.values import Faulty
from clew.tasks.shared.input_lengths import places_read
from clew.tasks.use import Blocks, Objects, Use, WritingOptions
from clew.tasks.uses.writing import DecodingConfig


@dataclass(frozen=True)
class WrittenParagraph:
    """The sentences about a picture. `log_prob` is of all their tokens and ends, and of the decisions to stop or
    continue."""

    picture: str
    sentences: list[str]
    log_prob: float

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    def __repr__(self) -> str:
        return brief(self, self.text, log_prob=self.log_prob)

    def __str__(self) -> str:
        return self.text


class DescribedRow(Section):
    picture: File = Field(description="a picture file", json_schema_extra={"metavar": "FILE"})
    boxes: list[list[int]] | None = Field(
        None,
        description="its boxes [left, top, right, bottom], for a run that reads regions",
        json_schema_extra={"column": False},
    )
    phrases: list[str] | None = Field(
        None, description="one phrase per box, for a run that attends to them", json_schema_extra={"column": False}
    )


class ParagraphOptions(WritingOptions):
    """How a paragraph's sentences are generated."""


def described_rows(path: Path, data: DescribedData, columns: Mapping[str, str]) -> Iterator[DescribedRow] | None:
    """Yield the rows of a JSON lines file in the format of training data, with or without sentences. Return None for
    any other file."""
    if path.suffix.lower() != ".jsonl":
        return None
    names: dict[str, Any] = {name: getattr(data, name) for name in ("image", "boxes", "phrases")}
    examples = read_described(path, **{**names, "image": columns.get("picture", data.image)}, with_sentences=False)
    return (row_of(example) for example in examples)


def row_of(example: Described) -> DescribedRow:
    picture = example.picture
    boxes = [list(box) for box in picture.boxes] if isinstance(picture, Regions) else None
    return DescribedRow(picture=example.key, boxes=boxes, phrases=list(example.phrases) or None)


class Describes(Protocol):
    """A task that generates paragraphs."""

    def describe(
        self, examples: Sequence[Described], config: DecodingConfig, seed: int, numbers: Sequence[int]
    ) -> list[WrittenParagraph]: ...


def paragraph_rows(
    tasks: Sequence[Describes], rows: Sequence[DescribedRow], options: ParagraphOptions, numbers: Sequence[int]
) -> list[WrittenParagraph]:
    examples = []
    for row, number in zip(rows, numbers, strict=True):
        try:
            picture = with_boxes(picture_of(row.picture), row.boxes)
        except Faulty as fault:
            raise UserError(f"picture {number}, {row.picture}: {fault}") from None
        examples.append(Described(picture, (), tuple(row.phrases or ()), str(row.picture)))
    return tasks[0].describe(examples, options.decoding, options.seed, numbers)


def picture_of(file: str | FileBytes) -> Picture:
    """Return a picture file, or a member of an archive."""
    return file if isinstance(file, FileBytes) else find_picture(file, Path()) or as_picture(file)


def paragraph_objects(
    number: int, row: DescribedRow, answer: WrittenParagraph | None, options: ParagraphOptions
) -> Objects:
    if answer is None:
        return []
    return [
        {
            "line": number,
            "picture": str(row.picture),
            "text": answer.text,
            "sentences": answer.sentences,
            "log_prob": answer.log_prob,
        }
    ]


def as_lines(blocks: Blocks, options: ParagraphOptions, alone: bool) -> Iterator[str]:
    """Write each paragraph, after the file's name if there are several rows."""
    for block in blocks:
        for answered in block:
            if answered.answer is not None:
                name = "" if alone else f"{answered.row.picture}\t"
                yield f"{name}{answered.answer.text}\n"


DESCRIBE: Use[DescribedRow, WrittenParagraph] = Use(
    about="write a paragraph about each picture file",
    row=DescribedRow,
    options=ParagraphOptions,
    answer=paragraph_rows,
    objects=paragraph_objects,
    formats={"lines": as_lines},
    read_file=described_rows,
    places=lambda task, row: len(row.boxes) if row.boxes else places_read(task, row),
    try_it=lambda example: (["picture.png"], None),
)
