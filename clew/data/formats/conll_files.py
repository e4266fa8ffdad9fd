"""CoNLL columns: a word a line with its tags beside it, an empty line after each sentence. Readers only: tags stay as
they stand.

Columns are parted by tabs, or else by spaces, and numbered from 1, or from -1 at the last. Lines that begin with
-DOCSTART- are passed over, and so are comments, which stand before a sentence: `# key = value`, or a line with # that
has not the file's columns (a sentence may begin with the word #).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from clew.core.errors import UserError
from clew.data.described import Columns, Field, Row, Shown, Use, is_of_numbers
from clew.data.examples import Sentence
from clew.data.format import Format
from clew.data.lines import read_lines
from clew.data.notes import Notes
from clew.data.records import Column, as_number, check_found
from clew.data.syntax.heads import read_heads

COMMENT = re.compile(r"#\s*([\w.:-]+\s*=|(newdoc|newpar)\b)")
TAG = re.compile(r"[^a-z\s]+|[BIOESLU]-\S+")


class Block(NamedTuple):
    """A sentence as the file has it: a row a word, the number of each row's line, and of CoNLL-U what the comments say,
    by name."""

    rows: list[list[str]]
    lines: list[int]
    comments: dict[str, str]


def read_conll(
    path: Path,
    *,
    words: int = 1,
    tags: int | None = -1,
    heads: int | None = None,
    relations: int | None = None,
    notes: Notes | None = None,
) -> Iterator[Sentence]:
    """The sentences; `words`, `tags`, `heads` and `relations` are numbers of columns, None for what is not there."""
    notes = Notes() if notes is None else notes
    wanted = {"words": words, "tags": tags, "heads": heads, "relations": relations}
    places: dict[str, int] = {}
    found = False
    for block in read_blocks(path, notes):
        if not places:
            width = len(block.rows[0])
            places = {
                role: column_place(number, width, role, path) for role, number in wanted.items() if number is not None
            }
            if places.get("tags") == places["words"]:
                columns_there = (
                    f"there is one column, and words and tags need two; data.format says what else {path} may be"
                )
                same = f"data.words and data.tags are the same column, {places['words'] + 1} of {width}; name two"
                raise UserError(f"{path}: {columns_there if width == 1 else same}")
        columns = {role: tuple(row[place] for row in block.rows) for role, place in places.items()}
        sentence = as_sentence(columns, str(path), block.lines, notes)
        if sentence is not None:
            found = True
            yield sentence
    check_found(found, path, False, notes)


def read_blocks(path: Path, notes: Notes) -> Iterator[Block]:
    """The sentences, parted into columns; one with a line of another width than the file's first is a fault."""
    width, tabbed = 0, False
    for group in line_groups(path):
        block = Block([], [], {})
        for number, line in group:
            if line.startswith("-DOCSTART-") or (not block.rows and is_comment(line, width, tabbed)):
                continue
            if not width:
                tabbed = "\t" in line
                width = len(parted(line, tabbed))
            row = parted(line, tabbed)
            if len(row) != width:
                between = "tab-separated" if tabbed else "space-separated"
                notes.fault(
                    "wrong number of columns",
                    f"{path}:{number}",
                    f"expected {width} {between} columns, found {len(row)}",
                )
                break
            block.rows.append(row)
            block.lines.append(number)
        else:
            if block.rows:
                yield block


