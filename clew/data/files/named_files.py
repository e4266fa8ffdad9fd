"""Sounds or pictures that a data file names, or that lie in a folder a class: how many, how long or large, by their
headers."""

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
    """Files of one kind. `rates` is how many sounds have a rate, `sizes` how many pictures a height and width; `faults`
    are sentences on those that cannot be read."""

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
            whole = f"{self.seconds / 3600:.2f} hours" if self.seconds >= 3600 else f"{self.seconds:.1f} seconds"
            mean = self.seconds / max(sum(self.rates.values()), 1)
            measured = f"{whole}: mean {mean:.2f} s, longest {self.longest:.2f} s; rates: {rates}" if rates else ""
        else:
            heights, widths = zip(*self.sizes, strict=True) if self.sizes else ((0,), (0,))
            spans = f"{min(widths)} to {max(widths)} pixels wide, {min(heights)} to {max(heights)} high"
            measured = f"{spans}, {counted(len(self.sizes), 'different size')}" if self.sizes else ""
        yield f"{count}, {measured}" if measured else count
        for fault in self.faults[:3]:
            yield f"cannot be read: {fault}"
        if len(self.faults) > 3:
            yield f"and {len(self.faults) - 3:,} more"


def measure_files(what: What, names: Iterable[str], folder: Path) -> NamedFiles:
    """Each file once, by its header."""
    seconds, longest, rates, sizes, faults = 0.0, 0.0, Counter[int](), Counter[tuple[int, int]](), []
    known = dict.fromkeys(names)
    for name in known:
        try:
            if what == "sound":
                length = sound_files.sound_length(folder / Path(name).expanduser())
                seconds, longest = seconds + length.seconds, max(longest, length.seconds)
                rates[length.rate] += 1
            else:
                picture = find_picture(name, folder)
                if picture is None:
                    raise UserError(
                        f"there is no picture '{name}' in {folder}; data.pictures names the folder, where it is another"
                    )
                height, width = picture.size()
                sizes[height, width] += 1
        except UserError as error:
            faults.append(str(error))
    return NamedFiles(what, len(known), seconds, longest, dict(rates), dict(sizes), tuple(faults))


def column_of_files(
    columns: Iterable[ColumnDescription], examples: Iterable[dict[str, str]]
) -> tuple[str, What] | None:
    """The column whose examples are all names of sounds, or of pictures."""
    seen = list(examples)
    for column in columns:
        values = [fields.get(column.name, "").strip().lower() for fields in seen]
        for what, endings in ENDINGS.items():
            if values and all(value.endswith(endings) for value in values):
                return column.name, what
    return None


def folder_of(what: What, first: str, folder: Path) -> Path:
    """Where pictures are that a table in a folder names: there, or in a folder beside the table."""
    beside = sorted(each for each in folder.iterdir() if each.is_dir()) if what == "picture" else []
    return next((each for each in (folder, *beside) if (each / first).is_file()), folder)


def names_in(path: Path, format: str, header: bool | None, column: str) -> Iterator[str]:
    for _, fields in FORMATS[format].rows(path, header, Notes(faults="skip")):
        if column in fields and fields[column].text.strip():
            yield fields[column].text.strip()


def use_of_files(what: What, column: str, columns: Iterable[ColumnDescription]) -> Use | None:
    """The recipe that reads them: with a text beside each, or with a label."""
    others = [each for each in columns if each.name != column]
    named = next((each for name in (*TEXTS, *LABELS) for each in others if each.name.lower() == name), None)
    other = named or next(iter(others), None)
    if other is None:
        return None
    is_label = other.name.lower() in LABELS or (named is None and other.labels is not None)
    role = "label" if is_label else "text" if what == "sound" else "caption"
    recipe = {"sound": ("transcribe", "classify-sounds"), "picture": ("caption", "classify-pictures")}[what][is_label]
    reads = "sound" if what == "sound" else "image"
    roles = {reads: column, role: other.name}
    own = {"caption": ("caption", "captions")}
    return Use(recipe, {f"data.{name}": found for name, found in roles.items() if found not in own.get(name, (name,))})


def class_folder(folder: Path) -> tuple[What, Counter[str], NamedFiles] | None:
    """A folder a class, with how many files each has; None where it holds neither sounds nor pictures so."""
    for what, endings in ENDINGS.items():
        try:
            found = list(files_by_class(folder, what, endings, Notes()))
        except UserError:
            continue
        files = measure_files(what, (str(path.relative_to(folder)) for path, _ in found), folder)
        return what, Counter(label for _, label in found), files
    return None


def class_lines(folder: Path, classes: Counter[str], files: NamedFiles) -> Iterator[str]:
    yield f"{folder}: a folder a class, {len(classes)} classes"
    yield from files.lines()
    most = classes.most_common(SHOWN_CLASSES)
    more = f", and {len(classes) - len(most)} more" if len(classes) > len(most) else ""
    yield "classes: " + ", ".join(f"{name} {count:,}" for name, count in most) + more
