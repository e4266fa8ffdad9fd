"""Learning curves of groups of runs: the values to draw, and a matplotlib figure of them. Knows no run and no file.

Each group has one colour; its runs (seeds) are thin lines, their mean a thick one. `clew.drawing.curves_page` draws the
same as a web page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clew.drawing.colours import LIGHT, style
from clew.drawing.figures import load_matplotlib
from clew.drawing.letters import shortened_name

MOST_POINTS = 300
"""The largest number of points of a line; more cannot be told apart and only make the page larger."""
FEW_POINTS = 40
"""Means with at most this many points have a dot at each."""


@dataclass(frozen=True)
class Curve:
    """The values that one run logged, by step."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """A group's curves of one measure, one per run."""

    name: str
    runs: tuple[Curve, ...]


@dataclass(frozen=True)
class Panel:
    """One measure of every group; groups have the same order in every panel."""

    title: str
    label: str
    groups: tuple[Curves, ...]


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """The curve with at most `most` points: neighbours are averaged, which reduces noise and hides nothing."""
    if len(curve.steps) <= most:
        return curve
    steps = [float(part.mean()) for part in np.array_split(np.asarray(curve.steps, dtype=float), most)]
    values = [float(part.mean()) for part in np.array_split(np.asarray(curve.values, dtype=float), most)]
    return Curve(tuple(round(step) for step in steps), tuple(values))


def mean_curve(runs: Sequence[Curve]) -> Curve:
    """The mean over runs at their common steps, so that it does not jump where one run ends."""
    common = sorted(set.intersection(*(set(run.steps) for run in runs))) if runs else []
    values = [dict(zip(run.steps, run.values, strict=True)) for run in runs]
    return Curve(tuple(common), tuple(float(np.mean([by_step[step] for by_step in values])) for step in common))


def smoothed(curve: Curve) -> Curve:
    """A running mean over a fiftieth of the points to each side, fewer at the ends; short curves are unchanged."""
    reach = len(curve.values) // 50
    if reach == 0:
        return curve
    values = np.asarray(curve.values)
    spans = [min(reach, i, len(values) - 1 - i) for i in range(len(values))]
    return Curve(curve.steps, tuple(float(values[i - span : i + span + 1].mean()) for i, span in enumerate(spans)))


def mean_of(group: Curves) -> Curve:
    """A group's thick line."""
    return smoothed(thinned(mean_curve(group.runs)))


def value_range(groups: Sequence[Curves]) -> tuple[float, float]:
    """The range of values to show: all but the highest few per cent, with which a curve begins."""
    values = np.asarray([value for group in groups for run in group.runs for value in run.values])
    if len(values) == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(np.quantile(values, 0.98))
    margin = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def figure(panels: Sequence[Panel], title: str) -> Any:
    """A matplotlib figure: panels side by side, and a legend below them with as many columns as the names allow."""
    matplotlib = load_matplotlib()
    longest = max(len(group.name) for group in panels[0].groups)
    columns, most = (3, 24) if longest <= 24 else (2, 46) if longest <= 46 else (1, 100)
    legend_height = 0.2 * -(-len(panels[0].groups) // columns) + 0.2
    width, height = 5.4 * len(panels), 4.7 + legend_height
    drawn = matplotlib.Figure(figsize=(width, height), dpi=150)
    left = 0.75 / width
    heading = drawn.suptitle(
        shortened_name(title, 100), fontsize=13, fontweight="bold", x=left, y=1 - 0.15 / height, ha="left", va="top"
    )
    axes = drawn.subplots(1, len(panels), squeeze=False)[0]
    drawn.subplots_adjust(
        left=left, right=1 - 0.2 / width, top=1 - 0.85 / height, bottom=(legend_height + 0.6) / height, wspace=0.2
    )
    handles = [draw(axis, panel) for axis, panel in zip(axes, panels, strict=True)][0]
    counts = [f" (mean of {len(group.runs)})" if len(group.runs) > 1 else "" for group in panels[0].groups]
    legend = drawn.legend(
        handles,
        [shortened_name(group.name, most) + count for group, count in zip(panels[0].groups, counts, strict=True)],
        loc="upper left",
        bbox_to_anchor=(left, legend_height / height),
        borderaxespad=0,
        ncols=columns,
        frameon=False,
        fontsize=9,
        handlelength=3,
    )
    for text in [heading, *legend.get_texts()]:
        text.set_parse_math(False)  # a dollar in a name is a dollar
    return drawn


def draw(axis: Any, panel: Panel) -> list[Any]:
    """Draws one panel on a matplotlib axis, and returns the groups' thick lines for a legend."""
    thick = []
    for number, group in enumerate(panel.groups):
        colour, dash = style(number)
        for run in map(thinned, group.runs):
            axis.plot(run.steps, run.values, color=colour, alpha=0.35, linewidth=0.8, zorder=1)
        mean = mean_of(group)
        dot = "o" if len(mean.steps) <= FEW_POINTS else ""
        (line,) = axis.plot(mean.steps, mean.values, color=colour, linewidth=2.2, marker=dot, markersize=3.5, zorder=2)
        if dash:
            line.set_dashes(dash)
        thick.append(line)
    axis.set_title(panel.title, fontsize=11, loc="left")
    axis.set_xlabel("training steps")
    axis.set_ylabel(panel.label)
    axis.set_ylim(*value_range(panel.groups))
    axis.set_xlim(left=0)
    axis.grid(True, color=LIGHT["rule"], linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    return thick
