"""What was understood of a data file: its format, columns, lengths, labels, duplicates, and the lines that cannot be used.

A description is made in one pass that holds a few numbers a record, no text.
"""

import json
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clew.core.errors import UserError, counted
from clew.core.trees import Tree
from clew.data.conll_files import Block, read_blocks
from clew.data.conllu_files import COLUMNS, read_conllu_blocks
from clew.data.documents import OBJECTS, TEXTS, has_bytes
from clew.data.folders import ending, files_below
from clew.data.formats import FORMATS, find_format, read_records
from clew.data.heads import read_heads
from clew.data.json_files import dotted_names, value_at
from clew.data.line_files import read_parallel
from clew.data.lines import opened, read_lines
from clew.data.notes import Notes
from clew.data.records import Record, check_found
from clew.data.squad_files import read_squad
from clew.data.text_files import FIELD
from clew.data.trees import cleaned, format_tree, parse_lines

NUM_EXAMPLES = 3
MOST_LABELS = 100
"""A column with more different values than this holds no labels."""
MOST_COLUMNS = 100
WITHOUT_LABELS = ("form", "lemma", "head", "deps", "misc")
"""Columns of CoNLL-U that hold none."""
SHOWN_LABELS = 12
SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class Distribution:
    mean: float
    median: float
    percentile_95: float
    max: float

    def __str__(self) -> str:
        return f"mean {self.mean:.1f}, median {self.median:g}, 95 % {self.percentile_95:g}, max {self.max:g}"


@dataclass(frozen=True)
class ColumnDescription:
    """One column. `labels` counts its values where they are few and come again; in CoNLL files those of every word, in trees those of
    every phrase. `is_list` says that a record has a list of strings there, `is_blank` that every word has `_`, and `is_comment` that it is
    no column but what a comment tells of a whole sentence."""

    name: str
    num_empty: int
    num_different: int
    words: Distribution
    characters: Distribution
    labels: Mapping[str, int] | None
    is_list: bool = False
    is_blank: bool = False
    is_comment: bool = False


@dataclass(frozen=True)
class Description:
    """A file as it was read. `stopped` is the sentence of what kept the rest from being read; `ratio` the words of the second text for each
    word of the first, where there are two."""

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
    """Of a folder."""

    def __repr__(self) -> str:
        return "\n".join(shown(self))


def describe(path: Path | str, target: Path | str | None = None, *, format: str | None = None, header: bool | None = None) -> Description:
    """What is in a file, or of text and JSON lines in a folder; with `target`, in two files of parallel text. A file of which nothing can
    be read is refused."""
    path = Path(path).expanduser()
    notes, num_files = Notes(faults="skip"), None
    rows: Iterator[Row]
    if target is None and path.is_dir() and (files := files_below(path, (*TEXTS, *OBJECTS), has_bytes)):
        if format is not None or header is not None:
            raise UserError(f"{path} is a folder, of which .txt files are text and .jsonl files JSON lines; a format is for a file")
        format, num_files = "jsonl" if all(ending(file) in OBJECTS for file in files) else "lines", len(files)
        rows = chain.from_iterable(folder_rows(file, format, notes) for file in files)
    elif target is None:
        format = find_format(path, format)
        rows = read_rows(path, format, header, notes)
    else:
        format = "parallel"
        rows = table_rows(read_parallel(path, Path(target).expanduser(), notes=notes))
    survey, stopped = Survey(), None
    try:
        for place, fields in rows:
            survey.add(place, fields)
    except UserError as error:
        if not survey.num_records:
            raise
        stopped = str(error)
    check_found(survey.num_records > 0, path, False, notes)
    return replace(survey.description(str(path), format, notes, stopped), num_files=num_files)


class Field(NamedTuple):
    """A value as text, how many words it has, and what may be labels in it."""

    text: str
    num_words: int
    labels: Iterable[str]
    is_list: bool = False
    is_comment: bool = False


Row = tuple[str, dict[str, Field]]


def read_rows(path: Path, format: str, header: bool | None, notes: Notes) -> Iterator[Row]:
    if format == "conll":
        return conll_rows(path, notes)
    if format == "conllu":
        return conllu_rows(path, notes)
    if FORMATS[format].nested:
        return json_rows(read_records(path, format, notes=notes))
    if format == "trees":
        return tree_rows(path, notes)
    if format == "squad":
        return question_rows(path, notes)
    if format == "parallel":
        raise UserError(f"{path}: parallel text is two files; name both, first the one that is read and then its translation")
    return table_rows(read_records(path, format, header=header, notes=notes))


