"""A view as plain text: tables and coloured texts as columns, small heatmaps as numbers. `--out` draws everything."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from clew.cli.terminal.paint import Painted, colour_background, theme
from clew.cli.terminal.tables import text_table
from clew.core.errors import counted, printable, shortened
from clew.drawing.bars import bounds
from clew.drawing.coloured_text import colour_scale
from clew.drawing.views import (
    Bars,
    Branches,
    ColouredText,
    Grid,
    Heatmap,
    Lines,
    Network,
    Note,
    Overlays,
    Points,
    Spelled,
    Table,
    View,
)

MOST_ROWS, MOST_COLUMNS = 200, 14
"""Most rows and columns of a table or heatmap that are printed."""
LONGEST_CELL = 60
BAR = 24


def view_lines(view: View, colours: int = 0) -> Iterator[str]:
    """Yield the title, the description and every part, separated by empty lines; texts use the given number of
    colours."""
    yield view.title
    if view.about:
        yield view.about
    for part in view.parts:
        lines = (
            painted_lines(part, colours)
            if colours and isinstance(part, ColouredText)
            else list(LINES[type(part)](part))
        )
        if lines:
            yield ""
            title = getattr(part, "title", "")
            if title:
                yield title
            yield from lines


def table_lines(part: Table) -> list[str]:
    rows = [[cell(value) for value in row] for row in part.rows[:MOST_ROWS]]
    right = [column for column in range(len(part.header)) if is_numeric([row[column] for row in part.rows])]
    return [
        *text_table([printable(name) for name in part.header], rows, right).split("\n"),
        *left_out(len(part.rows), "row"),
    ]


def coloured_lines(part: ColouredText) -> list[str]:
    """Return the text and its highest values."""
    text = ("" if part.joined else " ").join(visible(token) for token in part.tokens[: MOST_ROWS * 10])
    peak = sorted(zip(part.values, range(len(part.tokens)), strict=True), key=lambda pair: -abs(pair[0]))[:5]
    most = ", ".join(f"{visible(part.tokens[place])} {figure(value)}" for value, place in peak if value)
    highest = "furthest from 0" if min(part.values, default=0.0) < 0 else "highest"
    return [text, *([f"{highest}, {part.label}: {most}"] if most and part.label else [])]


def painted_lines(part: ColouredText, colours: int) -> list[str]:
    """Return the text with its values as background colours, and the colour scale."""
    strong, low, high = colour_scale(part)
    paper = theme()
    tokens = zip(part.tokens[: MOST_ROWS * 10], [*strong.tolist(), *[0.0] * len(part.tokens)], strict=False)
    text = ("" if part.joined else " ").join(
        colour_background(visible(token), strength, colours, paper) for token, strength in tokens
    )
    shares = (-1.0, -0.5, 0.0, 0.5, 1.0) if part.diverging else (0.0, 0.25, 0.5, 0.75, 1.0)
    scale = "".join(colour_background("   ", share, colours, paper) for share in shares)
    label = f" {printable(part.label)}" if part.label else ""
    return [
        Painted(text),
        *coloured_lines(part)[1:],
        Painted(f"{figure(-high if part.diverging else low)} {scale} {figure(high)}{label}"),
    ]


def bar_lines(part: Bars) -> list[str]:
    groups = [list(value) if isinstance(value, Sequence) else [value] for value in part.values]
    largest = max(map(abs, bounds(part)))
    header = ["", *(part.groups or [part.label])]
    if max(map(len, groups), default=0) == 1:
        rows = [
            [
                cell(name),
                figure(group[0]),
                "#" * round(BAR * min(abs(group[0]), largest) / largest) if math.isfinite(group[0]) else "",
            ]
            for name, group in zip(part.names, groups, strict=True)
        ]
        return text_table(["", part.label, " "], rows[:MOST_ROWS], [1]).split("\n") + left_out(len(rows), "row")
    rows = [[cell(name), *map(figure, group)] for name, group in zip(part.names, groups, strict=True)]
    return text_table(header, rows[:MOST_ROWS], range(1, len(header))).split("\n") + left_out(len(rows), "row")


def heatmap_lines(part: Heatmap) -> list[str]:
    rows, columns = part.values.shape
    if columns > MOST_COLUMNS or rows > MOST_ROWS:
        low, high = (float(bound) for bound in (part.values.min(initial=0), part.values.max(initial=0)))
        return [f"{rows} x {columns} values from {figure(low)} to {figure(high)}; --out FILE.html draws them"]
    header = [part.row_label, *map(cell, part.columns)]
    body = [[cell(name), *map(figure, values)] for name, values in zip(part.rows, part.values.tolist(), strict=True)]
    return text_table(header, body, range(1, len(header))).split("\n")


def spelled_lines(part: Spelled) -> list[str]:
    """Return the position of the largest weight of each character."""
    places = part.weights.argmax(1) + 0.5
    rows = [
        [cell(letter), f"{part.length * place / part.weights.shape[1]:.3g} {part.unit}"]
        for letter, place in zip(part.letters, places, strict=True)
    ]
    return text_table(["letter", "at"], rows[:MOST_ROWS], [1]).split("\n") + left_out(len(rows), "row")


def grid_lines(part: Grid) -> list[str]:
    count = sum(map(len, part.maps))
    return (
        [f"{counted(count, 'map')}, rows {part.row_names[0]} to {part.row_names[-1]}; --out FILE.html draws them"]
        if count
        else []
    )


def series_lines(part: Lines) -> list[str]:
    """Return one column per line, if all have the same x values; otherwise a summary of each line."""
    xs = list(part.series[0].x) if part.series else []
    if part.series and len(xs) <= MOST_ROWS and all(list(series.x) == xs for series in part.series):
        header = [part.x_label, *(cell(series.name) for series in part.series)]
        rows = [[figure(x), *(figure(series.y[place]) for series in part.series)] for place, x in enumerate(xs)]
        return [f"{part.y_label} by {part.x_label}", *text_table(header, rows, range(len(header))).split("\n")]
    rows = [
        [
            cell(series.name),
            str(len(series.y)),
            figure(series.y[0]),
            figure(series.y[-1]),
            figure(min(series.y)),
            figure(max(series.y)),
        ]
        for series in part.series
        if len(series.y)
    ]
    return [
        f"{part.y_label} by {part.x_label}",
        *text_table(["", "points", "first", "last", "least", "most"], rows, range(1, 6)).split("\n"),
    ]


def point_lines(part: Points) -> list[str]:
    return [
        f"{cell(series.name)}: {counted(len(series.x), 'point')}; --out FILE.html draws them" for series in part.series
    ]


def branch_lines(part: Branches) -> list[str]:
    """Return one line per node, indented below its parent; pruned nodes in brackets, the best ones with a star."""
    children: dict[int | None, list[int]] = {}
    for number, node in enumerate(part.nodes):
        children.setdefault(node.parent, []).append(number)
    lines: list[str] = []
    waiting = [(number, 0) for number in reversed(children.get(None, []))]
    while waiting and len(lines) < MOST_ROWS:
        number, depth = waiting.pop()
        node = part.nodes[number]
        text = visible(node.text) if node.kept else f"({visible(node.text)})"
        lines.append(
            f"{'  ' * depth}{'* ' if node.best else ''}{text} "
            f" {figure(node.score)}{'  ' + printable(node.note) if node.note else ''}"
        )
        waiting += [(child, depth + 1) for child in reversed(children.get(number, []))]
    return [*lines, *left_out(len(part.nodes), "node")]


def network_lines(part: Network) -> list[str]:
    nodes = [
        f"{number}: {' '.join([cell(node.name), *map(cell, node.lines)])}"
        for number, node in enumerate(part.nodes[:MOST_ROWS])
    ]
    edges = [f"{start} -> {end}{' ' + cell(text) if text else ''}" for start, end, text in part.edges[:MOST_ROWS]]
    return [*nodes, *left_out(len(part.nodes), "node"), *edges, *left_out(len(part.edges), "edge")]


def overlay_lines(part: Overlays) -> list[str]:
    return [f"{counted(len(part.names), 'word')} over a picture; --out FILE.svg draws them"]


def note_lines(part: Note) -> list[str]:
    return [printable(line) for line in part.text.split("\n")]


def left_out(count: int, noun: str) -> list[str]:
    return [f"... and {counted(count - MOST_ROWS, noun)} more; --out FILE.html has all"] if count > MOST_ROWS else []


def cell(value: Any) -> str:
    if value is None:
        return ""
    return (
        figure(value)
        if is_number(value) and not isinstance(value, int)
        else shortened(visible(str(value)), LONGEST_CELL)
    )


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_numeric(column: Sequence[Any]) -> bool:
    """Whether a column has numbers only, apart from empty cells."""
    return any(map(is_number, column)) and all(is_number(value) or value in ("", None) for value in column)


def figure(value: float) -> str:
    return "none" if math.isnan(value) else f"{value:.4g}"


def visible(text: str) -> str:
    """Return a text on one line, with unprintable characters as escapes."""
    return printable(text)


LINES: dict[type, Any] = {
    Table: table_lines,
    ColouredText: coloured_lines,
    Bars: bar_lines,
    Heatmap: heatmap_lines,
    Spelled: spelled_lines,
    Grid: grid_lines,
    Lines: series_lines,
    Points: point_lines,
    Branches: branch_lines,
    Network: network_lines,
    Overlays: overlay_lines,
    Note: note_lines,
}
