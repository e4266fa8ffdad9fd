"""Heatmaps: a rectangle a cell with words at the sides, or one image where there are many cells."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clew.drawing.backdrops import BESIDE, below, sizes_over
from clew.drawing.colours import number_kind
from clew.drawing.letters import shortened, text_width, visible
from clew.drawing.parts import Heatmap
from clew.drawing.scales import short_number
from clew.drawing.shapes import Box, Label, Picture, Raster, Shape, Stroke

FEW = 40
"""Up to so many cells a side each is a mark of its own; above, the whole is an image."""
WRITTEN = 18
"""Up to so many columns, values stand in their cells."""
LONGEST_NAME = 24
MARGIN, GAP, LEAN = 4, 7, 0.7071
ROW_ROOM, COLUMN_ROOM = 11, 14
"""Pixels that a name needs, beside and, leaning, above the cells."""
LETTER_ROOM = 7
"""Pixels that a name of one letter needs above its cells."""
FAINTEST = 0.004
KEY_WIDTH, KEY_HEIGHT = 120, 9
PERCENT = "%"
NONE = "–"
"""What stands in a cell that has no value."""


def limits(values: np.ndarray, low: float | None, high: float | None, diverging: bool) -> tuple[float, float]:
    """The values that have no colour and all of it; around 0, its two ends."""
    found = values[np.isfinite(values)]
    least, most = (float(found.min()), float(found.max())) if found.size else (0.0, 1.0)
    low, high = least if low is None else low, most if high is None else high
    if diverging:
        reach = max(abs(low), abs(high)) or 1.0
        return -reach, reach
    return (low, high) if high > low else (0.0, high) if high > 0 else (low, low + 1.0)


def strengths(values: np.ndarray, low: float, high: float, diverging: bool) -> np.ndarray:
    """Between 0 and 1 for every value, and around 0 between -1 and 1; 0 where there is no value."""
    known = np.nan_to_num(np.asarray(values, dtype=float), nan=0.0 if diverging else low, posinf=high, neginf=low)
    return np.clip(known / high, -1, 1) if diverging else np.clip((known - low) / (high - low), 0, 1)


def cell_size(count: int) -> float:
    """Pixels of a side of a cell, of so many: large enough for numbers, for names, or just to be seen."""
    return 30.0 if count <= WRITTEN else 20.0 if count <= FEW else 13.0 if count <= 80 else max(2.0, 900 / count)


class Layout(NamedTuple):
    """Names as they are written, where the cells begin and how large they are, and how much room names need to the right."""

    rows: list[str]
    columns: list[str]
    left: float
    top: float
    wide: float
    tall: float
    right: float
    is_leaning: bool
    """Whether the names of columns are."""
    is_over: bool = False
    """Whether it lies on a picture."""

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
        [shortened(visible(names[at]), LONGEST_NAME) if at < len(names) else "" for at in range(count)]
        for names, count in ((part.rows, rows), (part.columns, columns))
    )
    beside = [name for _, name in shown_names(row_names, tall, ROW_ROOM)]
    left = MARGIN + max((text_width(name, 13) for name in beside), default=0) + GAP + (20 if part.row_label else 0)
    size, is_leaning = name_size(wide), leans(column_names, wide)
    over = shown_names(column_names, wide, COLUMN_ROOM) if is_leaning else []
    leaning = [round(text_width(name, size) * LEAN) for _, name in over]
    above = max(leaning) + round(size * LEAN) if leaning else 14
    top = MARGIN + above + GAP + (20 if part.column_label else 0)
    reach = max((column * wide + each for (column, _), each in zip(over, leaning, strict=True)), default=0.0) - wide * (columns - 1)
    picture = columns * wide + BESIDE if part.backdrop is not None and part.backdrop.ndim == 3 else 0.0
    return Layout(row_names, column_names, left, top, wide, tall, MARGIN + max(reach, picture, 0.0), is_leaning, part.backdrop is not None)


def heatmap(part: Heatmap) -> Picture:
    layout = lay_out(part)
    values = np.atleast_2d(np.asarray(part.values, dtype=float))
    low, high = limits(values, part.low, part.high, part.diverging)
    strong = strengths(values, low, high, part.diverging)
    left, top, wide, tall = layout.left, layout.top, layout.wide, layout.tall
    width, height = len(layout.columns) * wide, len(layout.rows) * tall
    shapes = (rasters if layout.is_raster else cells)(part, values, strong, left, top, wide, tall) if width and height else []
    shapes = [*below(part.backdrop, left, top, width, height), *shapes]
    shapes += frame(layout) + names(layout) + axis_names(part, left, top, width, height)
    shapes += key(left, top + height + 14, low, high, part.diverging, goes_on=goes_beyond(values, high), unit=part.unit)
    shapes += measured(part, left, top + height + 14)
    size = f"{len(layout.rows)} rows, {len(layout.columns)} columns"
    about = f"{part.title or 'heatmap'}: {size}, {part.label or 'values'} from {figure(low, part.unit)} to {figure(high, part.unit)}"
    readout = raster_readout(part, layout, low, high) if layout.is_raster else {}
    beside = text_width(told(part), 11.5) + 16 if told(part) else 60
    return Picture(left + max(width + layout.right, KEY_WIDTH + beside), top + height + 44, shapes, about, readout)


def leans(names: Sequence[str], wide: float) -> bool:
    """Whether names need more room than cells have; of letters, few are as wide as the widest, and a line of them can be read."""
    if wide >= LETTER_ROOM and all(len(name) <= 1 for name in names):
        return False
    return any(text_width(name, name_size(wide)) > wide - 2 for name in names)


def name_size(wide: float) -> float:
    return 13.0 if wide >= 16 else 10.5


def cells(part: Heatmap, values: np.ndarray, strong: np.ndarray, left: float, top: float, wide: float, tall: float) -> list[Shape]:
    found: list[Shape] = []
    texts = cell_texts(part, values, strong, wide)
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            share = float(strong[row, column])
            x, y, kind = left + column * wide, top + row * tall, "heat" if share >= 0 else "cold"
            about = f"{name_at(part.rows, row)}, {name_at(part.columns, column)}: {figure(values[row, column], part.unit)}"
            found.append(Box(x, y, wide, tall, kind, about, opacity=abs(share) if abs(share) >= FAINTEST else 0.0))
            if np.isnan(values[row, column]):
                found.append(Label(x + wide / 2, y + tall / 2 + 4, NONE, "number"))
            elif texts[row][column]:
                found.append(Label(x + wide / 2, y + tall / 2 + 4, texts[row][column], number_kind(kind, abs(share))))
    return found


def cell_texts(part: Heatmap, values: np.ndarray, strong: np.ndarray, wide: float) -> list[list[str]]:
    """What is written in cells that have room for it: shares in percent but for small ones, anything else in two figures."""
    is_share = part.unit == PERCENT
    most = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    digits = 2 if most <= 1 and not part.diverging and not np.any(values < 0) else 1  # a sign takes the room of a digit

    def text(value: float, share: float) -> str:
        if wide < 30 or not np.isfinite(value) or (is_share and abs(share) < 0.1):
            return ""
        found = f"{100 * value:.0f}%" if is_share else f"{value:.{digits}f}" if 0.5 <= most < 1000 else f"{value:.1g}"
        found = found.removeprefix("-") if found.strip("-0.") == "" else found
        fits = [each for each in (found, found.removesuffix("%")) if text_width(each, 10.5) < wide]  # beside the scale the sign stands too
        return fits[0] if fits else ""

    return [[text(value, share) for value, share in zip(*each, strict=True)] for each in zip(values, strong, strict=True)]


def figure(value: float, unit: str) -> str:
    """A value with its unit, as it is read off a map."""
    if not np.isfinite(value):
        return short_number(value)
    shown = short_number(100 * value if unit == PERCENT else value)
    return f"{shown} {unit}" if unit else shown


def told(part: Heatmap) -> str:
    """What is measured, and in which unit: what stands beside the scale of colours."""
    return f"{part.label} ({part.unit})" if part.label and part.unit else part.label or part.unit


def measured(part: Heatmap, left: float, top: float) -> list[Shape]:
    return [Label(left + KEY_WIDTH + 12, top + KEY_HEIGHT, told(part), "tick-start")] if told(part) else []


def name_at(names: Sequence[str], place: int) -> str:
    return names[place] if place < len(names) and names[place] else str(place + 1)


def rasters(part: Heatmap, values: np.ndarray, strong: np.ndarray, left: float, top: float, wide: float, tall: float) -> list[Shape]:
    """One image; where there are two colours, one for each."""
    shown = None if np.isfinite(values).all() else ~np.isnan(values)
    area = left, top, values.shape[1] * wide, values.shape[0] * tall
    found: list[Shape] = [Raster(*area, np.rint(255 * np.clip(strong, 0, 1)), "heat", shown)]
    if part.diverging:
        found.append(Raster(*area, np.rint(255 * np.clip(-strong, 0, 1)), "cold", shown))
    return found


def raster_readout(part: Heatmap, layout: Layout, low: float, high: float) -> dict[str, object]:
    """For the script: where cells are, and what they are called; their values it reads from the image."""
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
    left, top, wide, tall, rows, columns = layout.left, layout.top, layout.wide, layout.tall, len(layout.rows), len(layout.columns)
    right, bottom = left + columns * wide, top + rows * tall
    if layout.is_raster:
        return [Stroke([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], "frame")]
    across: list[Shape] = [Stroke([(left, top + row * tall), (right, top + row * tall)], "frame") for row in range(rows + 1)]
    return across + [Stroke([(left + column * wide, top), (left + column * wide, bottom)], "frame") for column in range(columns + 1)]


def every(size: float, least: float) -> int:
    """Of so large cells, each how many-th has room for its name."""
    return max(1, -int(-least // size))


def shown_names(names: Sequence[str], size: float, least: float) -> list[tuple[int, str]]:
    """Places and names of those that there is room for; some letters of a text cannot be read, and places are numbered in their stead."""
    skipped = every(size, least)
    if skipped == 1 or any(len(name) > 1 for name in names):
        return [(at, names[at]) for at in range(0, len(names), skipped)]
    round_step = next(step * 10**power for power in range(1, 9) for step in (1, 2, 5) if step * 10**power >= skipped)
    return [(at, str(at + 1)) for at in range(round_step - 1, len(names), round_step)]


def names(layout: Layout) -> list[Shape]:
    """Words at the sides, as many as there is room for."""
    found: list[Shape] = []
    small, down = ("", 4.5) if layout.tall >= 16 else ("small-", 3.5)
    for row, name in layout.shown_rows:
        y = layout.top + (row + 0.5) * layout.tall + down
        found.append(Label(layout.left - GAP, y, name, f"{small}word-end"))
    small = "" if layout.wide >= 16 else "small-"
    for column, name in layout.shown_columns:
        x = layout.left + (column + 0.5) * layout.wide
        kind, turn = (f"{small}word", -45.0) if layout.is_leaning else (f"{small}word-middle", 0.0)
        found.append(Label(x + (3 if layout.is_leaning else 0), layout.top - GAP, name, kind, turn))
    return found


def axis_names(part: Heatmap, left: float, top: float, width: float, height: float) -> list[Shape]:
    found: list[Shape] = []
    if part.row_label:
        found.append(Label(MARGIN + 10, top + height / 2, part.row_label, "label", -90))
    if part.column_label:
        found.append(Label(left + width / 2, MARGIN + 12, part.column_label, "label"))
    return found


def goes_beyond(values: np.ndarray, high: float) -> bool:
    """Whether there is more than what has all of the colour."""
    return bool(np.any(values[np.isfinite(values)] > high + 1e-6 * abs(high)))


def key(
    left: float, top: float, low: float, high: float, diverging: bool, strength: float = 1.0, *, goes_on: bool = False, unit: str = ""
) -> list[Shape]:
    """The scale of colours, as strong as they are; shares in percent."""
    unit = unit if unit == PERCENT else ""  # any other stands beside it
    pieces = 24
    found: list[Shape] = []
    for piece in range(pieces):
        share = (piece + 0.5) / pieces
        share = 2 * share - 1 if diverging else share
        kind = "heat" if share >= 0 else "cold"
        found.append(Box(left + piece * KEY_WIDTH / pieces, top, KEY_WIDTH / pieces, KEY_HEIGHT, kind, opacity=strength * abs(share)))
    found.append(Stroke([(left, top + KEY_HEIGHT), (left + KEY_WIDTH, top + KEY_HEIGHT)], "grid"))
    least = low if abs(low) > 0.002 * (high - low) else 0.0
    found.append(Label(left, top + KEY_HEIGHT + 13, figure(least, unit), "tick-start"))
    found.append(Label(left + KEY_WIDTH, top + KEY_HEIGHT + 13, ("≥ " if goes_on else "") + figure(high, unit), "tick-end"))
    return found
