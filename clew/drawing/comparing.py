"""Makes the pictures of several models comparable: with the same scale, and the same names in the same order. Knows no
model.

Parts correspond if they are of one kind and show the same quantity; of several such, the first corresponds to the
first. Names that only one model has are shown for all: a bar, a cell or a row says "none", a line has no points.
Positions in a text are each model's own and are not merged.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clew.drawing import bars, lines, points
from clew.drawing.heatmap import colour_range
from clew.drawing.parts import Bars, ColouredText, Grid, Heatmap, Lines, Part, Points, Series, Table

NONE = "none"


def on_one_scale(views: Sequence[Sequence[Part]]) -> list[list[Part]]:
    """The parts of several views, in their order, with corresponding parts made comparable."""
    changed = [list(parts) for parts in views]
    together: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
    for view, parts in enumerate(changed):
        counts: dict[Hashable, int] = defaultdict(int)
        for place, part in enumerate(parts):
            if type(part) in COMPARED:
                measured = (type(part), COMPARED[type(part)].measure(part))
                together[measured, counts[measured]].append((view, place))
                counts[measured] += 1
    for places in together.values():
        if len(places) > 1:
            corresponding = [changed[view][place] for view, place in places]
            for (view, place), part in zip(places, COMPARED[type(corresponding[0])].join(corresponding), strict=True):
                changed[view][place] = part
    return changed


def union(lists: Sequence[Sequence[str]]) -> list[str] | None:
    """All names once, those of the first list first; names that end every list stay at the end. None if a list has a
    name twice."""
    if any(len(set(names)) < len(names) for names in lists):
        return None
    shortest = min(map(len, lists))
    last = next((count for count in range(shortest) if len({names[-1 - count] for names in lists}) > 1), shortest)
    heads = dict.fromkeys(name for names in lists for name in names[: len(names) - last])
    ends = list(lists[0][len(lists[0]) - last :])
    return None if set(heads) & set(ends) else [*heads, *ends]


def join_bars(parts: Sequence[Bars]) -> list[Bars]:
    bounds = [bars.bounds(part) for part in parts]
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    names = union([part.names for part in parts])
    return [replace(with_bars(part, names) if names else part, low=low, high=high) for part in parts]


def with_bars(part: Bars, names: Sequence[str]) -> Bars:
    values = dict(zip(part.names, bars.table_of(part), strict=True))
    missing = [math.nan] * max(map(len, values.values()), default=1)
    every = [values.get(name, missing) for name in names]
    return replace(part, names=list(names), values=every if part.groups else [row[0] for row in every])


def join_heatmaps(parts: Sequence[Heatmap]) -> list[Heatmap]:
    bounds = [colour_range(np.asarray(part.values, dtype=float), part.low, part.high, part.diverging) for part in parts]
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    keyed = parts[0].keyed
    rows = union([part.rows for part in parts]) if keyed else None
    columns = union([part.columns for part in parts]) if keyed == "both" else None
    return [replace(with_cells(part, rows or part.rows, columns or part.columns), low=low, high=high) for part in parts]


def with_cells(part: Heatmap, rows: Sequence[str], columns: Sequence[str]) -> Heatmap:
    """The map with cells for these names; NaN for cells that it does not have."""
    if list(rows) == list(part.rows) and list(columns) == list(part.columns):
        return part
    values = np.full((len(rows), len(columns)), math.nan)
    down = [list(rows).index(name) for name in part.rows]
    across = (
        [list(columns).index(name) for name in part.columns]
        if columns is not part.columns
        else list(range(len(columns)))
    )
    values[np.ix_(down, across)] = part.values
    return replace(part, values=values, rows=list(rows), columns=list(columns))


def join_grids(parts: Sequence[Grid]) -> list[Grid]:
    rows = union([part.row_names for part in parts])
    most = [
        float(np.nanmax(values))
        for part in parts
        for row in part.maps
        for values in map(np.asarray, row)
        if np.isfinite(values).any()
    ]
    high = max([part.high for part in parts if part.high is not None] or most, default=1.0)
    low = min(part.low for part in parts)
    columns = max((part.column_names for part in parts), key=len)
    return [replace(with_maps(part, rows or part.row_names, columns), low=low, high=high) for part in parts]


def with_maps(part: Grid, rows: Sequence[str], columns: Sequence[str]) -> Grid:
    missing = np.zeros((0, 0))
    maps, notes = dict(zip(part.row_names, part.maps, strict=True)), dict(zip(part.row_names, part.notes, strict=False))
    filled = [[*maps.get(name, ()), *[missing] * (len(columns) - len(maps.get(name, ())))] for name in rows]
    filled_notes = [
        [*notes.get(name, [""] * len(maps.get(name, ()))), *[NONE] * (len(columns) - len(maps.get(name, ())))]
        for name in rows
    ]
    return replace(part, maps=filled, row_names=list(rows), column_names=list(columns), notes=filled_notes)


def join_series(parts: Sequence[Any], scales: Callable[[Any, float], tuple[Any, Any, Any]]) -> list[Any]:
    scale_pairs = [scales(part, 0.0)[:2] for part in parts]
    x, y = (
        (min(pair[axis].low for pair in scale_pairs), max(pair[axis].high for pair in scale_pairs)) for axis in (0, 1)
    )
    names = union([[series.name for series in part.series] for part in parts])
    return [replace(with_series(part, names) if names else part, x_range=x, y_range=y) for part in parts]


def with_series(part: Lines | Points, names: Sequence[str]) -> Lines | Points:
    own = {series.name: series for series in part.series}
    series = [own.get(name, Series(f"{name} ({NONE})", [], [])) for name in names]
    if isinstance(part, Lines):
        return replace(part, series=series)
    texts = dict(zip(own, part.texts, strict=False))
    return replace(part, series=series, texts=[texts.get(name, []) for name in names])


def join_texts(parts: Sequence[ColouredText]) -> list[ColouredText]:
    bounds = [colour_range(np.asarray(part.values, dtype=float), part.low, part.high, part.diverging) for part in parts]
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    return [replace(part, low=low, high=high) for part in parts]


def join_tables(parts: Sequence[Table]) -> list[Table]:
    """Merges rows that have names. Other tables, such as lists of errors or of positions, stay each model's own."""
    keys = parts[0].keys
    rows_of = [{tuple(map(str, row[:keys])): row for row in part.rows} for part in parts]
    if not keys or any(len(rows) < len(part.rows) for rows, part in zip(rows_of, parts, strict=True)):
        return list(parts)
    named = {key: row[:keys] for rows in reversed(rows_of) for key, row in rows.items()}
    order = dict.fromkeys(key for rows in rows_of for key in rows)
    blank = [math.nan] * (len(parts[0].header) - keys)
    return [
        replace(part, rows=[rows.get(key, (*named[key], *blank)) for key in order])
        for part, rows in zip(parts, rows_of, strict=True)
    ]


class Compared:
    """How parts of a kind are compared: `measure` identifies the quantity, `join` makes corresponding parts
    comparable."""

    def __init__(self, measure: Callable[[Any], Hashable], join: Callable[[Sequence[Any]], Sequence[Any]]):
        self.measure = measure
        self.join = join


COMPARED: dict[type, Compared] = {
    Bars: Compared(lambda part: (part.label, tuple(part.groups)), join_bars),
    Heatmap: Compared(lambda part: (part.label, part.unit, part.diverging, part.keyed), join_heatmaps),
    Grid: Compared(lambda part: part.title, join_grids),
    Lines: Compared(
        lambda part: (part.x_label, part.y_label, part.log_x, part.log_y, tuple(part.x_names)),
        lambda parts: join_series(parts, lines.scales),
    ),
    Points: Compared(lambda part: (part.x_label, part.y_label), lambda parts: join_series(parts, points.scales)),
    ColouredText: Compared(lambda part: (part.label, part.diverging), join_texts),
    Table: Compared(lambda part: (tuple(map(str, part.header)), part.keys), join_tables),
}
