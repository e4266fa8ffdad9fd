"""Sounds with a label, or with several: a folder a class, tables, and corpora of recordings, whose label is the word that is spoken."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import Field

from clew.data.examples import LabelledSound
from clew.data.kinds.kind import Given, Kind, Parts, cut_files
from clew.data.kinds.section import Column
from clew.data.kinds.transcribed import SoundsData, check_input, recordings_of
from clew.data.notes import Notes
from clew.data.sound_readers import given_path, read_labelled_sounds


class LabelledSoundsData(SoundsData):
    """Where the labelled sounds come from: a corpus by name, or files of one's own."""

    label: Column | None = Field(None, description="labelled sounds in a table: the column of the label")
    label_separator: str | None = Field(None, min_length=1, description="what parts several labels in a field")


def labelled_sounds_of(data: LabelledSoundsData, seed: int, notes: Notes) -> Parts:
    """Sounds with labels; an unsplit set is split so that every label has its share on both sides."""
    data.check_given("data.train names your sounds, e.g. data.train=recordings, a folder with one for each class in it")
    if data.corpus is None:
        return cut_files(lambda files: labelled_sounds_in(files, data, notes), data, seed, by_label=True, key=split_key, check=check_input)
    found = recordings_of(data, seed, notes)
    return {part: [LabelledSound(each, (each.text,), each.id) for each in recordings] for part, recordings in found.items()}


def split_key(example: LabelledSound) -> str:
    """What decides in which part a sound comes to stand: its name with the folder around it, wherever that is."""
    return "/".join(Path(example.sound).parts[-2:])


def labelled_sounds_in(files: Given, data: LabelledSoundsData, notes: Notes) -> Iterator[LabelledSound]:
    options: dict[str, Any] = {name: getattr(data, name) for name in ("sound", "label", "label_separator", "format", "header")}
    return chain.from_iterable(read_labelled_sounds(file, notes=notes, **options) for file in files)


def labelled_sound_rows(examples: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """(path, label); several labels are a list."""
    for example in read_labelled_sounds(examples):
        yield {"sound": given_path(example.sound), "label": example.labels[0] if len(example.labels) == 1 else list(example.labels)}


LABELLED_SOUNDS = Kind(
    name="labelled sounds",
    section=LabelledSoundsData,
    read_parts=labelled_sounds_of,
    read_files=labelled_sounds_in,
    rows=labelled_sound_rows,
)
