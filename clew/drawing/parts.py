"""The parts of a view as plain values, each a picture of one kind. Nothing here draws.

`clew.drawing` turns them into SVG and HTML, `clew.drawing.figures` into matplotlib figures, so that a notebook, a file, the
page and a report show the same. Names, tokens and notes are plain text, whatever they hold: they are escaped where they are drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Heatmap:
    """Values (rows, columns), dark where they are high; `diverging` has two colours around 0. From `low` to `high`, or from the least to
    the greatest. `label` says what is measured, in `unit`: shares whose unit is % are written in percent. NaN is no value, and says so.
    `keyed` axes are lists of names, such as levels, which compared maps show alike; the others are places of a text.

    A map over a picture lies on it: `backdrop` is the picture, from 0 to 255, in colours (height, width, 3), or in grey (rows, columns) a
    spectrogram, whose rows and columns are no lengths. It may be finer than the values are."""

    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    title: str = ""
    row_label: str = ""
    column_label: str = ""
    low: float | None = None
    high: float | None = None
    diverging: bool = False
    label: str = ""
    unit: str = ""
    keyed: Literal["", "rows", "both"] = ""
    backdrop: np.ndarray | None = None


@dataclass(frozen=True)
class Spelled:
    """What was written from an input that is no text: `shown` (rows, columns) is the input's picture, such as a spectrogram, under its
    `name`; `weights` (letters, places) how much each letter lies at each place. Both go over the `length` of the input, in a `unit` such
    as seconds."""

    shown: np.ndarray
    weights: np.ndarray
    letters: Sequence[str]
    length: float
    unit: str
    name: str = ""
    title: str = ""


@dataclass(frozen=True)
class Grid:
    """Many small heatmaps of one kind, by layer (row) and head (column), each under a name; links lead to one of them. Colours go from
    `low` to `high`, or to the greatest value. `notes` stand on maps that are not as the others, such as those of heads that are off; a map
    without values is none that can be chosen."""

    maps: Sequence[Sequence[np.ndarray]]
    row_names: Sequence[str]
    column_names: Sequence[str]
    title: str = ""
    high: float | None = None
    notes: Sequence[Sequence[str]] = ()
    low: float = 0.0


@dataclass(frozen=True)
class Series:
    """One line, or the points of one group: values y at x. `spread` is how far they go to either side."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Lines:
    """Lines against one scale and another; these go from the least to the greatest value, or from one end of `x_range` and `y_range` to the
    other."""

    series: Sequence[Series]
    x_label: str
    y_label: str
    title: str = ""
    log_x: bool = False
    log_y: bool = False
    thresholds: Sequence[tuple[str, float]] = ()
    """Horizontal lines with a name."""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Bars:
    """A bar each; several values a name are groups, named by `groups`. The scale goes from `low` to `high`, or from 0 or the least value to
    the greatest. Bars of probabilities and shares stand on 0 to 1."""

    names: Sequence[str]
    values: Sequence[float] | Sequence[Sequence[float]]
    label: str
    title: str = ""
    groups: Sequence[str] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Points:
    """A map: groups of points, each point with a text that is shown on request."""

    series: Sequence[Series]
    texts: Sequence[Sequence[str]]
    x_label: str = ""
    y_label: str = ""
    title: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class ColouredText:
    """Tokens in reading order, each on the colour of its value; `notes` are shown on request. `joined` tokens stand without gaps. Where
    values have no `label`, colours only tell tokens apart, and their scale is not shown."""

    tokens: Sequence[str]
    values: Sequence[float]
    title: str = ""
    label: str = ""
    low: float | None = None
    high: float | None = None
    diverging: bool = False
    joined: bool = False
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Table:
    """Rows of cells; a column's unit stands in its heading. `keys` are the first cells that name a row, in a list of names: compared tables
    show the rows of all."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    keys: int = 0


@dataclass(frozen=True)
class Branch:
    """A node of a tree that grows from left to right: its parent's number (None at the root), what it says, and whether it was kept."""

    parent: int | None
    text: str
    score: float
    kept: bool = True
    best: bool = False
    note: str = ""


@dataclass(frozen=True)
class Branches:
    """Steps of a search: `nodes` in the order they were made; node i's step is one more than its parent's."""

    nodes: Sequence[Branch]
    title: str = ""


@dataclass(frozen=True)
class Node:
    """A box of a graph: what it is called, and lines that say more (shape, value, gradient)."""

    name: str
    lines: Sequence[str] = ()
    kind: Literal["input", "parameter", "operation", "output"] = "operation"


@dataclass(frozen=True)
class Network:
    """A directed graph without cycles; edges lead from one node's number to another's, with a text."""

    nodes: Sequence[Node]
    edges: Sequence[tuple[int, int, str]]
    title: str = ""


@dataclass(frozen=True)
class Overlays:
    """Where each word looks in one picture (height, width, 3) of bytes: weights (rows, columns) by name, of a grid whose places are cells
    of so many pixels down and across, the first of them beginning `before` pixels outside. Where `boxes` (left, top, right, bottom) are
    given, in pixels of the picture, weights (boxes,) are of these instead."""

    pixels: np.ndarray
    names: Sequence[str]
    maps: Sequence[np.ndarray]
    cell: tuple[int, int] = (1, 1)
    title: str = ""
    before: int = 0
    boxes: Sequence[tuple[float, float, float, float]] = ()


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    text: str


Part = Heatmap | Spelled | Grid | Lines | Bars | Points | ColouredText | Table | Branches | Network | Overlays | Note
