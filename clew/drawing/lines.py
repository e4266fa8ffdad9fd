"""Lines on two scales, with bands for their spread and named thresholds."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from clew.drawing.axes import BOTTOM, HEIGHT, RIGHT, WIDTH, Field, axes, legend, tick_room
from clew.drawing.colours import COLOURS, dash_of
from clew.drawing.letters import visible
from clew.drawing.parts import Lines, Series
from clew.drawing.scales import Scale, extent, short_number
from clew.drawing.shapes import Dot, Label, Picture, Place, Shape, Stroke

FEW_POINTS = 40
"""Lines with at most this many points have a dot at each."""


MOST_POINTS = 2000
"""The largest number of points of a line; more cannot be told apart and only make the page larger."""


def thinned(series: Series, most: int = MOST_POINTS) -> Series:
    """The line with at most `most` points: the minimum and the maximum of neighbours are kept, so that no spike is
    lost."""
    if len(series.x) <= most:
        return series
    values = np.asarray(series.y, dtype=float)
    kept: set[int] = {0, len(series.x) - 1}
    for part in np.array_split(np.arange(min(len(series.x), len(values))), most // 2 - 1):
        finite = part[np.isfinite(values[part])]
        kept |= (
            {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
            if finite.size
            else {int(part[0])}
        )
    places = sorted(kept)
    spread = None if series.spread is None else [series.spread[place] for place in places]
    return replace(
        series, x=[series.x[place] for place in places], y=[series.y[place] for place in places], spread=spread
    )


def lines(part: Lines) -> Picture:
    part = replace(part, series=[thinned(series) for series in part.series])
    keys, top = legend([series.name for series in part.series], WIDTH, [series.dashed for series in part.series])
    x, y, field = scales(part, top + 6)
    shapes = [*keys, *axes(x, y, field, part.x_label, part.y_label)]
    crossed = [(name, value) for name, value in part.thresholds if is_shown(value, y)]
    for name, value in crossed:
        shapes.append(
            Stroke(
                [(field.left, y(value)), (field.right, y(value))], "threshold", title=f"{name}: {short_number(value)}"
            )
        )
    for number, series in enumerate(part.series):
        shapes += line(series, number, x, y)
    shapes += [Label(field.right - 4, y(value) - 5, name, "threshold-name") for name, value in crossed]
    rules = "".join(f", threshold {name} at {short_number(value)}" for name, value in crossed)
    about = f"{part.title or part.y_label}: {part.y_label} against {part.x_label}, {len(part.series)} lines{rules}"
    return Picture(WIDTH, field.bottom + BOTTOM, shapes, about, readout(part, x, y, field))


def scales(part: Lines, top: float) -> tuple[Scale, Scale, Field]:
    spread = [value for series in part.series for value in ends(series)]
    low_x, high_x = part.x_range or extent(
        chain.from_iterable(series.x for series in part.series), log=part.log_x, margin=0.02
    )
    low_y, high_y = part.y_range or extent([*spread, *(value for _, value in part.thresholds)], log=part.log_y)
    bottom = top + HEIGHT - BOTTOM - 12
    y = Scale(low_y, high_y, bottom, top, part.log_y)
    left = tick_room(y, part.y_label)
    whole = all(float(value).is_integer() for series in part.series for value in series.x)
    return Scale(low_x, high_x, left, WIDTH - RIGHT, part.log_x, whole), y, Field(left, top, WIDTH - RIGHT, bottom)


def ends(series: Series) -> Iterator[float]:
    """All values, or the ends of their spread."""
    spread = series.spread if series.spread is not None else [0.0] * len(series.y)
    for value, reach in zip(series.y, spread, strict=False):
        yield from (value - reach, value + reach) if reach > 0 else (value,)


def pieces(series: Series, x: Scale, y: Scale) -> list[list[Place]]:
    """The points of a line, in pixels, split where a value cannot be shown."""
    segments: list[list[Place]] = [[]]
    for at, value in zip(series.x, series.y, strict=False):
        if is_shown(at, x) and is_shown(value, y):
            segments[-1].append((x(at), y(value)))
        elif segments[-1]:
            segments.append([])
    return [piece for piece in segments if piece]


def is_shown(value: float, scale: Scale) -> bool:
    return math.isfinite(value) and (value > 0 or not scale.log)


def line(series: Series, number: int, x: Scale, y: Scale) -> list[Shape]:
    colour, shapes = number % len(COLOURS), list[Shape]()
    if series.spread is not None:
        band = [
            (x(at), y(max(value - reach, y.low)), y(min(value + reach, y.high)))
            for at, value, reach in zip(series.x, series.y, series.spread, strict=False)
            if is_shown(at, x) and is_shown(value, y) and math.isfinite(reach)
        ]
        if len(band) > 1:
            outline = [(at, high) for at, _, high in band] + [(at, low) for at, low, _ in reversed(band)]
            shapes.append(Stroke(outline, f"band-{colour}", closed=True))
    dash = dash_of(number, series.dashed)
    parts = pieces(series, x, y)
    shapes += [Stroke(piece, f"line-{colour}", dash=dash) for piece in parts if len(piece) > 1]
    if sum(map(len, parts)) <= FEW_POINTS:
        shapes += [Dot(*place, 2.8, f"fill-{colour}") for piece in parts for place in piece]
    else:
        shapes += [Dot(*piece[0], 2.8, f"fill-{colour}") for piece in parts if len(piece) == 1]
    return shapes


def readout(part: Lines, x: Scale, y: Scale, field: Field) -> dict[str, object]:
    """Data for the script: the field, and all values."""
    return {
        "kind": "lines",
        "field": [round(side, 1) for side in field],
        "x": [x.low, x.high, x.log],
        "y": [y.low, y.high, y.log],
        "label": visible(part.x_label),
        "series": [
            {
                "name": visible(series.name),
                "colour": number % len(COLOURS),
                "x": [number_or_none(value) for value in series.x],
                "y": [number_or_none(value) for value in series.y],
            }
            for number, series in enumerate(part.series)
        ],
    }


def number_or_none(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
