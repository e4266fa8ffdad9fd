"""Tables: in a page, and as a picture."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from clew.drawing.letters import markup, shortened_name, text_width, visible
from clew.drawing.parts import Table
from clew.drawing.scales import short_number
from clew.drawing.shapes import Label, Picture, Shape, Stroke

ROW, GAP, LONGEST = 24, 22, 60
LONG = 40
"""Tables with more rows scroll in a page."""


def cell(value: Any) -> str:
    """A value as written in a cell: short numbers, a dash for None."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return short_number(float(value)) if is_number(value) else str(value)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_figure(value: Any) -> bool:
    """Whether a value is a number, or a percentage written as text: 12.5%."""
    return is_number(value) or (isinstance(value, str) and re.fullmatch(r"[-+]?[0-9,]*\.?[0-9]+ ?%", value) is not None)


def numeric(table: Table) -> list[bool]:
    """Which columns are numeric, and so right-aligned."""
    columns = max([len(table.header), *map(len, table.rows)])
    columns_of_values = [
        [row[column] for row in table.rows if column < len(row) and row[column] is not None]
        for column in range(columns)
    ]
    return [bool(values) and all(is_figure(value) for value in values) for values in columns_of_values]


def table(part: Table) -> Picture:
    header, *rows = (
        [shortened_name(visible(cell(value)), LONGEST) for value in row] for row in (part.header, *part.rows)
    )
    is_right = numeric(part)
    widths = [
        max((text_width(row[column], 13) for row in (header, *rows) if column < len(row)), default=0)
        for column in range(len(is_right))
    ]
    starts = [sum(widths[:column]) + GAP * column for column in range(len(widths))]
    shapes: list[Shape] = write(header, starts, widths, is_right, 15, "head")
    width = max(sum(widths) + GAP * (len(widths) - 1), 80)
    for number, row in enumerate(rows):
        y = 22.0 + ROW * number
        shapes.append(Stroke([(0, y), (width, y)], "grid"))
        shapes += write(row, starts, widths, is_right, y + 17, "cell")
    return Picture(width, 26 + ROW * len(rows), shapes, f"{part.title or 'table'}: {len(rows)} rows")


def write(
    row: Sequence[str], starts: Sequence[float], widths: Sequence[float], is_right: Sequence[bool], y: float, kind: str
) -> list[Shape]:
    return [
        Label(
            starts[column] + (widths[column] if is_right[column] else 0),
            y,
            text,
            f"{kind}-end" if is_right[column] else kind,
        )
        for column, text in enumerate(row)
    ]


def table_html(part: Table, name: str) -> str:
    kinds = ["figure" if is_right else "" for is_right in numeric(part)]
    table = table_element(list(map(cell, part.header)), [list(map(cell, row)) for row in part.rows], kinds)
    room, focus = ("scroll long", ' tabindex="0"') if len(part.rows) > LONG else ("scroll", "")
    return f'<div class="{room}"{focus}>{table}</div>'


def table_element(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    kinds: Sequence[str] = (),
    links: Sequence[str] = (),
    *,
    heads: int = 0,
) -> str:
    """A table of texts. `kinds` are the classes of its columns, `links` where the first cells of its rows lead; the
    first `heads` cells of a row name it."""

    def element(tag: str, column: int, text: str, attributes: str = "") -> str:
        kind = f' class="{kinds[column]}"' if column < len(kinds) and kinds[column] else ""
        return f"<{tag}{attributes}{kind}>{text}</{tag}>"

    def row_of(number: int, row: Sequence[str]) -> str:
        texts = [markup(text) for text in row]
        if number < len(links):
            texts[0] = f'<a href="{markup(links[number])}">{texts[0]}</a>'
        return "".join(element("th" if column < heads else "td", column, text) for column, text in enumerate(texts))

    head = "".join(element("th", column, markup(text), ' scope="col"') for column, text in enumerate(header))
    body = "\n".join(f"<tr>{row_of(number, row)}</tr>" for number, row in enumerate(rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
