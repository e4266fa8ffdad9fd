"""Lines on two scales, or over named places, with bands for their spread and named thresholds."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from clew.drawing.axes import (
    BOTTOM,
    HEIGHT,
    LEAN,
    LEAST_STEP,
    NAME_SIZE,
    RIGHT,
    WIDTH,
    Field,
    axes,
    legend,
    names_height,
    place_names,
    tick_room,
)
from clew.drawing.colours import COLOURS, dash_of
from clew.drawing.letters import text_width, visible
from clew.drawing.parts import Lines, Series
from clew.drawing.scales import Scale, extent, short_number, short_numbers
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
    keys, top = keys_of(part)
    x, y, field = scales(part, top + 6)
    shapes = [*keys, *axes(x, y, field, part.x_label, part.y_label, part.x_names)]
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
    shapes += all_written(part, x, y)
    rules = "".join(f", threshold {name} at {short_number(value)}" for name, value in crossed)
    against = part.x_label or ("names" if part.x_names else "x")
    about = f"{part.title or part.y_label}: {part.y_label} against {against}, {len(part.series)} lines{rules}"
    height = field.bottom + (BOTTOM if part.x_label else BOTTOM - 18)
    height += names_height(part.x_names, x(1) - x(0)) if part.x_names else 0.0
    return Picture(field.right + RIGHT, height, shapes, about, readout(part, x, y, field))


def keys_of(part: Lines) -> tuple[list[Shape], float]:
    return legend([series.name for series in part.series], WIDTH, [series.dashed for series in part.series])


def scales(part: Lines, top: float) -> tuple[Scale, Scale, Field]:
    spread = [value for series in part.series for value in ends(series)]
    low_x, high_x = part.x_range or extent(
        chain.from_iterable(series.x for series in part.series), log=part.log_x, margin=0.02
    )
    margin = 0.1 if any(series.written for series in part.series) else 0.04
    values = [*spread, *(value for _, value in part.thresholds)]
    low_y, high_y = part.y_range or extent(values, log=part.log_y, margin=margin)
    bottom = top + HEIGHT - BOTTOM - 12
    y = Scale(low_y, high_y, bottom, top, part.log_y)
    left = tick_room(y, part.y_label)
    if part.x_names:
        left, right = named_sides(part, left)
        return Scale(-0.5, len(part.x_names) - 0.5, left, right), y, Field(left, top, right, bottom)
    whole = all(float(value).is_integer() for series in part.series for value in series.x)
    return Scale(low_x, high_x, left, WIDTH - RIGHT, part.log_x, whole), y, Field(left, top, WIDTH - RIGHT, bottom)


def named_sides(part: Lines, left: float) -> tuple[float, float]:
    """The sides of a field with room for the names below it, of which slanted ones reach to the left."""
    count = len(part.x_names)
    first = text_width(place_names(part.x_names)[0], NAME_SIZE) * math.cos(math.radians(LEAN))
    left = max(left, first - LEAST_STEP / 2)
    return left, max(WIDTH - RIGHT, left + LEAST_STEP * count)


def all_written(part: Lines, x: Scale, y: Scale) -> list[Shape]:
    return [label for series in part.series if series.written for label in written_values(series, part, x, y)]


def written_values(series: Series, part: Lines, x: Scale, y: Scale) -> list[Shape]:
    """The values of a line above its points, or below those that have another line's point above them. Without other
    lines, those of valleys are below too."""
    others = [dict(zip(other.x, other.y, strict=False)) for other in part.series if other is not series]
    texts = iter(short_numbers([value for value in series.y if is_shown(value, y)]))
    best = max((value for value in series.y if is_shown(value, y)), default=math.nan)
    labels: list[Shape] = []
    for number, (at, value) in enumerate(zip(series.x, series.y, strict=False)):
        if is_shown(value, y):
            beside = [each for each in series.y[max(number - 1, 0) : number + 2] if math.isfinite(each)]
            is_valley = not others and value == min(beside) < max(beside)
            below = is_valley or any(other.get(at, math.nan) > value for other in others)
            kind = "point-value-best" if value == best else "point-value"
            labels.append(Label(x(at), y(value) + (17 if below else -9), next(texts), kind))
    return labels


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
        "names": [visible(name) for name in part.x_names],
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
