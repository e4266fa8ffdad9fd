"""Pictures or sounds with labels: a folder a class, tables, or a list from Python. Knows neither: an `InputFiles` says
how they are found.

No file is opened here; one that is not there is a fault at its line.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clew.data.examples import LabelledInput
from clew.data.files.class_folders import files_by_class
from clew.data.files.given_files import at_home
from clew.data.notes import Notes
from clew.data.readers import FilePath, built, listed_rows, table_rows
from clew.data.records import Column
from clew.data.values import as_labels, as_text


class InputFiles(NamedTuple):
    """How the files of one kind of input are named and found; `name` is what sentences call one, `column` that of their
    paths in tables."""

    name: str
    column: str
    endings: Sequence[str]
    at: Callable[[Path], Any]
    """The input that a file is."""
    find: Callable[[str, Path], Any]
    """The input that a table calls by a path from a folder; `Faulty` where there is none."""
    given: Callable[[Any], Any]
    """The input that Python gives."""
    path: Callable[[Any], str]
    """An input as a data file names it; refused where it is in no file."""
    check: Callable[[Any], object]
    """Refuses what is no such file, by its header."""


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
    """A folder with one for each class, or a table with columns of paths and labels, paths being from its folder or
    from `folder`. From Python: (path, label)."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        rows = listed_rows(data, LabelledInput, [(files.name, "label")])

        def from_python(values: Mapping[str, Any], place: str) -> LabelledInput:
            given = values["input"] if "input" in values else values[files.name]
            return LabelledInput(files.given(given), as_labels(values["label"], label_separator), place)

        return built(rows, from_python, data, notes)
    path = at_home(data)
    if path.is_dir():
        found = files_by_class(path, files.name, files.endings, notes)
        return (LabelledInput(files.at(file), (label,), str(file)) for file, label in found)
    around = path.parent if folder is None else folder

    def from_row(values: Mapping[str, Any], place: str) -> LabelledInput:
        labels = as_labels(values["label"], label_separator)
        return LabelledInput(files.find(as_text(values, files.column).strip(), around), labels, place)

    rows = table_rows(path, f"labelled {files.name}s", {files.column: column, "label": label}, format, header, notes)
    return without_repeats(built(rows, from_row, data, notes), files.name, notes)


def without_repeats(examples: Iterable[LabelledInput], name: str, notes: Notes) -> Iterator[LabelledInput]:
    seen = set()
    for example in examples:
        if (example.input, example.labels) in seen:
            notes.skip(f"{name} that is there twice with the same label", example.id)
            continue
        seen.add((example.input, example.labels))
        yield example
