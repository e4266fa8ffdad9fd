"""The kinds of content of picture corpora, and how their files become examples. Knows no corpus by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from clew.core.errors import UserError
from clew.data.corpora.contents import Choices
from clew.data.examples import Captioned, LabelledInput
from clew.data.files.idx_files import cached_idx, idx_pictures
from clew.data.notes import Notes
from clew.data.pictures.picture_readers import read_captioned
from clew.data.pictures.references import name_in_folder


@dataclass(frozen=True)
class Captions:
    """Pictures with captions. A part is a file of captions, or a list of photographs whose captions are in the file
    `captions`. `pictures` is a folder or an archive; pictures that an archive lacks are skipped and counted."""

    pictures: str
    captions: str | None = None
    kind: ClassVar[str] = "pictures with captions"

    def files(self, path: str, choices: Choices) -> tuple[str, ...]:
        archive = (self.pictures,) if self.is_archive else ()
        return (path, *(() if self.captions is None else (self.captions,)), *archive)

    @property
    def is_archive(self) -> bool:
        return self.pictures.endswith(".tar")

    def read(self, paths: tuple[Path, ...], choices: Choices, notes: Notes) -> Iterator[Captioned]:
        return read_captioned(
            paths[0],
            captions=None if self.captions is None else paths[1],
            pictures=paths[-1] if self.is_archive else paths[0].parent / self.pictures,
            may_lack=self.is_archive,
            notes=notes,
        )

    def key(self, choices: Choices) -> Callable[[Captioned], str]:
        return lambda captioned: name_in_folder(captioned.picture)


@dataclass(frozen=True)
class IdxPictures:
    """Greyscale pictures and class numbers in IDX files; `{}` in a path stands for the kind of file. `labels` are the
    names of the classes."""

    labels: tuple[str, ...]
    kind: ClassVar[str] = "labelled pictures"

    def files(self, path: str, choices: Choices) -> tuple[str, ...]:
        return tuple(path.format(kind) for kind in ("images-idx3", "labels-idx1"))

    def read(self, paths: tuple[Path, ...], choices: Choices, notes: Notes) -> Iterator[LabelledInput]:
        images, labels = paths
        pictures, numbers = idx_pictures(images), cached_idx(str(labels))
        if numbers.ndim != 1 or len(numbers) != len(pictures):
            raise UserError(
                f"{labels}: expected a label for each of the {len(pictures):,} pictures in {images}, found"
                f" {numbers.size:,}"
            )
        for picture, number in zip(pictures, numbers.tolist(), strict=True):
            place = f"{images}: picture {picture.number + 1}"
            if number >= len(self.labels):
                notes.fault(
                    "unknown class",
                    place,
                    f"its class is number {number}, but there are {len(self.labels)} classes, counted from 0",
                )
                continue
            yield LabelledInput(picture, (self.labels[number],), place)

    def key(self, choices: Choices) -> Callable[[LabelledInput], str]:
        return lambda example: example.key
