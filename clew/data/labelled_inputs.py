"""Read labelled pictures or sounds from a folder for each class, from tables, or from a list in Python. Knows neither
pictures nor sounds: an `InputFiles` says how they are found.

No file is opened here; a missing file is a fault at its line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clew.data.examples import LabelledInput
from clew.data.files.class_folders import files_by_class
from clew.data.files.given_files import expand_home
from clew.data.notes import Notes
from clew.data.readers import FilePath, build_examples, listed_rows, table_rows
from clew.data.records import Column
from clew.data.values import as_labels, as_text


class InputFiles(NamedTuple):
    """How the files of one kind of input are named and found. `name` is the word for one in messages, `column` the
    column of their paths in tables."""

    name: str
    column: str
    endings: Sequence[str]
    at: Callable[[Path], Any]
    """Return the input for a file."""
    find: Callable[[str, Path], Any]
    """Return the input for a path in a table, relative to a folder; raise `Faulty` if there is none."""
    from_value: Callable[[Any], Any]
    """Return the input for a value from Python."""
    path: Callable[[Any], str]
    """Return the path of an input for a data file; refuse an input that is in no file."""
    check: Callable[[Any], object]
    """Refuse a file of another kind, judged by its header."""


def read_labelled_inputs(
    data: FilePath | Iterable[Any],
    files: InputFiles,
    *,
    column: Column | None = None,
    label: Column | None = None,
    label_separator: str | None = None,
    folder: Path | None = None,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[LabelledInput]:
    """Read a folder that has a folder for each class, or a table with columns of paths and labels. Paths are relative
    to the table's folder, or to `folder`. From Python: (path, label)."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        rows = listed_rows(data, LabelledInput, [(files.name, "label")])

        def from_python(values: Mapping[str, Any], place: str) -> LabelledInput:
            value = values["input"] if "input" in values else values[files.name]
            return LabelledInput(files.from_value(value), as_labels(values["label"], label_separator), place)

        return build_examples(rows, from_python, data, notes)
    path = expand_home(data)
    if path.is_dir():
        by_class = files_by_class(path, files.name, files.endings, notes)
        return (LabelledInput(files.at(file), (label,), str(file)) for file, label in by_class)
    root = path.parent if folder is None else folder

    def from_row(values: Mapping[str, Any], place: str) -> LabelledInput:
        labels = as_labels(values["label"], label_separator)
        return LabelledInput(files.find(as_text(values, files.column).strip(), root), labels, place)

    rows = table_rows(path, f"labelled {files.name}s", {files.column: column, "label": label}, format, header, notes)
    return without_repeats(build_examples(rows, from_row, data, notes), files.name, notes)


def without_repeats(examples: Iterable[LabelledInput], name: str, notes: Notes) -> Iterator[LabelledInput]:
    seen = set()
    for example in examples:
        if (example.input, example.labels) in seen:
            notes.skip(f"{name} listed twice with the same label", example.id)
            continue
        seen.add((example.input, example.labels))
        yield example
