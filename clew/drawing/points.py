"""A map of points in groups; each point shows its text on request."""

from collections import Counter
from itertools import chain

from clew.drawing.axes import BOTTOM, HEIGHT, RIGHT, WIDTH, Field, axes, legend, point_kind, tick_room
from clew.drawing.lines import is_shown
from clew.drawing.parts import Points
from clew.drawing.scales import Scale, extent, short_number
from clew.drawing.shapes import Dot, Picture

TALLER = 100
"""Extra height: unlike curves, maps have no preferred direction."""
MANY = 400
SMALLER = 0.65
"""The relative size of a point at the place of another, so that both are visible."""


def scales(part: Points, top: float) -> tuple[Scale, Scale, Field]:
    low_x, high_x = part.x_range or extent(chain.from_iterable(series.x for series in part.series), log=part.log_x)
    low_y, high_y = part.y_range or extent(chain.from_iterable(series.y for series in part.series))
    bottom = top + HEIGHT + TALLER - BOTTOM
    y = Scale(low_y, high_y, bottom, top)
    field = Field(tick_room(y, part.y_label), top, WIDTH - RIGHT, bottom)
    whole = all(float(value).is_integer() for series in part.series for value in series.x)
    return Scale(low_x, high_x, field.left, field.right, part.log_x, whole), y, field


def radius(part: Points) -> float:
    return 4.5 if sum(len(series.x) for series in part.series) <= MANY else 3.0


def points(part: Points) -> Picture:
    keys, top = legend([series.name for series in part.series], WIDTH, dots=True)
    x, y, field = scales(part, top + 6)
    shapes = [*keys, *axes(x, y, field, part.x_label, part.y_label)]
    drawn: Counter[tuple[float, float]] = Counter()
    for number, series in enumerate(part.series):
        texts = part.texts[number] if number < len(part.texts) else ()
        for place, (at, value) in enumerate(zip(series.x, series.y, strict=False)):
            if is_shown(at, x) and is_shown(value, y):
                text = (
                    texts[place]
                    if place < len(texts) and texts[place]
                    else f"{short_number(at)}, {short_number(value)}"
                )
                about = f"{text} ({series.name})" if series.name else text
                drawn[at, value] += 1
                size = radius(part) * SMALLER ** (drawn[at, value] - 1)
                shapes.append(Dot(x(at), y(value), size, point_kind(number), about))
    count = sum(len(series.x) for series in part.series)
    return Picture(
        WIDTH, field.bottom + BOTTOM, shapes, f"{part.title or 'map'}: {count} points in {len(part.series)} groups"
    )
