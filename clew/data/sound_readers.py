"""Sounds with what is said in them, or with labels: tables, whose paths are relative to the table, and folders a class. No sound is opened
here; one that is not there is a fault at its line."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.data.class_folders import files_by_class
from clew.data.examples import LabelledSound, Transcribed
from clew.data.notes import Notes
from clew.data.readers import FilePath, as_path, built, listed_rows, table_rows
from clew.data.records import Column
from clew.data.sound_files import ENDINGS
from clew.data.values import Faulty, as_labels, as_text


def read_transcribed(
    data: FilePath | Iterable[Any],
    *,
    sound: Column | None = None,
    text: Column | None = None,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[Transcribed]:
    """Sounds with texts: a table with columns `sound` and `text`. From Python: (path, text)."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        rows = listed_rows(data, Transcribed, [("sound", "text")])
        return built(rows, lambda values, place: Transcribed(values["sound"], as_text(values, "text"), place), data, notes)
    path = as_path(data)
    rows = table_rows(path, "transcribed sounds", {"sound": sound, "text": text}, format, header, notes)
    return built(rows, lambda values, place: Transcribed(found_sound(values, path), as_text(values, "text"), place), data, notes)


def read_labelled_sounds(
    data: FilePath | Iterable[Any],
    *,
    sound: Column | None = None,
    label: Column | None = None,
    label_separator: str | None = None,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[LabelledSound]:
    """Sounds with labels: a folder with one for each class, or a table with columns `sound` and `label`. From Python: (path, label)."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        rows = listed_rows(data, LabelledSound, [("sound", "label")])
        return built(
            rows, lambda values, place: LabelledSound(values["sound"], as_labels(values["label"], label_separator), place), data, notes
        )
    path = as_path(data)
    if path.is_dir():
        return (LabelledSound(str(file), labels, str(file)) for file, labels in files_by_class(path, "sound", ENDINGS, notes))
    rows = table_rows(path, "labelled sounds", {"sound": sound, "label": label}, format, header, notes)
    return built(
        rows,
        lambda values, place: LabelledSound(found_sound(values, path), as_labels(values["label"], label_separator), place),
        data,
        notes,
    )


def given_path(sound: Any) -> str:
    """A sound from Python as a data file names it."""
    if not isinstance(sound, (Path, str)):
        raise UserError(f"examples are written to a file, which names sounds by their paths, and a {type(sound).__name__} has none")
    return str(Path(sound).expanduser().absolute())


def found_sound(values: Mapping[str, Any], table: Path) -> str:
    """The path of a row's sound file."""
    name = as_text(values, "sound").strip()
    path = table.parent / Path(name).expanduser()
    if not path.is_file():
        raise Faulty("no such sound", f"there is no file {path}; paths are relative to {table.parent}")
    return str(path)
