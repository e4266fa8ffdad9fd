"""Heatmaps: one rectangle per cell with words at the sides, or a single image if there are many cells."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clew.drawing.backdrops import BESIDE, draw_below, sizes_over
from clew.drawing.colours import number_kind
from clew.drawing.letters import shortened_name, text_width, visible
from clew.drawing.parts import Heatmap
from clew.drawing.scales import short_number
from clew.drawing.shapes import Box, Label, Picture, Raster, Shape, Stroke

FEW = 40
"""The largest number of cells per side that are drawn as separate marks; larger maps are images."""
WRITTEN = 18
"""The largest number of columns with values written in the cells."""
LONGEST_NAME = 24
MARGIN, GAP, LEAN = 4, 7, 0.7071
ROW_ROOM, COLUMN_ROOM = 11, 14
"""The pixels that a name needs: beside a row, and, slanted, above a column."""
LETTER_ROOM = 7
"""The pixels that a name of one letter needs above a column."""
FAINTEST = 0.004
KEY_WIDTH, KEY_HEIGHT = 120, 9
PERCENT = "%"
NONE = "–"
"""The text in a cell without a value."""


def colour_range(values: np.ndarray, low: float | None, high: float | None, diverging: bool) -> tuple[float, float]:
    """The values at no colour and at full colour; if diverging, at the two ends around 0."""
    finite = values[np.isfinite(values)]
    least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    low, high = least if low is None else low, most if high is None else high
    if diverging:
        reach = max(abs(low), abs(high)) or 1.0
        return -reach, reach
    return (low, high) if high > low else (0.0, high) if high > 0 else (low, low + 1.0)


def strengths(values: np.ndarray, low: float, high: float, diverging: bool) -> np.ndarray:
    """The colour strength of every value, from 0 to 1, or if diverging from -1 to 1; 0 for missing values."""
    known = np.nan_to_num(np.asarray(values, dtype=float), nan=0.0 if diverging else low, posinf=high, neginf=low)
    return np.clip(known / high, -1, 1) if diverging else np.clip((known - low) / (high - low), 0, 1)


def cell_size(count: int) -> float:
    """The side of a cell, in pixels, for `count` cells: large enough for numbers, for names, or at least to be seen."""
    return 30.0 if count <= WRITTEN else 20.0 if count <= FEW else 13.0 if count <= 80 else max(2.0, 900 / count)


class Layout(NamedTuple):
    """Names as written, the corner and the size of the cells, and the width that names need on the right."""

    rows: list[str]
    columns: list[str]
    left: float
    top: float
    wide: float
    tall: float
    right: float
    is_leaning: bool
    """Whether the names of columns are slanted."""
    is_over: bool = False
    """Whether the map lies on a picture."""

    @property
    def is_raster(self) -> bool:
        return self.is_over or max(len(self.rows), len(self.columns)) > FEW

    @property
    def shown_rows(self) -> list[tuple[int, str]]:
        return shown_names(self.rows, self.tall, ROW_ROOM) if not self.is_over or any(self.rows) else []

    @property
    def shown_columns(self) -> list[tuple[int, str]]:
        return shown_names(self.columns, self.wide, COLUMN_ROOM) if self.is_leaning else list(enumerate(self.columns))


def lay_out(part: Heatmap) -> Layout:
    rows, columns = np.atleast_2d(part.values).shape if np.size(part.values) else (0, 0)
    wide, tall = cell_size(columns), cell_size(rows)
    if part.backdrop is not None:
        wide, tall = sizes_over(part.backdrop, rows, columns)
    elif max(rows, columns) <= FEW:
        wide = tall = min(wide, tall)
    row_names, column_names = (
        [shortened_name(visible(names[at]), LONGEST_NAME) if at < len(names) else "" for at in range(count)]
        for names, count in ((part.rows, rows), (part.columns, columns))
    )
    names_beside = [name for _, name in shown_names(row_names, tall, ROW_ROOM)]
    left = (
        MARGIN + max((text_width(name, 13) for name in names_beside), default=0) + GAP + (20 if part.row_label else 0)
    )
    size, is_leaning = name_size(wide), leans(column_names, wide)
    names_above = shown_names(column_names, wide, COLUMN_ROOM) if is_leaning else []
    leaning = [round(text_width(name, size) * LEAN) for _, name in names_above]
    above = max(leaning) + round(size * LEAN) if leaning else 14
    top = MARGIN + above + GAP + (20 if part.column_label else 0)
    reach = max(
        (column * wide + length for (column, _), length in zip(names_above, leaning, strict=True)), default=0.0
    ) - wide * (columns - 1)
    picture = columns * wide + BESIDE if part.backdrop is not None and part.backdrop.ndim == 3 else 0.0
    return Layout(
        row_names,
        column_names,
        left,
        top,
        wide,
        tall,
        MARGIN + max(reach, picture, 0.0),
        is_leaning,
        part.backdrop is not None,
    )


def heatmap(part: Heatmap) -> Picture:
    layout = lay_out(part)
    values = np.atleast_2d(np.asarray(part.values, dtype=float))
    low, high = colour_range(values, part.low, part.high, part.diverging)
    strong = strengths(values, low, high, part.diverging)
    left, top, wide, tall = layout.left, layout.top, layout.wide, layout.tall
    width, height = len(layout.columns) * wide, len(layout.rows) * tall
    shapes = (
        (rasters if layout.is_raster else cells)(part, values, strong, left, top, wide, tall)
        if width and height
        else []
    )
    shapes = [*draw_below(part.backdrop, left, top, width, height), *shapes]
    shapes += frame(layout) + names(layout) + axis_names(part, left, top, width, height)
    shapes += key(
        left, top + height + 14, low, high, part.diverging, is_open=exceeds_scale(values, high), unit=part.unit
    )
    shapes += measured(part, left, top + height + 14)
    size = f"{len(layout.rows)} rows, {len(layout.columns)} columns"
    about = (
        f"{part.title or 'heatmap'}: {size}, {part.label or 'values'} from {figure(low, part.unit)} to"
        f" {figure(high, part.unit)}"
    )
    readout = raster_readout(part, layout, low, high) if layout.is_raster else {}
    label_width = text_width(caption(part), 11.5) + 16 if caption(part) else 60
    return Picture(left + max(width + layout.right, KEY_WIDTH + label_width), top + height + 44, shapes, about, readout)


def leans(names: Sequence[str], wide: float) -> bool:
    """Whether names are wider than their cells. Single letters may be: few are as wide as the widest, and a line of
    them is readable."""
    if wide >= LETTER_ROOM and all(len(name) <= 1 for name in names):
        return False
    return any(text_width(name, name_size(wide)) > wide - 2 for name in names)


def name_size(wide: float) -> float:
    return 13.0 if wide >= 16 else 10.5


def cells(
    part: Heatmap, values: np.ndarray, strong: np.ndarray, left: float, top: float, wide: float, tall: float
) -> list[Shape]:
    shapes: list[Shape] = []
    texts = cell_texts(part, values, strong, wide)
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            share = float(strong[row, column])
            x, y, kind = left + column * wide, top + row * tall, "heat" if share >= 0 else "cold"
            about = (
                f"{name_at(part.rows, row)}, {name_at(part.columns, column)}: {figure(values[row, column], part.unit)}"
            )
            shapes.append(Box(x, y, wide, tall, kind, about, opacity=abs(share) if abs(share) >= FAINTEST else 0.0))
            if np.isnan(values[row, column]):
                shapes.append(Label(x + wide / 2, y + tall / 2 + 4, NONE, "number"))
            elif texts[row][column]:
                shapes.append(Label(x + wide / 2, y + tall / 2 + 4, texts[row][column], number_kind(kind, abs(share))))
    return shapes


def cell_texts(part: Heatmap, values: np.ndarray, strong: np.ndarray, wide: float) -> list[list[str]]:
    """The numbers in cells that are wide enough: shares in per cent, except small ones; other values with two
    digits."""
    is_share = part.unit == PERCENT
    most = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    digits = (
        2 if most <= 1 and not part.diverging and not np.any(values < 0) else 1
    )  # a sign takes the width of a digit

    def text(value: float, share: float) -> str:
        if wide < 30 or not np.isfinite(value) or (is_share and abs(share) < 0.1):
            return ""
        written = f"{100 * value:.0f}%" if is_share else f"{value:.{digits}f}" if 0.5 <= most < 1000 else f"{value:.1g}"
        written = written.removeprefix("-") if written.strip("-0.") == "" else written
        fits = [
            candidate for candidate in (written, written.removesuffix("%")) if text_width(candidate, 10.5) < wide
        ]  # the sign is also beside the scale
        return fits[0] if fits else ""

    return [
        [text(value, share) for value, share in zip(*each, strict=True)] for each in zip(values, strong, strict=True)
    ]


def figure(value: float, unit: str) -> str:
    """A value with its unit, as shown on request."""
    if not np.isfinite(value):
        return short_number(value)
    shown = short_number(100 * value if unit == PERCENT else value)
    return f"{shown} {unit}" if unit else shown


def caption(part: Heatmap) -> str:
    """The label and unit of the values, as written beside the colour scale."""
    return f"{part.label} ({part.unit})" if part.label and part.unit else part.label or part.unit


def measured(part: Heatmap, left: float, top: float) -> list[Shape]:
    return [Label(left + KEY_WIDTH + 12, top + KEY_HEIGHT, caption(part), "tick-start")] if caption(part) else []


def name_at(names: Sequence[str], place: int) -> str:
    return names[place] if place < len(names) and names[place] else str(place + 1)


def rasters(
    part: Heatmap, values: np.ndarray, strong: np.ndarray, left: float, top: float, wide: float, tall: float
) -> list[Shape]:
    """The map as one image; if diverging, one image for each of its two colours."""
    shown = None if np.isfinite(values).all() else ~np.isnan(values)
    area = left, top, values.shape[1] * wide, values.shape[0] * tall
    shapes: list[Shape] = [Raster(*area, np.rint(255 * np.clip(strong, 0, 1)), "heat", shown)]
    if part.diverging:
        shapes.append(Raster(*area, np.rint(255 * np.clip(-strong, 0, 1)), "cold", shown))
    return shapes


def raster_readout(part: Heatmap, layout: Layout, low: float, high: float) -> dict[str, object]:
    """Data for the script: the places and names of cells. It reads their values from the image."""
    return {
        "kind": "raster",
        "left": layout.left,
        "top": layout.top,
        "wide": layout.wide,
        "tall": layout.tall,
        "low": low,
        "high": high,
        "diverging": part.diverging,
        "unit": part.unit,
        "rows": [visible(name_at(part.rows, row)) for row in range(len(layout.rows))],
        "columns": [visible(name_at(part.columns, column)) for column in range(len(layout.columns))],
    }


def frame(layout: Layout) -> list[Shape]:
    left, top, wide, tall, rows, columns = (
        layout.left,
        layout.top,
        layout.wide,
        layout.tall,
        len(layout.rows),
        len(layout.columns),
    )
    right, bottom = left + columns * wide, top + rows * tall
    if layout.is_raster:
        return [Stroke([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], "frame")]
    across: list[Shape] = [
        Stroke([(left, top + row * tall), (right, top + row * tall)], "frame") for row in range(rows + 1)
    ]
    return across + [
        Stroke([(left + column * wide, top), (left + column * wide, bottom)], "frame") for column in range(columns + 1)
    ]


def every(size: float, least: float) -> int:
    """The smallest n such that every n-th cell of this size has room for its name."""
    return max(1, -int(-least // size))


def shown_names(names: Sequence[str], size: float, least: float) -> list[tuple[int, str]]:
    """The positions and names for which there is room. If single letters must be skipped, numbers replace them: parts
    of a text are not readable."""
    skipped = every(size, least)
    if skipped == 1 or any(len(name) > 1 for name in names):
        return [(at, names[at]) for at in range(0, len(names), skipped)]
    round_step = next(step * 10**power for power in range(1, 9) for step in (1, 2, 5) if step * 10**power >= skipped)
    return [(at, str(at + 1)) for at in range(round_step - 1, len(names), round_step)]


def names(layout: Layout) -> list[Shape]:
    """Names at the sides, as many as there is room for."""
    labels: list[Shape] = []
    small, down = ("", 4.5) if layout.tall >= 16 else ("small-", 3.5)
    for row, name in layout.shown_rows:
        y = layout.top + (row + 0.5) * layout.tall + down
        labels.append(Label(layout.left - GAP, y, name, f"{small}word-end"))
    small = "" if layout.wide >= 16 else "small-"
    for column, name in layout.shown_columns:
        x = layout.left + (column + 0.5) * layout.wide
        kind, turn = (f"{small}word", -45.0) if layout.is_leaning else (f"{small}word-middle", 0.0)
        labels.append(Label(x + (3 if layout.is_leaning else 0), layout.top - GAP, name, kind, turn))
    return labels


def axis_names(part: Heatmap, left: float, top: float, width: float, height: float) -> list[Shape]:
    labels: list[Shape] = []
    if part.row_label:
        labels.append(Label(MARGIN + 10, top + height / 2, part.row_label, "label", -90))
    if part.column_label:
        labels.append(Label(left + width / 2, MARGIN + 12, part.column_label, "label"))
    return labels


def exceeds_scale(values: np.ndarray, high: float) -> bool:
    """Whether a value exceeds the one at full colour."""
    return bool(np.any(values[np.isfinite(values)] > high + 1e-6 * abs(high)))


def key(
    left: float,
    top: float,
    low: float,
    high: float,
    diverging: bool,
    strength: float = 1.0,
    *,
    is_open: bool = False,
    unit: str = "",
) -> list[Shape]:
    """The colour scale, at the strength of the map; shares are in per cent. With `is_open`, values exceed its end."""
    unit = unit if unit == PERCENT else ""  # other units are written beside the scale
    pieces = 24
    shapes: list[Shape] = []
    for piece in range(pieces):
        share = (piece + 0.5) / pieces
        share = 2 * share - 1 if diverging else share
        kind = "heat" if share >= 0 else "cold"
        shapes.append(
            Box(
                left + piece * KEY_WIDTH / pieces,
                top,
                KEY_WIDTH / pieces,
                KEY_HEIGHT,
                kind,
                opacity=strength * abs(share),
            )
        )
    shapes.append(Stroke([(left, top + KEY_HEIGHT), (left + KEY_WIDTH, top + KEY_HEIGHT)], "grid"))
    least = low if abs(low) > 0.002 * (high - low) else 0.0
    shapes.append(Label(left, top + KEY_HEIGHT + 13, figure(least, unit), "tick-start"))
    shapes.append(
        Label(left + KEY_WIDTH, top + KEY_HEIGHT + 13, ("≥ " if is_open else "") + figure(high, unit), "tick-end")
    )
    return shapes
