"""Inspect a data file: its format, columns, lengths, labels, duplicates, and the lines that cannot be used.

This takes one pass over the file, which keeps a few numbers for each record and no text.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError, counted
from clew.data.described import ColumnDescription, Distribution, Field, Row, text_field
from clew.data.files.encodings import Guess
from clew.data.files.folders import OBJECTS, TEXTS, ending, files_below, has_bytes
from clew.data.files.given_files import expand_home
from clew.data.files.text_files import FIELD
from clew.data.format import text_table_rows
from clew.data.formats import FORMATS, find_format
from clew.data.formats.csv_files import SEPARATED, delimiter_at
from clew.data.formats.json_files import JSONL, MOST_COLUMNS
from clew.data.formats.line_files import read_parallel
from clew.data.formats.tsv_files import is_numeric
from clew.data.lines import find_encoding, read_lines
from clew.data.notes import Notes
from clew.data.records import check_found

NUM_EXAMPLES = 3
MOST_LABELS = 100
"""A column with more distinct values than this holds no labels."""
SHOWN_LABELS = 12
SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class Description:
    """The result of inspecting a file. `stopped` is the error that ended reading early, if any. With two texts, `ratio`
    is the number of words of the second for each word of the first."""

    path: str
    format: str
    num_records: int
    columns: tuple[ColumnDescription, ...]
    examples: tuple[tuple[str, Mapping[str, str]], ...]
    num_duplicates: int
    skipped: Mapping[str, int]
    num_faults: int
    faults: tuple[str, ...]
    stopped: str | None
    ratio: Distribution | None
    num_files: int | None = None
    """For a folder."""
    encoding: Guess | None = None
    """For a file that is not UTF-8."""
    delimiter: str | None = None
    """The character that separates the fields of a CSV file."""

    def __repr__(self) -> str:
        return "\n".join(report_lines(self))


def describe(
    path: Path | str, target: Path | str | None = None, *, format: str | None = None, header: bool | None = None
) -> Description:
    """Inspect a file, or the text and JSON lines files of a folder; with `target`, two files of parallel text. Refuses
    data without a single readable record."""
    path = expand_home(path)
    notes, num_files = Notes(faults="skip"), None
    rows: Iterator[Row]
    if target is None and path.is_dir() and (files := files_below(path, (*TEXTS, *OBJECTS), has_bytes)):
        if format is not None or header is not None:
            raise UserError(
                f"{path} is a folder: its .txt files are read as text and its .jsonl files as JSON lines; give a format"
                " for a single file only"
            )
        format, num_files = "jsonl" if all(ending(file) in OBJECTS for file in files) else "lines", len(files)
        rows = chain.from_iterable(folder_rows(file, format, notes) for file in files)
    elif target is None:
        format = find_format(path, format)
        rows = FORMATS[format].rows(path, header, notes)
    else:
        format = "parallel"
        rows = text_table_rows(lambda path, **_: read_parallel(path, expand_home(target), notes=notes))(
            path, None, notes
        )
    survey, stopped = Survey(), None
    try:
        for place, fields in rows:
            survey.add(place, fields)
    except UserError as error:
        if not survey.num_records:
            raise
        stopped = str(error)
    check_found(survey.num_records > 0, path, False, notes)
    encoding = find_encoding(path) if num_files is None and path.is_file() else None
    delimiter = delimiter_at(path) if format == "csv" and num_files is None else None
    description = survey.description(str(path), format, notes, stopped)
    return replace(description, num_files=num_files, encoding=encoding, delimiter=delimiter)


def folder_rows(path: Path, format: str, notes: Notes) -> Iterator[Row]:
    """Read a file of a folder as training does: if the folder has plain text too, only the field `text` of JSON
    lines."""
    if ending(path) in TEXTS:
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip():
                yield f"{path}:{number}", {FIELD: text_field(line)}
            else:
                notes.skip("empty line", f"{path}:{number}")
        return
    for place, fields in JSONL.rows(path, None, notes):
        if format == "jsonl":
            yield place, fields
        elif FIELD in fields:
            yield place, {FIELD: fields[FIELD]}
        else:
            notes.fault(
                "no text", place, f"this object has no field '{FIELD}', the only one read in a folder with plain text"
            )


class ColumnSurvey:
    """Running counts of one column."""

    def __init__(self) -> None:
        self.words = array("I")
        self.characters = array("I")
        self.hashes = array("q")
        self.labels: Counter[str] = Counter()
        self.num_empty = 0
        self.is_list = self.is_blank = True
        self.is_comment = False
        self.is_number = True
        self.has_fractions = False

    def add(self, field: Field) -> None:
        self.words.append(min(field.num_words, 2**32 - 1))
        self.characters.append(min(len(field.text), 2**32 - 1))
        self.hashes.append(hash(field.text))
        self.num_empty += not field.text or field.text.isspace()
        self.is_list &= field.is_list
        self.is_blank &= set(field.text) <= {"_", " "} and "_" in field.text
        self.is_comment = field.is_comment
        if self.is_number and (text := field.text.strip()):
            self.is_number = is_numeric(text)
            self.has_fractions |= self.is_number and not float(text).is_integer()
        if len(self.labels) <= MOST_LABELS:
            self.labels.update(field.labels)

    def description(self, name: str) -> ColumnDescription:
        num_different = len(np.unique(np.asarray(self.hashes)))
        is_label = 0 < len(self.labels) <= MOST_LABELS and 2 * len(self.labels) <= self.labels.total()
        labels = dict(sorted(self.labels.items(), key=lambda item: (-item[1], item[0]))) if is_label else None
        lengths = distribution(self.words), distribution(self.characters)
        return ColumnDescription(
            name,
            self.num_empty,
            num_different,
            *lengths,
            labels,
            self.is_list,
            self.is_blank,
            self.is_comment,
            self.is_number and self.has_fractions,
        )


class Survey:
    """Running counts of a file, filled row by row."""

    def __init__(self) -> None:
        self.num_records = 0
        self.columns: dict[str, ColumnSurvey] = {}
        self.hashes = array("q")
        self.examples: list[tuple[str, Mapping[str, str]]] = []

    def add(self, place: str, fields: dict[str, Field]) -> None:
        self.num_records += 1
        for name, field in fields.items():
            column = self.columns.get(name)
            if column is None:
                if len(self.columns) >= MOST_COLUMNS:
                    continue
                column = self.columns[name] = ColumnSurvey()
            column.add(field)
        self.hashes.append(hash(tuple(field.text for field in fields.values() if not field.is_comment)))
        if len(self.examples) < NUM_EXAMPLES:
            self.examples.append((place, {name: field.text for name, field in fields.items()}))

    def description(self, path: str, format: str, notes: Notes, stopped: str | None) -> Description:
        described = (column.description(name) for name, column in self.columns.items())
        columns = tuple(column for column in described if not column.is_comment or self.is_label(column))
        names = {column.name for column in columns}
        return Description(
            path,
            format,
            self.num_records,
            columns,
            tuple(
                (place, {name: text for name, text in fields.items() if name in names})
                for place, fields in self.examples
            ),
            self.num_records - len(np.unique(np.asarray(self.hashes))),
            dict(notes.skipped),
            notes.num_faults,
            tuple(notes.sentences),
            stopped,
            (
                self.ratio([column.name for column in columns if is_text(column, format)])
                if FORMATS[format].records is not None or format == "parallel"
                else None
            ),
        )

    def is_label(self, comment: ColumnDescription) -> bool:
        """Whether every sentence has the comment, and its values are few and repeat."""
        return (
            comment.labels is not None and len(comment.labels) > 1 and sum(comment.labels.values()) == self.num_records
        )

    def ratio(self, texts: list[str]) -> Distribution | None:
        """The words of the second text for each word of the first, if every record has exactly two texts."""
        if len(texts) != 2 or any(len(self.columns[name].words) != self.num_records for name in texts):
            return None
        first, second = (np.asarray(self.columns[name].words, dtype=float) for name in texts)
        full = first > 0
        return distribution(second[full] / first[full]) if full.any() else None


def is_text(column: ColumnDescription, format: str) -> bool:
    """Whether a column holds texts: not labels, and not single words such as names and numbers."""
    return format == "parallel" or (column.labels is None and column.words.max > 1)


def distribution(values: Any) -> Distribution:
    numbers = np.asarray(values)
    median, percentile_95 = np.quantile(numbers, [0.5, 0.95], method="inverted_cdf")
    return Distribution(float(numbers.mean()), float(median), float(percentile_95), float(numbers.max()))


def report_lines(description: Description) -> Iterator[str]:
    """Yield the lines of the report that users see."""
    num_files = "" if description.num_files is None else f", {counted(description.num_files, 'file')}"
    about = FORMATS[description.format].about
    if description.delimiter is not None:
        about = f"{SEPARATED.get(description.delimiter, repr(description.delimiter))}-separated values"
    yield f"{description.path}: {about}{num_files}, {counted(description.num_records, 'record')}"
    if description.encoding is not None:
        yield (
            f"encoding: {description.encoding.encoding}, as {description.encoding.reason}; data.encoding=NAME"
            " overrides this"
        )
    for column in description.columns:
        num_different = column.num_different if column.labels is None else len(column.labels)
        if column.is_blank:
            yield f"column {column.name}: all _"
            continue
        empty = f", {column.num_empty:,} empty" if column.num_empty else ""
        yield f"{'comment' if column.is_comment else 'column'} {column.name}: {num_different:,} different{empty}"
        if column.labels is None:
            yield f"  words: {column.words}"
            yield f"  characters: {column.characters}"
        else:
            yield f"  labels: {format_labels(column.labels)}"
    if description.format == "lines":
        (column,) = description.columns
        words, characters = (
            round(lengths.mean * description.num_records) for lengths in (column.words, column.characters)
        )
        num_lines = description.num_records + sum(description.skipped.values())
        yield f"in all: {counted(words, 'word')}, {counted(characters + num_lines, 'character')} with the line ends"
    if description.ratio is not None:
        yield f"words of the second text for each word of the first: {format_ratio(description.ratio)}"
    repeat = "repeats" if description.num_duplicates == 1 else "repeat"
    yield f"duplicates: {counted(description.num_duplicates, 'record')} {repeat} an earlier one"
    for reason, count in description.skipped.items():
        yield f"skipped: {count:,} x {reason}"
    yield from (f"bad: {sentence}" for sentence in description.faults)
    if description.num_faults > len(description.faults):
        yield f"bad: {description.num_faults - len(description.faults):,} more"
    if description.stopped is not None:
        yield f"not read to the end: {description.stopped}"
    blank = {column.name for column in description.columns if column.is_blank}
    for place, fields in description.examples:
        yield f"example, {place}"
        yield from (f"  {name}: {shortened_value(text)}" for name, text in fields.items() if name not in blank)


def format_labels(labels: Mapping[str, int]) -> str:
    total = sum(labels.values())
    first = list(labels.items())[:SHOWN_LABELS]
    more = f" and {len(labels) - len(first)} more" if len(labels) > len(first) else ""
    return ", ".join(f"{label or '(empty)'} {count:,} ({count / total:.1%})" for label, count in first) + more


def format_ratio(ratio: Distribution) -> str:
    return f"mean {ratio.mean:.2f}, median {ratio.median:.2f}, 95 % {ratio.percentile_95:.2f}, max {ratio.max:.2f}"


def shortened_value(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