def line_groups(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Lines of a file that no empty line parts, each with its number."""
    return grouped(read_lines(path))


def grouped(lines: Iterable[str]) -> Iterator[list[tuple[int, str]]]:
    group: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            group.append((number, line))
        elif group:
            yield group
            group = []
    if group:
        yield group


def is_comment(line: str, width: int, tabbed: bool) -> bool:
    if not line.startswith("#"):
        return False
    return bool(COMMENT.match(line)) or (bool(width) and len(parted(line, tabbed)) != width)


def parted(line: str, tabbed: bool) -> list[str]:
    """Columns; other white space, such as a space that does not break, may be part of a word."""
    return line.split("\t") if tabbed else [field for field in line.replace("\t", " ").split(" ") if field]


def column_place(number: int, width: int, role: str, path: Path) -> int:
    if not (1 <= number <= width or -width <= number <= -1):
        raise UserError(
            f"{path}: no column {number} for data.{role}; there are {width}, counted from 1, or from -1 at the last"
        )
    return number - 1 if number > 0 else width + number


def as_sentence(columns: dict[str, tuple[str, ...]], name: str, lines: Sequence[int], notes: Notes) -> Sentence | None:
    """The sentence, if every word is one and every head is the number of a word; else None, and the fault is noted."""
    for role, values in columns.items():
        if "" in values:
            notes.fault("empty field", f"{name}:{lines[values.index('')]}", f"the column for data.{role} is empty")
            return None
    heads = None
    if "heads" in columns:
        heads, fault = read_heads(columns["heads"])
        if fault is not None:
            notes.fault("bad head", f"{name}:{lines[fault.word]}", fault.sentence)
            return None
    return Sentence(
        columns["words"], columns.get("tags"), heads, columns.get("relations") if heads else None, f"{name}:{lines[0]}"
    )


def conll_sentences(
    path: Path,
    *,
    words: Column | None,
    tags: Column | None,
    heads: Column | None,
    relations: Column | None,
    with_tags: bool,
    with_heads: bool,
    notes: Notes,
) -> Iterator[Sentence]:
    """Words are the first column and tags the last where no number is given."""
    return read_conll(
        path,
        words=column_number(1 if words is None else words, "words"),
        tags=column_number(-1 if tags is None else tags, "tags") if with_tags else None,
        heads=column_number(heads, "heads") if heads is not None and with_heads else None,
        relations=column_number(relations, "relations") if relations is not None and with_heads else None,
        notes=notes,
    )


def column_number(column: Column, role: str) -> int:
    number = as_number(column)
    if number is None:
        raise UserError(
            f"CoNLL columns have no names; data.{role} takes a number from 1, or from -1 at the last, not {column!r}"
        )
    return number


def is_conll(lines: Sequence[str]) -> bool:
    """Sentences parted by empty lines, and in every line as many columns: single words between tabs, or between spaces
    if the last is a tag."""
    inside = "\n".join(lines).strip("\n").split("\n")
    rows = [line for line in inside if line.strip() and not line.startswith("-DOCSTART-")]
    if len(rows) < 3 or all(line.strip() for line in inside):
        return False
    tabbed = "\t" in rows[-1]
    width = len(parted(rows[-1], tabbed))
    columns = [parted(line, tabbed) for line in rows if not is_comment(line, width, tabbed)]
    if width < 2 or any(len(row) != width for row in columns):
        return False
    return (
        not any(" " in field for row in columns for field in row)
        if tabbed
        else all(TAG.fullmatch(row[-1]) for row in columns)
    )


def conll_rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    """Columns by number. The words, which are no labels, are the first column that is no number."""
    words = None
    for block in read_blocks(path, notes):
        columns = {str(number): column for number, column in enumerate(zip(*block.rows, strict=True), start=1)}
        if words is None:
            words = next((name for name, column in columns.items() if not all(map(str.isdigit, column))), "1")
        yield block_row(path, block, columns, (words,))


def block_row(path: Path, block: Block, columns: Mapping[str, tuple[str, ...]], without_labels: Collection[str]) -> Row:
    fields = {
        name: Field(" ".join(words), len(words), () if name in without_labels else words)
        for name, words in columns.items()
    }
    return f"{path}:{block.lines[0]}", fields


def conll_use(columns: Columns, shown: Shown) -> Use | None:
    """Words are the first column that is no number, tags the last of those behind it that have few values."""
    words, *others = [column for column in columns if not is_of_numbers(shown, column.name)] or columns
    tags = [column for column in others if len(column.labels or ()) > 1] or others
    return Use("tag", {"data.words": words.name, "data.tags": tags[-1].name}) if tags else None


CONLL = Format(
    about="CoNLL columns",
    rows=conll_rows,
    extensions=(".conll", ".tsv", ".tab"),
    fits=is_conll,
    may_fit_tables=True,
    sentences=conll_sentences,
    use=conll_use,
)
