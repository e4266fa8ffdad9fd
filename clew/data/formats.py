"""Which format a file has: by its extension, else by what stands in its first lines. A format is a line in FORMATS.

FORMATS["mine"] = Format("my columns", extensions=(".mine",), read=read_mine)
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from clew.core.errors import unknown
from clew.data.conll_files import is_comment, parted
from clew.data.csv_files import find_delimiter, read_csv
from clew.data.json_files import read_jsonl
from clew.data.line_files import read_line_texts
from clew.data.lines import read_lines
from clew.data.notes import Notes
from clew.data.records import Column, Record
from clew.data.tsv_files import is_value, read_tsv

SAMPLE = 2**16
"""Characters that are looked at."""

Reader = Callable[..., Iterator[Record]]
"""`read(path, *, header, wanted, notes)`: the records of a file. `header` says whether the first line names the columns, None where that is
not known; `wanted` are columns that are asked for; `notes.fault` refuses a record, or counts it."""


class Format(NamedTuple):
    """`about` is what it is called in a sentence. A format of records with named columns has a reader; the others are read by what needs
    them."""

    about: str
    extensions: tuple[str, ...] = ()
    fits: Callable[[Sequence[str]], bool] | None = None
    """Whether the first lines of a file are such."""
    read: Reader | None = None
    nested: bool = False
    """Whether fields hold what JSON's do, such as lists of words and of tags; else they are texts."""


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
    """By extension; by content where several formats have it, or none."""
    candidates = by_extension(path)
    if tables_alone and len(candidates) > 1:
        candidates = [name for name in candidates if name != "conll"]
    if len(candidates) == 1:
        return candidates[0]
    lines = list(sample(path))
    rules = ((name, FORMATS[name].fits) for name in candidates or [*reversed(FORMATS)])
    fitting = (name for name, fits in rules if (bool(candidates) if fits is None else fits(lines)))
    return next(fitting, candidates[-1] if candidates else "lines")


def by_extension(path: Path) -> list[str]:
    """The formats that a file's name allows, .gz aside."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    suffix = next(reversed(suffixes[:-1] if suffixes[-1:] == [".gz"] else suffixes), "")
    return [name for name, format in reversed(FORMATS.items()) if suffix in format.extensions]


def sample(path: Path) -> Iterator[str]:
    """The first lines."""
    seen = 0
    for line in read_lines(path):
        yield line
        seen += len(line) + 1
        if seen > SAMPLE:
            return


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


FORMATS: dict[str, Format] = {
    "lines": Format("a text a line", read=read_line_texts),
    "parallel": Format("parallel text, two files"),
    "csv": Format("comma-separated values", (".csv",), is_csv, read_csv),
    "tsv": Format("tab-separated values", (".tsv", ".tab"), is_tsv, read_tsv),
    "conll": Format("CoNLL columns", (".conll", ".tsv", ".tab"), is_conll),
    "conllu": Format("CoNLL-U", (".conllu",), is_conllu),
    "trees": Format("bracketed trees", (".mrg", ".ptb", ".tree", ".trees"), is_bracketed),
    "jsonl": Format("JSON lines", (".jsonl", ".ndjson", ".json"), is_json, read_jsonl, nested=True),
    "squad": Format("questions on passages, as SQuAD has them", (".json",), is_squad),
}
"""By name. Of several that fit a file the last is taken, so that one that is added is asked before all others."""


def tables() -> list[str]:
    """Formats of records with named columns."""
    return [name for name, format in FORMATS.items() if format.read is not None]


def read_records(path: Path, format: str, *, header: bool | None = None, wanted: Sequence[Column] = (), notes: Notes) -> Iterator[Record]:
    read = FORMATS[format].read
    assert read is not None
    return read(path, header=header, wanted=wanted, notes=notes)
