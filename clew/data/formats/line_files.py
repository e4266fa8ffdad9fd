"""Plain text with one text per line, and pairs of such files whose lines are translations of each other."""

from collections.abc import Collection, Iterator
from itertools import zip_longest
from pathlib import Path

from clew.core.errors import UserError
from clew.data.described import Row, Use
from clew.data.files.given_files import given_encoding, given_file
from clew.data.files.unpacking import SUFFIXES
from clew.data.format import Format, text_table_rows
from clew.data.formats.tree_files import labelled_brackets
from clew.data.lines import near, read_lines
from clew.data.notes import Notes
from clew.data.records import Column, Record, check_found


def read_line_texts(
    path: Path, *, header: bool | None = None, wanted: Collection[Column] = (), notes: Notes | None = None
) -> Iterator[Record]:
    """Yield one record per line, with the column `text`. Empty lines are skipped and counted."""
    notes = Notes() if notes is None else notes
    name = str(path)
    has_records = False
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            has_records = True
            yield Record({"text": line}, name, number)
        else:
            notes.skip("empty line", f"{name}:{number}")
    check_found(has_records, path, False, notes)


def read_parallel(source: Path, target: Path, *, notes: Notes | None = None) -> Iterator[Record]:
    """Yield one record per pair of lines, with the columns `source` and `target` and the place in the source file.

    If both lines are empty, the pair is skipped and counted; if one is, the pair is a fault. If one file has more
    lines that are not empty, an error gives both counts.
    """
    notes = Notes() if notes is None else notes
    name, has_records, ended = str(source), False, 0
    sides = zip_longest(read_lines(source), read_lines(target))
    for number, (left, right) in enumerate(sides, start=1):
        if left and right and not left.isspace() and not right.isspace():
            has_records = True
            yield Record({"source": left, "target": right}, name, number)
            continue
        if left is None or right is None:
            ended = ended or number
        if not (left or "").strip() and not (right or "").strip():
            notes.skip("line empty on both sides", f"{name}:{number}")
        elif left is None or right is None:
            raise unequal_length_error(source, target, ended, left is None, number + sum(1 for _ in sides))
        else:
            empty, full = (source, target) if not left.strip() else (target, source)
            notes.fault(
                "line empty on one side", f"{empty}:{number}", f"this line is empty, and line {number} of {full} is not"
            )
    check_found(has_records, source, False, notes)


def unequal_length_error(source: Path, target: Path, ended: int, source_is_shorter: bool, num_lines: int) -> UserError:
    """The error for two files of unequal length: the longer has `num_lines` lines, the shorter ends before `ended`."""
    shorter, longer = (source, target) if source_is_shorter else (target, source)
    return UserError(
        f"{longer} has {num_lines:,} lines and {shorter} {ended - 1:,}: line {ended} of {longer} has no partner; "
        "line n of one must translate line n of the other, so look for a missing or broken line"
    )


def find_parallel(prefix: Path | str, source: str, target: str) -> tuple[Path, Path]:
    """Find the two files of parallel text. `corpus/train` with en and de means corpus/train.en and corpus/train.de,
    packed or not."""
    paths = [Path(f"{prefix}.{language}") for language in (source, target)]
    files = [
        next((p for p in (path, *(Path(f"{path}{suffix}") for suffix in SUFFIXES)) if p.is_file()), None)
        for path in paths
    ]
    if not any(files):
        raise UserError(f"no such file: {prefix}, nor {paths[0]} and {paths[1]}; {near(Path(prefix))}")
    for path, file in zip(paths, files, strict=True):
        if file is None:
            other = next(file for file in files if file is not None)
            raise UserError(f"no such file: {path}, but {other} exists; parallel text is two files")
    left, right = (given_file(file, given_encoding(prefix)) for file in files if file is not None)
    return left, right


def refuse_one_file(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    raise UserError(f"{path}: parallel text is two files; give both, first the source and then its translation")


LINES = Format(
    about="one text per line",
    rows=text_table_rows(read_line_texts),
    records=read_line_texts,
    is_single=True,
    labelled_trees=labelled_brackets,  # trees of one word each are detected as lines
    use=lambda columns, shown: Use("text-lstm", {}),
)
PARALLEL = Format(
    about="parallel text, two files", rows=refuse_one_file, use=lambda columns, shown: Use("translate", {})
)
