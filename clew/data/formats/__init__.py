"""Detect the format of a data file by its extension, or else by its first lines."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from clew.core.errors import unknown
from clew.data.files.folders import ending
from clew.data.files.given_files import given_delimiter
from clew.data.files.unpacking import kind_at
from clew.data.format import Format
from clew.data.formats.caption_files import FLICKR
from clew.data.formats.coco_files import COCO
from clew.data.formats.conll_files import CONLL
from clew.data.formats.conllu_files import CONLLU
from clew.data.formats.csv_files import CSV
from clew.data.formats.graph_files import graphs_with_node_labels
from clew.data.formats.json_files import JSON_ARRAY, JSONL
from clew.data.formats.line_files import LINES, PARALLEL
from clew.data.formats.squad_files import SQUAD
from clew.data.formats.table_files import FOLDER, TABLE, is_folder_of_tables
from clew.data.formats.tree_files import BRACKETS
from clew.data.formats.tsv_files import TSV
from clew.data.formats.workbook_files import WORKBOOK
from clew.data.lines import read_lines

SAMPLE = 2**16
"""Number of characters from which a format is detected."""


def find_format(path: Path, format: str | None = None, *, tables_alone: bool = False) -> str:
    """Check the requested format, or detect the format of the file. With `tables_alone` a .tsv file is always a table,
    never CoNLL columns."""
    if format is None:
        return detect_format(path, tables_alone) if given_delimiter(path) is None else "csv"
    if format not in FORMATS:
        raise unknown("data.format", format, FORMATS)
    return format


def detect_format(path: Path, tables_alone: bool = False) -> str:
    """Detect a format by the first bytes if the file is not text, else by the extension (without that of a
    compression). If several formats have the extension, or none has, the content decides."""
    kind = FOLDER if is_folder_of_tables(path) else kind_at(path)
    if (name := next((name for name in format_names() if kind in FORMATS[name].kinds), None)) is not None:
        return name
    candidates = {name: FORMATS[name] for name in formats_named(path)}
    if len(candidates) == 1:
        return next(iter(candidates))
    lines = list(sample(path))
    if not candidates:
        return detect_by_lines(lines)
    *specific, last = candidates
    matches = (
        name
        for name in specific
        if may_fit(candidates[name], lines) and not (tables_alone and candidates[name].may_fit_tables)
    )
    return next(matches, last)


def is_table(path: Path) -> bool:
    """Whether a file is a table: by its first bytes, or else by its extension. Words and trees in columns may have the
    extension of a table, and then it is the reader's choice."""
    kind = FOLDER if is_folder_of_tables(path) else kind_at(path)
    by_kind = [name for name in FORMATS if kind in FORMATS[name].kinds]
    return any(
        FORMATS[name].records is not None and not FORMATS[name].is_single for name in by_kind or formats_named(path)
    )


def formats_named(path: Path) -> list[str]:
    """Return the formats with the extension of a file."""
    suffix = ending(path)
    return [name for name in format_names() if suffix in FORMATS[name].extensions]


def format_by_name(path: Path) -> str | None:
    """Return the format of a file if only one format has its extension."""
    names = formats_named(path)
    return names[0] if len(names) == 1 else None


def format_names() -> list[str]:
    """The names of the formats in the order of detection: a user's own formats, which are last in the table, first."""
    names = list(FORMATS)
    return [*names[NUM_BUILT_IN:], *names[:NUM_BUILT_IN]]


def may_fit(format: Format, lines: Sequence[str]) -> bool:
    """Whether the first lines of a file may be in a format; True for a format without a rule."""
    return format.fits is None or format.fits(lines)


def sample(path: Path) -> Iterator[str]:
    """Yield the first lines of a file."""
    num_characters = 0
    for line in read_lines(path):
        yield line
        num_characters += len(line) + 1
        if num_characters > SAMPLE:
            return


def detect_by_lines(lines: Sequence[str]) -> str:
    """Return the first format whose rule fits; lines of text if none does."""
    return next(
        (name for name in format_names() if FORMATS[name].fits is not None and may_fit(FORMATS[name], lines)), "lines"
    )


FORMATS: dict[str, Format] = {
    "squad": SQUAD,
    "coco": COCO,
    "flickr": FLICKR,
    "json": JSON_ARRAY,
    "jsonl": replace(JSONL, dependency_graphs=graphs_with_node_labels),
    "trees": BRACKETS,
    "conllu": CONLLU,
    "conll": CONLL,
    "tsv": TSV,
    "csv": CSV,
    "table": TABLE,
    "xlsx": WORKBOOK,
    "lines": LINES,
    "parallel": PARALLEL,
}
"""Formats in the order in which their rules are tried: the strictest first."""
NUM_BUILT_IN = len(FORMATS)
