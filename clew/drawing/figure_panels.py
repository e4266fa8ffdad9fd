"""Draws parts with scales on matplotlib axes. The data belong to the axes, so a figure can be changed like any
other."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from clew.drawing import bars, heatmap, lines, points
from clew.drawing.axes import LEAN, WIDTH, Field, leans, legend, place_names, point_kind
from clew.drawing.colours import LIGHT, TURNS, dash_of, style
from clew.drawing.letters import visible
from clew.drawing.parts import Bars, Heatmap, Lines, Points
from clew.drawing.scales import short_number
from clew.drawing.shapes import Shape

Place = Callable[[Field], Any]
"""Returns an axis on a field of the part's picture."""
NUMBER, NAME, LABEL = 8.3, 9.4, 9.0
"""Font sizes, in points, of numbers on scales, of names, and of axis labels."""


def lines_panel(part: Lines, place: Place) -> list[Shape]:
    keys, top = lines.keys_of(part)
    x, y, field = lines.scales(part, top + 6)
    axis = place(field)
    for number, series in enumerate(part.series):
        colour, dash = style(number)[0], dash_of(number, series.dashed)
        at, values = np.asarray(series.x, dtype=float), np.asarray(series.y, dtype=float)
        dot = "o" if len(at) <= lines.FEW_POINTS else ""
        (line,) = axis.plot(at, values, color=colour, linewidth=1.7, marker=dot, markersize=3.4)
        if dash:
            line.set_dashes(dash)
        if series.spread is not None:
            reach = np.asarray(series.spread, dtype=float)
            axis.fill_between(at, values - reach, values + reach, color=colour, alpha=0.16, linewidth=0)
    for name, value in part.thresholds:
        axis.axhline(value, color=LIGHT["faint"], linewidth=0.9, linestyle=":")
        above = {"xytext": (-3, 3), "textcoords": "offset points", "xycoords": ("axes fraction", "data")}
        axis.annotate(
            visible(name), (1, value), ha="right", fontsize=NUMBER, color=LIGHT["faint"], parse_math=False, **above
        )
    axis.set(xscale="log" if part.log_x else "linear", yscale="log" if part.log_y else "linear")
    axis.set(xlim=(x.low, x.high), ylim=(y.low, y.high))
    finish(axis, part.x_label, part.y_label)
    if part.x_names:
        name_places(axis, place_names(part.x_names), x(1) - x(0))
    elif x.whole and not part.log_x:
        axis.xaxis.get_major_locator().set_params(integer=True)
    return [*keys, *lines.all_written(part, x, y)]


def name_places(axis: Any, names: Sequence[str], step: float) -> None:
    lean = {"rotation": LEAN, "ha": "right", "rotation_mode": "anchor"} if leans(names, step) else {}
    places = [number for number, name in enumerate(names) if name]
    axis.set_xticks(places, [names[place] for place in places], fontsize=LABEL, parse_math=False, **lean)
    axis.tick_params(axis="x", length=0)
    axis.grid(False, axis="x")


def points_panel(part: Points, place: Place) -> list[Shape]:
    keys, top = legend([series.name for series in part.series], WIDTH, dots=True)
    x, y, field = points.scales(part, top + 6)
    axis = place(field)
    size = (2 * points.radius(part) * 0.72) ** 2
    for number, series in enumerate(part.series):
        colour, is_hollow = style(number)[0], point_kind(number).startswith("ring")
        look = (
            {"color": "white", "edgecolors": colour, "linewidths": 1.3}
            if is_hollow
            else {"color": colour, "edgecolors": "white", "linewidths": 0.5}
        )
        axis.scatter(list(series.x), list(series.y), s=size, zorder=2, **look)
    axis.set(xscale="log" if part.log_x else "linear", xlim=(x.low, x.high), ylim=(y.low, y.high))
    finish(axis, part.x_label, part.y_label)
    return keys


