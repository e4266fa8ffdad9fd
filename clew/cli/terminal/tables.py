"""Tables: aligned lines, Markdown and LaTeX; on a terminal, wide columns are wrapped."""

import re
import shutil
import sys
import textwrap
from collections.abc import Sequence

from clew.cli.terminal.progress import clock
from clew.cli.terminal.screen import behind, escape_controls

Rows = Sequence[Sequence[str]]

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def text_table(header: Sequence[str], rows: Rows, right: Sequence[int] = ()) -> str:
    """Align columns two spaces apart; those in `right` are right-aligned. Columns without any values are left out."""
    header, rows, right = without_empty(header, rows, right)
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    cells = [
        [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in lines
    ]
    return "\n".join("  ".join(line).rstrip() for line in cells)


def text_entries(header: Sequence[str], rows: Rows, columns: int) -> str:
    """Write each row as an entry: its first cell on a line, and below it the other cells that are not empty, with
    their column names, as many per line as fit. Cells are not truncated, so a very long word may exceed the width."""
    lines: list[str] = []
    for first, *cells in rows:
        labelled = [f"{name} {cell}" for name, cell in zip(header[1:], cells, strict=True) if cell]
        wrapped = [
            line
            for words in labelled
            for line in textwrap.wrap(words, columns - 2, break_long_words=False, break_on_hyphens=False)
        ]
        lines.append(first)
        line = ""
        for piece in wrapped:
            if line and len(line) + len(piece) + 4 > columns:
                lines.append(f"  {line}")
                line = ""
            line = f"{line}  {piece}" if line else piece
        lines.append(f"  {line}")
    return "\n".join(lines)


def markdown_table(header: Sequence[str], rows: Rows, right: Sequence[int] = ()) -> str:
    header, rows, right = without_empty(header, rows, right)
    rule = ["---:" if column in right else "---" for column in range(len(header))]
    return "\n".join("| " + " | ".join(markdown(cell) for cell in line) + " |" for line in [header, rule, *rows])


def latex_table(header: Sequence[str], rows: Rows, right: Sequence[int] = ()) -> str:
    """Return a LaTeX tabular with booktabs rules."""
    header, rows, right = without_empty(header, rows, right)
    columns = "".join("r" if column in right else "l" for column in range(len(header)))
    lines = [" & ".join(latex(cell) for cell in line) + r" \\" for line in [header, *rows]]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *body, r"\end{tabular}"])


def show_table(header: Sequence[str], rows: Rows, right: Sequence[int] = (), *, entries: bool = False) -> None:
    """Print a table: aligned lines in a pipe; on a terminal, wide cells are wrapped, or with `entries`, a table that
    is too wide is printed as one entry per row."""
    header, rows = [escape_controls(name) for name in header], [[escape_controls(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        print(text_table(header, rows, right))
        return
    if entries:
        columns, text = shutil.get_terminal_size().columns, text_table(header, rows, right)
        print(text if max(map(len, text.splitlines())) <= columns else text_entries(header, rows, columns))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    header, rows, right = without_empty(header, rows, right)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column, name in enumerate(header):
        if column in right:
            table.add_column(Text(name), justify="right", no_wrap=True)
        else:
            table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    size = shutil.get_terminal_size()  # rich assumes 80 columns on a dumb terminal
    Console(file=behind(sys.stdout), width=size.columns, height=size.lines).print(table)


def show_text(text: str) -> None:
    """Print a line, wrapped on a terminal."""
    is_wrapped = sys.stdout.isatty()
    columns = shutil.get_terminal_size().columns
    lines = (
        textwrap.wrap(text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        if is_wrapped
        else [text]
    )
    print("\n".join(lines))


def without_empty(header: Sequence[str], rows: Rows, right: Sequence[int]) -> tuple[Sequence[str], Rows, list[int]]:
    kept = [column for column in range(len(header)) if not rows or any(row[column] for row in rows)]
    moved = [new for new, column in enumerate(kept) if column in right]
    return [header[column] for column in kept], [[row[column] for column in kept] for row in rows], moved


def markdown(cell: str) -> str:
    return re.sub(r"([\\|`<>*])", r"\\\1", " ".join(cell.split()))


def latex(cell: str) -> str:
    return "".join(LATEX.get(character, character) for character in " ".join(cell.split()))


def duration(seconds: float | None) -> str:
    return "" if seconds is None else clock(seconds)


def number(value: float | None, digits: int) -> str:
    """Format a number with a fixed number of decimals, or in scientific notation if it is large."""
    return "" if value is None else f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.2e}"


def size(count: int) -> str:
    """Format a number of bytes in powers of 1000: 1.2 kB, 3.4 MB."""
    amount, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 999.5 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "B" or amount >= 99.95 else f"{amount:.1f} {units[0]}"
