"""Axes: a field with two scales, round numbers along them, and a legend, for lines, points and bars."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from clew.drawing.colours import COLOURS, dash_of
from clew.drawing.letters import shortened_name, text_width, visible
from clew.drawing.scales import Scale
from clew.drawing.shapes import Dot, Label, Shape, Stroke

WIDTH, HEIGHT = 680, 340
RIGHT, BOTTOM = 18, 46
LEGEND_ROW, SWATCH = 21, 26
LONGEST_NAME = 60
NAME_SIZE, PLACE_NAME, LEAST_STEP = 12.5, 24, 44
"""The size and the greatest length of names along x, and the smallest distance of two."""
LEAN = 40
"""The angle, in degrees, of names that are wider than their distance."""


class Field(NamedTuple):
    """The rectangle of the axes, in pixels."""

    left: float
    top: float
    right: float
    bottom: float


def axes(x: Scale, y: Scale, field: Field, x_label: str, y_label: str, names: Sequence[str] = ()) -> list[Shape]:
    """The grid lines, the numbers and the names of the axes. `names` stand along x instead of numbers."""
    shapes: list[Shape] = []
    for place, text in [] if names else x.ticks(7):
        shapes.append(Stroke([(place, field.top), (place, field.bottom)], "grid"))
        shapes.append(Label(place, field.bottom + 17, text, "tick"))
    step = x(1) - x(0) if names else 0.0
    leaning = leans(names, step)
    for number, name in enumerate(place_names(names)):
        place = x(number)
        if leaning and name:
            shapes.append(Label(place + 4, field.bottom + 15, name, "place-end", -LEAN))
        elif name:
            shapes.append(Label(place, field.bottom + 18, name, "place"))
    for place, text in y.ticks(6):
        shapes.append(Stroke([(field.left, place), (field.right, place)], "grid"))
        shapes.append(Label(field.left - 8, place + 4, text, "tick-end"))
    shapes.append(Stroke([(field.left, field.top), (field.left, field.bottom), (field.right, field.bottom)], "axis"))
    if x_label:
        below = field.bottom + 38 + names_height(names, step)
        shapes.append(Label((field.left + field.right) / 2, below, x_label, "label"))
    if y_label:
        shapes.append(Label(14, (field.top + field.bottom) / 2, y_label, "label", -90))
    return shapes


def place_names(names: Sequence[str]) -> list[str]:
    return [shortened_name(visible(name), PLACE_NAME) for name in names]


def leans(names: Sequence[str], step: float) -> bool:
    """Whether a name is wider than the distance of two."""
    return any(text_width(name, NAME_SIZE) > step - 6 for name in place_names(names) if name)


def names_height(names: Sequence[str], step: float) -> float:
    """The height that slanted names need below the row of an upright one."""
    if not leans(names, step):
        return 0.0
    longest = max(text_width(name, NAME_SIZE) for name in place_names(names))
    return longest * math.sin(math.radians(LEAN))


def tick_room(scale: Scale, label: str) -> float:
    """The width that the numbers and the name of a vertical scale need."""
    return max((text_width(text, 11.5) for _, text in scale.ticks(6)), default=0) + 14 + (20 if label else 0)


def point_kind(number: int) -> str:
    """The kind of a group's points: filled, or hollow once all colours are used."""
    return f"{'point' if number < len(COLOURS) else 'ring'}-{number % len(COLOURS)}"


def legend(
    names: Sequence[str], width: float, dashed: Sequence[bool] = (), *, dots: bool = False
) -> tuple[list[Shape], float]:
    """Names beside their colours, in as many rows as needed, and the height of these; nothing if no group has a
    name."""
    shown = [shortened_name(visible(name), LONGEST_NAME) for name in names]
    if not any(shown):
        return [], 0.0
    shapes: list[Shape] = []
    x, y = 0.0, 10.0
    for number, name in enumerate(shown):
        need = SWATCH + 7 + text_width(name, 12.5) + 18
        if x and x + need > width:
            x, y = 0.0, y + LEGEND_ROW
        colour = number % len(COLOURS)
        if dots:
            shapes.append(Dot(x + SWATCH / 2 + 4, y, 5, point_kind(number)))
        else:
            dash = dash_of(number, number < len(dashed) and dashed[number])
            shapes.append(Stroke([(x, y), (x + SWATCH, y)], f"line-{colour}", dash=dash))
        shapes.append(Label(x + SWATCH + 7, y + 4.5, name, "legend"))
        x += need
    return shapes, y + 18.0