def bars_panel(part: Bars, place: Place) -> list[Shape]:
    keys, top = bars.keys(part)
    layout = bars.lay_out(part, top)
    axis = place(Field(layout.scale.start, layout.top, layout.scale.end, layout.bottom))
    middle = (layout.row - bars.SPACE) / 2
    for number in range(max(map(len, layout.values), default=0)):
        group = [(row, each[number]) for row, each in enumerate(layout.values) if number < len(each)]
        heights = [row * layout.row + (number + 0.5) * layout.bar for row, _ in group]
        drawn = axis.barh(heights, [value for _, value in group], height=layout.bar - 1, color=style(number)[0])
        axis.bar_label(
            drawn, [short_number(value) for _, value in group], padding=3, fontsize=NUMBER, color=LIGHT["faint"]
        )
    axis.set(xlim=(layout.scale.low, layout.scale.high), ylim=(layout.bottom - layout.top, 0))
    axis.axvline(0, color=LIGHT["edge"], linewidth=0.8)
    if part.high is not None:
        ends = [layout.scale.low, layout.scale.high]
        axis.set_xticks(ends, [short_number(end) for end in ends], fontsize=NUMBER)
        axis.axvline(layout.scale.high, color=LIGHT["rule"], linewidth=0.6)
    axis.set_yticks(
        [row * layout.row + middle for row in range(len(layout.names))], layout.names, fontsize=NAME, parse_math=False
    )
    axis.tick_params(length=0, labelbottom=part.high is not None)
    axis.tick_params(axis="y", pad=3.5 + 0.72 * (layout.scale.start - layout.left))
    axis.spines[:].set_visible(False)
    axis.set_xlabel(visible(part.label), fontsize=LABEL, parse_math=False)
    return keys


def heatmap_panel(part: Heatmap, place: Place) -> list[Shape]:
    if part.backdrop is not None:
        return list(heatmap.heatmap(part).shapes)
    layout = heatmap.lay_out(part)
    values = np.atleast_2d(np.asarray(part.values, dtype=float))
    low, high = heatmap.colour_range(values, part.low, part.high, part.diverging)
    strong = heatmap.strengths(values, low, high, part.diverging)
    width, height = len(layout.columns) * layout.wide, len(layout.rows) * layout.tall
    field = Field(layout.left, layout.top, layout.left + max(width, 1), layout.top + max(height, 1))
    axis = place(field)
    axis.imshow(values if values.size else [[0.0]], cmap=colour_map(part.diverging), vmin=low, vmax=high, aspect="auto")
    size = NAME if layout.tall >= 16 else NUMBER
    axis.set_yticks(*pairs_of(layout.shown_rows), fontsize=size, parse_math=False)
    lean = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if layout.is_leaning else {}
    size = NAME if layout.wide >= 16 else NUMBER
    axis.set_xticks(*pairs_of(layout.shown_columns), fontsize=size, parse_math=False, **lean)
    axis.tick_params(top=False, labeltop=True, bottom=False, labelbottom=False, length=0)
    axis.spines[:].set_color(LIGHT["rule"])
    for row, texts in enumerate(heatmap.cell_texts(part, values, strong, layout.wide)):
        for column, text in enumerate(texts):
            if not text:
                continue
            share = strong[row, column]
            colour = LIGHT["over" if abs(share) >= TURNS["heat" if share >= 0 else "cold"][0] else "deep"]
            axis.text(column, row, text, ha="center", va="center", fontsize=7.6, color=colour)
    for row, column in np.argwhere(np.isnan(values)) if not layout.is_raster else ():
        axis.text(column, row, heatmap.NONE, ha="center", va="center", fontsize=7.6, color=LIGHT["deep"])
    names = heatmap.axis_names(part, layout.left, layout.top, width, height)
    is_open, below = heatmap.exceeds_scale(values, high), field.bottom + 14
    key = heatmap.key(layout.left, below, low, high, part.diverging, is_open=is_open, unit=part.unit)
    return [*names, *key, *heatmap.measured(part, layout.left, below)]


def pairs_of(named: Sequence[tuple[int, str]]) -> tuple[list[int], list[str]]:
    """The positions, and the texts at them."""
    return [at for at, _ in named], [name for _, name in named]


def colour_map(diverging: bool) -> Any:
    """From transparent to full colour; if diverging, from one colour to the other, with paper at zero."""
    colours = import_module("matplotlib.colors")
    ends = [LIGHT["cold"], LIGHT["paper"], LIGHT["heat"]] if diverging else [LIGHT["paper"], LIGHT["heat"]]
    return colours.LinearSegmentedColormap.from_list("clew", ends)


def finish(axis: Any, x_label: str, y_label: str) -> None:
    axis.set_xlabel(visible(x_label), fontsize=LABEL, parse_math=False)
    axis.set_ylabel(visible(y_label), fontsize=LABEL, parse_math=False)
    axis.tick_params(labelsize=NUMBER)
    axis.grid(True, color=LIGHT["rule"], linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


PANELS: dict[type, Callable[[Any, Place], list[Shape]]] = {
    Lines: lines_panel,
    Points: points_panel,
    Bars: bars_panel,
    Heatmap: heatmap_panel,
}
"""Functions that draw a part on axes. They return the shapes beside the axes, such as a legend."""