def folder_rows(path: Path, format: str, notes: Notes) -> Iterator[Row]:
    """A file of a folder as training reads it: of JSON lines, where others are plain text, the field `text` alone."""
    if ending(path) in TEXTS:
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip():
                yield f"{path}:{number}", {FIELD: text_field(line)}
            else:
                notes.skip("empty line", f"{path}:{number}")
        return
    for place, fields in json_rows(read_records(path, "jsonl", notes=notes)):
        if format == "jsonl":
            yield place, fields
        elif FIELD in fields:
            yield place, {FIELD: fields[FIELD]}
        else:
            notes.fault("no text", place, f"this object has no field '{FIELD}', which is what is read beside plain text")


def table_rows(records: Iterable[Record]) -> Iterator[Row]:
    for record in records:
        yield record.place, {name: text_field(value) for name, value in record.values.items()}


def json_rows(records: Iterable[Record]) -> Iterator[Row]:
    for record in records:
        names = dotted_names(record.values)[:MOST_COLUMNS]
        yield record.place, {name: json_field(value_at(record.values, name)) for name in names}


def conll_rows(path: Path, notes: Notes) -> Iterator[Row]:
    """Columns by number. The words, which are no labels, are the first column that is no number."""
    words = None
    for block in read_blocks(path, notes):
        columns = {str(number): column for number, column in enumerate(zip(*block.rows, strict=True), start=1)}
        if words is None:
            words = next((name for name, column in columns.items() if not all(map(str.isdigit, column))), "1")
        yield block_row(path, block, columns, (words,))


def conllu_rows(path: Path, notes: Notes) -> Iterator[Row]:
    """Columns by name, and the comments. Sentences whose heads are no tree are faults."""
    for block in read_conllu_blocks(path, notes):
        columns = dict(list(zip(COLUMNS, zip(*block.rows, strict=True), strict=True))[1:])
        _, fault = read_heads(columns["head"])
        if fault is not None:
            notes.fault("bad head", f"{path}:{block.lines[fault.word]}", fault.sentence)
            continue
        place, fields = block_row(path, block, columns, WITHOUT_LABELS)
        comments = {name: text_field(text)._replace(is_comment=True) for name, text in block.comments.items() if name not in fields}
        yield place, {**fields, **comments}


def block_row(path: Path, block: Block, columns: Mapping[str, tuple[str, ...]], without_labels: Collection[str]) -> Row:
    fields = {name: Field(" ".join(words), len(words), () if name in without_labels else words) for name, words in columns.items()}
    return f"{path}:{block.lines[0]}", fields


def tree_rows(path: Path, notes: Notes) -> Iterator[Row]:
    """Trees as parsers learn them: no traces, no function tags, one root. Where words and phrases share labels, these are classes, and the
    trees stay as they are."""
    has_classes: bool | None = None
    with opened(path) as lines:
        for number, (tree, _) in enumerate(parse_lines(lines, str(path)), start=1):
            place = f"{path}:tree {number}"
            if has_classes is None:
                has_classes = not set(tree.tags).isdisjoint(phrases_of(tree))
            clean = tree if has_classes else cleaned(tree)
            if clean is None:
                notes.skip("trees of traces alone", place)
                continue
            words, tags, phrases = clean.words, clean.tags, phrases_of(clean)
            fields = {"words": Field(" ".join(words), len(words), ()), "tags": Field(" ".join(tags), len(tags), tags)}
            if has_classes:
                fields = {"words": fields["words"], "label": text_field(clean.label)}
            yield place, {**fields, "tree": Field(format_tree(clean), len(words), [*tags, *phrases] if has_classes else phrases[1:])}


def question_rows(path: Path, notes: Notes) -> Iterator[Row]:
    """Questions with their first answer, which is empty where the passage has none."""
    for example in read_squad(path, notes):
        texts = {"question": example.question, "passage": example.passage, "answer": "".join(example.texts[:1])}
        yield f"{path}: question {example.id}", {name: text_field(text)._replace(labels=()) for name, text in texts.items()}


def phrases_of(tree: Tree) -> list[str]:
    return [node.label for node in tree.nodes() if not node.is_leaf]


def text_field(text: str) -> Field:
    return Field(text, len(text.split()), (text.strip(),))


def json_field(value: Any) -> Field:
    if isinstance(value, str):
        return text_field(value)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return Field(" ".join(value), len(value), value, is_list=True)
    return text_field("" if value is None else json.dumps(value, ensure_ascii=False))


