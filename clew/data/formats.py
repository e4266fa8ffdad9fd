"""Which format a file has: by its extension, else by what stands in its first lines."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from clew.core.errors import unknown
from clew.data.conll_files import is_comment, parted
from clew.data.csv_files import find_delimiter, read_csv
from clew.data.json_files import read_jsonl
from clew.data.line_files import read_line_texts
from clew.data.lines import read_lines
from clew.data.records import Record
from clew.data.tsv_files import is_value, read_tsv

SAMPLE = 2**16
"""Characters that are looked at."""

EXTENSIONS = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".conll": "conll",
    ".conllu": "conllu",
    ".mrg": "trees",
    ".ptb": "trees",
    ".tree": "trees",
    ".trees": "trees",
}
"""What tells a format by itself. `.txt` may hold any, and `.tsv` CoNLL columns."""

SQUAD = re.compile(r'\s*\{\s*("version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\[')
TREE = re.compile(r"\s*\(\s*[^\s()]*\s*\(")
WORD_NUMBER = re.compile(r"\d+([-.]\d+)?")
TAG = re.compile(r"[^a-z\s]+|[BIOESLU]-\S+")


def find_format(path: Path, format: str | None = None, *, tables_alone: bool = False) -> str:
    """The format asked for, if it is one; else the one that the file seems to have. With `tables_alone` a .tsv is what it says it is, and
    never CoNLL columns."""
    if format is None:
        return recognise(path, tables_alone)
    if format not in FORMATS:
        raise unknown("data.format", format, FORMATS)
    return format


def recognise(path: Path, tables_alone: bool = False) -> str:
    """By extension, .gz aside; else by content."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = next(reversed(suffixes[:-1] if suffixes[-1:] == [".gz"] else suffixes), "")
    if suffix in EXTENSIONS and suffix != ".json":
        return EXTENSIONS[suffix]
    lines = list(sample(path))
    if suffix == ".json":
        return "squad" if is_squad(lines) else EXTENSIONS[suffix]
    if suffix in (".tsv", ".tab"):
        return "conll" if is_conll(lines) and not tables_alone else "tsv"
    return recognise_lines(lines)


def sample(path: Path) -> Iterator[str]:
    """The first lines."""
    seen = 0
    for line in read_lines(path):
        yield line
        seen += len(line) + 1
        if seen > SAMPLE:
            return


def recognise_lines(lines: Sequence[str]) -> str:
    """The first format whose rule fits; lines of text where none does."""
    for format, fits in RULES.items():
        if fits(lines):
            return format
    return "lines"


def is_json(lines: Sequence[str]) -> bool:
    first = next((line for line in lines if line.strip()), "")
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def is_squad(lines: Sequence[str]) -> bool:
    """One object over the whole file, whose field `data` is a list."""
    return bool(SQUAD.match("\n".join(lines)[:1000]))


def is_bracketed(lines: Sequence[str]) -> bool:
    """An opening bracket, perhaps a label, and another."""
    return bool(TREE.match("\n".join(lines)[:1000]))


def is_conllu(lines: Sequence[str]) -> bool:
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    return bool(rows) and all(len(row) == 10 and WORD_NUMBER.fullmatch(row[0]) for row in rows)


def is_conll(lines: Sequence[str]) -> bool:
    """Sentences parted by empty lines, and in every line as many columns: single words between tabs, or between spaces if the last
    is a tag."""
    inside = "\n".join(lines).strip("\n").split("\n")
    rows = [line for line in inside if line.strip() and not line.startswith("-DOCSTART-")]
    if len(rows) < 3 or all(line.strip() for line in inside):
        return False
    tabbed = "\t" in rows[-1]
    width = len(parted(rows[-1], tabbed))
    columns = [parted(line, tabbed) for line in rows if not is_comment(line, width, tabbed)]
    if width < 2 or any(len(row) != width for row in columns):
        return False
    return not any(" " in field for row in columns for field in row) if tabbed else all(TAG.fullmatch(row[-1]) for row in columns)


def is_tsv(lines: Sequence[str]) -> bool:
    """As many tabs as in the first line, in most."""
    counts = [line.count("\t") for line in lines if line.strip()]
    return bool(counts) and counts[0] > 0 and 2 * counts.count(counts[0]) > len(counts)


def is_csv(lines: Sequence[str]) -> bool:
    """Short names between commas or semicolons, no space around them, and as many fields in most of the records."""
    first = next((line for line in lines if line.strip()), "")
    try:
        rows = [row for row in csv.reader((f"{line}\n" for line in lines), delimiter=find_delimiter(first)) if row]
    except csv.Error:
        return False
    if len(rows) < 2 or len(rows[0]) < 2:
        return False
    header = rows[0]
    names_fit = len(set(header)) == len(header) and not any(is_value(name) or name != name.strip() for name in header)
    return names_fit and 2 * sum(len(row) == len(header) for row in rows[1:]) > len(rows) - 1


RULES: dict[str, Callable[[Sequence[str]], bool]] = {
    "squad": is_squad,
    "jsonl": is_json,
    "trees": is_bracketed,
    "conllu": is_conllu,
    "conll": is_conll,
    "tsv": is_tsv,
    "csv": is_csv,
}

Reader = Callable[..., Iterator[Record]]

TABLES: dict[str, Reader] = {"csv": read_csv, "tsv": read_tsv, "jsonl": read_jsonl, "lines": read_line_texts}
"""Readers of records with named columns, all with the arguments (path, *, header, wanted, notes)."""

FORMATS = {
    "csv": "comma-separated values",
    "tsv": "tab-separated values",
    "jsonl": "JSON lines",
    "lines": "a text a line",
    "parallel": "parallel text, two files",
    "conll": "CoNLL columns",
    "conllu": "CoNLL-U",
    "trees": "bracketed trees",
    "squad": "questions on passages, as SQuAD has them",
}
"""Names of formats, and what they are called in a sentence."""
