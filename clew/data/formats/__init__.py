"""Which format a file has: by its extension, else by what stands in its first lines."""

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
"""Characters that are looked at."""


def find_format(path: Path, format: str | None = None, *, tables_alone: bool = False) -> str:
    """The format asked for, if it is one; else the one that the file seems to have. With `tables_alone` a .tsv is what
    it says it is, and never CoNLL columns."""
    if format is None:
        return recognise(path, tables_alone) if given_delimiter(path) is None else "csv"
    if format not in FORMATS:
        raise unknown("data.format", format, FORMATS)
    return format


def recognise(path: Path, tables_alone: bool = False) -> str:
    """By first bytes where these are no text; else by extension, .gz and its like aside; by content where several have
    that, or none."""
    kind = FOLDER if is_folder_of_tables(path) else kind_at(path)
    if (name := next((name for name in in_order() if kind in FORMATS[name].kinds), None)) is not None:
        return name
    able = {name: FORMATS[name] for name in formats_named(path)}
    if len(able) == 1:
        return next(iter(able))
    lines = list(sample(path))
    if not able:
        return recognise_lines(lines)
    *others, last = able
    fitting = (
        name for name in others if may_be(able[name], lines) and not (tables_alone and able[name].may_fit_tables)
    )
    return next(fitting, last)


def formats_named(path: Path) -> list[str]:
    """Those that have the ending of a file's name."""
    suffix = ending(path)
    return [name for name in in_order() if suffix in FORMATS[name].extensions]


def told_by_name(path: Path) -> str | None:
    """The format of a file whose name alone tells it."""
    found = formats_named(path)
    return found[0] if len(found) == 1 else None


def in_order() -> list[str]:
    """Formats of a user's own first, which are last in the table."""
    names = list(FORMATS)
    return [*names[NUM_OURS:], *names[:NUM_OURS]]


def may_be(format: Format, lines: Sequence[str]) -> bool:
    """Whether the first lines of a file do not speak against a format."""
    return format.fits is None or format.fits(lines)


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
    return next(
        (name for name in in_order() if FORMATS[name].fits is not None and may_be(FORMATS[name], lines)), "lines"
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
"""Formats in the order in which a file is held against their rules: the strictest first."""
NUM_OURS = len(FORMATS)