class ColumnSurvey:
    def __init__(self) -> None:
        self.words = array("I")
        self.characters = array("I")
        self.hashes = array("q")
        self.labels: Counter[str] = Counter()
        self.num_empty = 0
        self.is_list = self.is_blank = True
        self.is_comment = False

    def add(self, field: Field) -> None:
        self.words.append(min(field.num_words, 2**32 - 1))
        self.characters.append(min(len(field.text), 2**32 - 1))
        self.hashes.append(hash(field.text))
        self.num_empty += not field.text or field.text.isspace()
        self.is_list &= field.is_list
        self.is_blank &= set(field.text) <= {"_", " "} and "_" in field.text
        self.is_comment = field.is_comment
        if len(self.labels) <= MOST_LABELS:
            self.labels.update(field.labels)

    def description(self, name: str) -> ColumnDescription:
        num_different = len(np.unique(np.asarray(self.hashes)))
        is_label = 0 < len(self.labels) <= MOST_LABELS and 2 * len(self.labels) <= self.labels.total()
        labels = dict(sorted(self.labels.items(), key=lambda item: (-item[1], item[0]))) if is_label else None
        lengths = distribution(self.words), distribution(self.characters)
        return ColumnDescription(name, self.num_empty, num_different, *lengths, labels, self.is_list, self.is_blank, self.is_comment)


class Survey:
    """Counts, filled row by row."""

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
            tuple((place, {name: text for name, text in fields.items() if name in names}) for place, fields in self.examples),
            self.num_records - len(np.unique(np.asarray(self.hashes))),
            dict(notes.skipped),
            notes.num_faults,
            tuple(notes.sentences),
            stopped,
            self.ratio([column.name for column in columns if is_text(column, format)])
            if FORMATS[format].read is not None or format == "parallel"
            else None,
        )

    def is_label(self, comment: ColumnDescription) -> bool:
        """Whether every sentence has the comment, with a value of few that come again."""
        return comment.labels is not None and len(comment.labels) > 1 and sum(comment.labels.values()) == self.num_records

    def ratio(self, texts: list[str]) -> Distribution | None:
        """Words of the second text for each of the first, where there are just two in every record."""
        if len(texts) != 2 or any(len(self.columns[name].words) != self.num_records for name in texts):
            return None
        first, second = (np.asarray(self.columns[name].words, dtype=float) for name in texts)
        full = first > 0
        return distribution(second[full] / first[full]) if full.any() else None


def is_text(column: ColumnDescription, format: str) -> bool:
    """Whether a column holds texts: no labels, and not a word each as names and numbers are."""
    return format == "parallel" or (column.labels is None and column.words.max > 1)


def distribution(values: Any) -> Distribution:
    numbers = np.asarray(values)
    median, percentile_95 = np.quantile(numbers, [0.5, 0.95], method="inverted_cdf")
    return Distribution(float(numbers.mean()), float(median), float(percentile_95), float(numbers.max()))


def shown(description: Description) -> Iterator[str]:
    """The lines of a description."""
    files = "" if description.num_files is None else f", {counted(description.num_files, 'file')}"
    yield f"{description.path}: {FORMATS[description.format].about}{files}, {counted(description.num_records, 'record')}"
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
            yield f"  labels: {shown_labels(column.labels)}"
    if description.format == "lines":
        (column,) = description.columns
        words, characters = (round(lengths.mean * description.num_records) for lengths in (column.words, column.characters))
        num_lines = description.num_records + sum(description.skipped.values())
        yield f"in all: {counted(words, 'word')}, {counted(characters + num_lines, 'character')} with the line ends"
    if description.ratio is not None:
        yield f"words of the second text for each word of the first: {shown_ratio(description.ratio)}"
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
        yield from (f"  {name}: {shortened(text)}" for name, text in fields.items() if name not in blank)


def shown_labels(labels: Mapping[str, int]) -> str:
    total = sum(labels.values())
    first = list(labels.items())[:SHOWN_LABELS]
    more = f" and {len(labels) - len(first)} more" if len(labels) > len(first) else ""
    return ", ".join(f"{label or '(empty)'} {count:,} ({count / total:.1%})" for label, count in first) + more


def shown_ratio(ratio: Distribution) -> str:
    return f"mean {ratio.mean:.2f}, median {ratio.median:.2f}, 95 % {ratio.percentile_95:.2f}, max {ratio.max:.2f}"


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
