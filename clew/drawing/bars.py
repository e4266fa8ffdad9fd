"""Horizontal bars, so that names of any length can be read; several values per name are bars below each other."""

import math
from typing import NamedTuple

import numpy as np

from clew.drawing.axes import WIDTH, legend
from clew.drawing.colours import COLOURS
from clew.drawing.letters import shortened_name, text_width, visible
from clew.drawing.parts import Bars
from clew.drawing.scales import LARGEST, Scale, short_number
from clew.drawing.shapes import Box, Label, Picture, Shape, Stroke

LONGEST_NAME = 40
BAR, GROUPED_BAR, SPACE = 16, 11, 8
NUMBER_ROOM = 70
"""The width for numbers at the ends of bars if the scale is fixed, so that pictures on one scale have it at the same
pixels."""


def table_of(part: Bars) -> list[list[float]]:
    """The values of each name, always as a list."""
    return [np.atleast_1d(np.asarray(value, dtype=float)).tolist() for value in part.values]


class Layout(NamedTuple):
    """Names as written, values in lists, the scale, the corner of the bars, and the heights of rows and bars."""

    names: list[str]
    values: list[list[float]]
    scale: Scale
    left: float
    top: float
    row: float
    bar: float
    room: float
    """The width for the number at a bar's end."""

    @property
    def bottom(self) -> float:
        return self.top + len(self.values) * self.row


def bounds(part: Bars) -> tuple[float, float]:
    """The ends of the scale: those of the part, or else such that 0 and every value are on it."""
    finite = [min(max(value, -LARGEST), LARGEST) for row in table_of(part) for value in row if math.isfinite(value)]
    low = min([0.0, *finite]) if part.low is None else part.low
    high = max([0.0, *finite]) if part.high is None else part.high
    return low, high if high > low else low + 1.0


def lay_out(part: Bars, top: float) -> Layout:
    values = table_of(part)
    groups = max(map(len, values), default=1)
    names = [shortened_name(visible(name), LONGEST_NAME) for name in part.names]
    left = max((text_width(name, 13) for name in names), default=0) + 14
    low, high = bounds(part)
    room = max((text_width(short_number(value), 11.5) for row in values for value in row), default=0) + 10
    room = room if part.high is None else max(room, NUMBER_ROOM)
    scale = Scale(low, high, left + (room if low < 0 else 0), max(WIDTH, left + 240) - room)
    bar = BAR if groups == 1 else GROUPED_BAR
    return Layout(names, values, scale, left, top + 4, groups * bar + SPACE, bar, room)


def keys(part: Bars) -> tuple[list[Shape], float]:
    return legend(part.groups, WIDTH, dots=True) if part.groups else ([], 0.0)


def bars(part: Bars) -> Picture:
    shapes, top = keys(part)
    layout = lay_out(part, top)
    for place, (name, row) in enumerate(zip(layout.names, layout.values, strict=False)):
        y = layout.top + place * layout.row
        shapes.append(Label(layout.left - 10, y + (layout.row - SPACE) / 2 + 4.5, name, "word-end"))
        for number, value in enumerate(row):
            shapes += one_bar(
                part, place, number, value, layout.scale, y + number * layout.bar, layout.bar - (len(row) > 1)
            )
    zero = layout.scale(0)
    shapes.append(Stroke([(zero, top), (zero, layout.bottom)], "axis"))
    shapes.append(Label((layout.scale.start + layout.scale.end) / 2, layout.bottom + 16, part.label, "label"))
    if part.high is not None:
        shapes += scale_ends(layout, top)
    about = f"{part.title or part.label}: {len(layout.values)} bars of {part.label}"
    return Picture(layout.scale.end + layout.room, layout.bottom + 26, shapes, about)


def scale_ends(layout: Layout, top: float) -> list[Shape]:
    """Labels the ends of a fixed scale, since no bar may reach them."""
    low, high = layout.scale.low, layout.scale.high
    edge: list[Shape] = [Stroke([(layout.scale.end, top), (layout.scale.end, layout.bottom)], "grid")]
    names = ((layout.scale.start, low, "tick-start"), (layout.scale.end, high, "tick-end"))
    return edge + [Label(x, layout.bottom + 16, short_number(value), kind) for x, value, kind in names]


def one_bar(part: Bars, place: int, number: int, value: float, scale: Scale, y: float, height: float) -> list[Shape]:
    zero, group = scale(0), part.groups[number] if number < len(part.groups) else ""
    about = f"{part.names[place]}{', ' + group if group else ''}: {short_number(value)}"
    if not math.isfinite(value):
        return [Label(zero + 6, y + height / 2 + 4, short_number(value), "value")]
    end = scale(min(max(value, -LARGEST), LARGEST))
    shape = Box(min(zero, end), y, max(abs(end - zero), 0.5), height, f"fill-{number % len(COLOURS)}", about, round=2)
    kind, offset = ("value", 6) if value >= 0 else ("value-end", -6)
    return [shape, Label(end + offset, y + height / 2 + 4, short_number(value), kind)]
