"""CoNLL columns: one word per line with its tags, and an empty line after each sentence. Tags are returned unchanged.

Columns are separated by tabs, or else by spaces, and numbered from 1, or from -1 at the last. Lines that begin with
-DOCSTART- are skipped. So are comments before a sentence: `# key = value`, or a line that begins with # and does not
have the file's number of columns (a sentence may begin with the word #).
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
    """A sentence as in the file: one row per word, the line number of each row and, in CoNLL-U, the comments by
    name."""

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
    """Yield the sentences. `words`, `tags`, `heads` and `relations` are column numbers, None for a missing column."""
    notes = Notes() if notes is None else notes
    numbers = {"words": words, "tags": tags, "heads": heads, "relations": relations}
    indexes: dict[str, int] = {}
    has_sentences = False
    for block in read_blocks(path, notes):
        if not indexes:
            width = len(block.rows[0])
            indexes = {
                role: column_index(number, width, role, path) for role, number in numbers.items() if number is not None
            }
            if indexes.get("tags") == indexes["words"]:
                if width == 1:
                    rule = "there is one column, and words and tags need two; set data.format if it is another format"
                else:
                    rule = f"data.words and data.tags are the same column, {indexes['words'] + 1} of {width}; name two"
                raise UserError(f"{path}: {rule}")
        columns = {role: tuple(row[index] for row in block.rows) for role, index in indexes.items()}
        sentence = as_sentence(columns, str(path), block.lines, notes)
        if sentence is not None:
            has_sentences = True
            yield sentence
    check_found(has_sentences, path, False, notes)


def read_blocks(path: Path, notes: Notes) -> Iterator[Block]:
    """Yield the sentences, split into columns. A line whose number of columns differs from the first line's is a
    fault."""
    width, tabbed = 0, False
    for group in line_groups(path):
        block = Block([], [], {})
        for number, line in group:
            if line.startswith("-DOCSTART-") or (not block.rows and is_comment(line, width, tabbed)):
                continue
            if not width:
                tabbed = "\t" in line
                width = len(split_columns(line, tabbed))
            row = split_columns(line, tabbed)
            if len(row) != width:
                separated = "tab-separated" if tabbed else "space-separated"
                notes.fault(
                    "wrong number of columns",
                    f"{path}:{number}",
                    f"expected {width} {separated} columns, found {len(row)}",
                )
                break
            block.rows.append(row)
            block.lines.append(number)
        else:
            if block.rows:
                yield block


def line_groups(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Yield the groups of lines between empty lines of a file, each line with its number."""
    return group_lines(read_lines(path))


def group_lines(lines: Iterable[str]) -> Iterator[list[tuple[int, str]]]:
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
    return bool(COMMENT.match(line)) or (bool(width) and len(split_columns(line, tabbed)) != width)


def split_columns(line: str, tabbed: bool) -> list[str]:
    """Split a line at tabs or spaces only: other white space, such as a no-break space, may be part of a word."""
    return line.split("\t") if tabbed else [field for field in line.replace("\t", " ").split(" ") if field]


def column_index(number: int, width: int, role: str, path: Path) -> int:
    if not (1 <= number <= width or -width <= number <= -1):
        raise UserError(
            f"{path}: no column {number} for data.{role}; there are {width}, counted from 1, or from -1 at the last"
        )
    return number - 1 if number > 0 else width + number


def as_sentence(columns: dict[str, tuple[str, ...]], name: str, lines: Sequence[int], notes: Notes) -> Sentence | None:
    """Return the sentence if no field is empty and every head is the number of a word; else note the fault and return
    None."""
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
    """Yield the sentences. By default words are the first column and tags the last."""
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
            f"CoNLL columns have no names; data.{role} must be a number from 1, or from -1 at the last, not {column!r}"
        )
    return number


def is_conll(lines: Sequence[str]) -> bool:
    """Whether empty lines separate sentences and all other lines have equally many columns: single words between tabs,
    or between spaces if the last column is a tag."""
    trimmed = "\n".join(lines).strip("\n").split("\n")
    rows = [line for line in trimmed if line.strip() and not line.startswith("-DOCSTART-")]
    if len(rows) < 3 or all(line.strip() for line in trimmed):
        return False
    tabbed = "\t" in rows[-1]
    width = len(split_columns(rows[-1], tabbed))
    columns = [split_columns(line, tabbed) for line in rows if not is_comment(line, width, tabbed)]
    if width < 2 or any(len(row) != width for row in columns):
        return False
    return (
        not any(" " in field for row in columns for field in row)
        if tabbed
        else all(TAG.fullmatch(row[-1]) for row in columns)
    )


def conll_rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    """Yield the sentences with columns by number. The first column that is not numeric has the words, which are not
    counted as labels."""
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
    """Suggest tagging: words are the first column that is not numeric, tags the last column with few values."""
    words, *other_columns = [column for column in columns if not is_of_numbers(shown, column.name)] or columns
    tags = [column for column in other_columns if len(column.labels or ()) > 1] or other_columns
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
