"""Sounds or pictures that a data file names, or in a folder with one subfolder per class: their number, lengths and
sizes, read from their headers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clew.core.errors import UserError, counted
from clew.data.described import ColumnDescription, Use
from clew.data.files.class_folders import files_by_class
from clew.data.formats import FORMATS
from clew.data.notes import Notes
from clew.data.pictures import picture_decoding
from clew.data.pictures.references import find_picture
from clew.data.sounds import sound_files

What = Literal["sound", "picture"]
ENDINGS: dict[What, tuple[str, ...]] = {"sound": sound_files.ENDINGS, "picture": picture_decoding.ENDINGS}
TEXTS = ("text", "caption", "captions", "transcript", "transcription", "said", "sentence")
LABELS = ("label", "labels", "class", "category", "tag")
SHOWN_CLASSES = 12


@dataclass(frozen=True)
class NamedFiles:
    """Files of one kind. `rates` counts the sounds of each sample rate, `sizes` the pictures of each (height, width);
    `faults` are the errors of files that cannot be read."""

    what: What
    num_files: int
    seconds: float
    longest: float
    rates: dict[int, int]
    sizes: dict[tuple[int, int], int]
    faults: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        count = counted(self.num_files, f"{self.what} file")
        if self.what == "sound":
            rates = ", ".join(f"{rate:,} Hz ({number:,})" for rate, number in sorted(self.rates.items()))
            total = f"{self.seconds / 3600:.2f} hours" if self.seconds >= 3600 else f"{self.seconds:.1f} seconds"
            mean = self.seconds / max(sum(self.rates.values()), 1)
            summary = f"{total}: mean {mean:.2f} s, longest {self.longest:.2f} s; rates: {rates}" if rates else ""
        else:
            heights, widths = zip(*self.sizes, strict=True) if self.sizes else ((0,), (0,))
            ranges = f"{min(widths)} to {max(widths)} pixels wide, {min(heights)} to {max(heights)} high"
            summary = f"{ranges}, {counted(len(self.sizes), 'different size')}" if self.sizes else ""
        yield f"{count}, {summary}" if summary else count
        for fault in self.faults[:3]:
            yield f"cannot be read: {fault}"
        if len(self.faults) > 3:
            yield f"and {len(self.faults) - 3:,} more"


def measure_files(what: What, names: Iterable[str], folder: Path) -> NamedFiles:
    """Measure files by their headers; a file that is named several times counts once."""
    seconds, longest, rates, sizes, faults = 0.0, 0.0, Counter[int](), Counter[tuple[int, int]](), []
    unique_names = dict.fromkeys(names)
    for name in unique_names:
        try:
            if what == "sound":
                length = sound_files.sound_length(folder / Path(name).expanduser())
                seconds, longest = seconds + length.seconds, max(longest, length.seconds)
                rates[length.rate] += 1
            else:
                picture = find_picture(name, folder)
                if picture is None:
                    raise UserError(
                        f"there is no picture '{name}' in {folder}; set data.pictures if it is in another folder"
                    )
                height, width = picture.size()
                sizes[height, width] += 1
        except UserError as error:
            faults.append(str(error))
    return NamedFiles(what, len(unique_names), seconds, longest, dict(rates), dict(sizes), tuple(faults))


def find_file_column(
    columns: Iterable[ColumnDescription], examples: Iterable[dict[str, str]]
) -> tuple[str, What] | None:
    """Find the column whose examples are all names of sounds, or all names of pictures."""
    rows = list(examples)
    for column in columns:
        values = [row.get(column.name, "").strip().lower() for row in rows]
        for what, endings in ENDINGS.items():
            if values and all(value.endswith(endings) for value in values):
                return column.name, what
    return None


def find_file_folder(what: What, first: str, folder: Path) -> Path:
    """Find the folder of the files that a table names: the table's own folder or, for pictures, a subfolder of it."""
    subfolders = sorted(path for path in folder.iterdir() if path.is_dir()) if what == "picture" else []
    return next((path for path in (folder, *subfolders) if (path / first).is_file()), folder)


def read_file_names(path: Path, format: str, header: bool | None, column: str) -> Iterator[str]:
    for _, fields in FORMATS[format].rows(path, header, Notes(faults="skip")):
        if column in fields and fields[column].text.strip():
            yield fields[column].text.strip()


def suggest_use(what: What, column: str, columns: Iterable[ColumnDescription]) -> Use | None:
    """Suggest a recipe for files with a text or a label each."""
    other_columns = [other for other in columns if other.name != column]
    usual = next((other for name in (*TEXTS, *LABELS) for other in other_columns if other.name.lower() == name), None)
    target = usual or next(iter(other_columns), None)
    if target is None:
        return None
    is_label = target.name.lower() in LABELS or (usual is None and target.labels is not None)
    role = "label" if is_label else "text" if what == "sound" else "caption"
    recipe = {"sound": ("transcribe", "classify-sounds"), "picture": ("caption", "classify-pictures")}[what][is_label]
    file_role = "sound" if what == "sound" else "image"
    roles = {file_role: column, role: target.name}
    defaults = {"caption": ("caption", "captions")}
    return Use(
        recipe,
        {f"data.{name}": column for name, column in roles.items() if column not in defaults.get(name, (name,))},
    )


def measure_class_folder(folder: Path) -> tuple[What, Counter[str], NamedFiles] | None:
    """Measure a folder with one subfolder per class, and count the files of each class. Return None if its subfolders
    hold neither sounds nor pictures."""
    for what, endings in ENDINGS.items():
        try:
            labelled_paths = list(files_by_class(folder, what, endings, Notes()))
        except UserError:
            continue
        files = measure_files(what, (str(path.relative_to(folder)) for path, _ in labelled_paths), folder)
        return what, Counter(label for _, label in labelled_paths), files
    return None


def class_lines(folder: Path, classes: Counter[str], files: NamedFiles) -> Iterator[str]:
    yield f"{folder}: one folder per class, {len(classes)} classes"
    yield from files.lines()
    largest = classes.most_common(SHOWN_CLASSES)
    rest = f", and {len(classes) - len(largest)} more" if len(classes) > len(largest) else ""
    yield "classes: " + ", ".join(f"{name} {count:,}" for name, count in largest) + rest
