"""The parts of a view as plain values, each a picture of one kind. Nothing here draws.

`clew.drawing` turns them into SVG and HTML, `clew.drawing.figures` into matplotlib figures, so that notebooks, files,
the page and reports show the same. Names, tokens and notes are plain text: they are escaped where they are drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Heatmap:
    """Values (rows, columns), darker where they are higher; `diverging` has two colours around 0. The scale goes from
    `low` to `high`, by default from the minimum to the maximum. `label` names the quantity, in `unit`: shares with the
    unit % are written in per cent. NaN is a missing value, and is marked. `keyed` axes are lists of names, such as
    levels, which compared maps merge; others are positions in a text.

    `backdrop` is a picture below the map, from 0 to 255: in colour (height, width, 3), or in grey (rows, columns) for a
    spectrogram, whose axes are not both lengths. It may have a higher resolution than the values."""

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
    """Text written from an input such as a sound: `shown` (rows, columns) is the input's picture, such as a
    spectrogram, called `name`; `weights` (letters, places) say how much each letter lies at each place. Both span the
    `length` of the input, in a `unit` such as seconds."""

    shown: np.ndarray
    weights: np.ndarray
    letters: Sequence[str]
    length: float
    unit: str
    name: str = ""
    title: str = ""


@dataclass(frozen=True)
class Grid:
    """Many small heatmaps of one kind, by layer (row) and head (column), each with a name; each can be selected.
    Colours go from `low` to `high`, by default the maximum. `notes` are written on maps that differ from the others,
    such as those of heads that are off. A map without values cannot be selected."""

    maps: Sequence[Sequence[np.ndarray]]
    row_names: Sequence[str]
    column_names: Sequence[str]
    title: str = ""
    high: float | None = None
    notes: Sequence[Sequence[str]] = ()
    low: float = 0.0


@dataclass(frozen=True)
class Series:
    """One line, or the points of one group: values y at x. `spread` is their reach to either side. Values of a
    `written` line stand at its points, the highest in bold."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None
    dashed: bool = False
    written: bool = False


@dataclass(frozen=True)
class Lines:
    """Lines on two scales, which go from the minimum to the maximum, or over `x_range` and `y_range`. A line is
    interrupted at values that are NaN."""

    series: Sequence[Series]
    x_label: str
    y_label: str
    title: str = ""
    log_x: bool = False
    log_y: bool = False
    thresholds: Sequence[tuple[str, float]] = ()
    """Named horizontal lines."""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    x_names: Sequence[str] = ()
    """Names of the places 0, 1, ... along x, written instead of numbers; an empty one is a gap."""


@dataclass(frozen=True)
class Bars:
    """One bar per name, or several, in groups named by `groups`. The scale goes from `low` to `high`, by default from 0
    or the minimum to the maximum. Bars of probabilities and shares go from 0 to 1."""

    names: Sequence[str]
    values: Sequence[float] | Sequence[Sequence[float]]
    label: str
    title: str = ""
    groups: Sequence[str] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Points:
    """A map: groups of points; each point has a text that is shown on request."""

    series: Sequence[Series]
    texts: Sequence[Sequence[str]]
    x_label: str = ""
    y_label: str = ""
    title: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    log_x: bool = False


@dataclass(frozen=True)
class ColouredText:
    """Tokens in reading order, each on the colour of its value; `notes` are shown on request. `joined` tokens have no
    gaps. Without a `label`, colours only tell tokens apart, and their scale is not shown."""

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
    """Rows of cells; units are part of the header. `keys` is the number of first cells that name a row, 0 if none do;
    compared tables show the named rows of all."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    keys: int = 0


@dataclass(frozen=True)
class Branch:
    """A node of a tree that grows from left to right: its parent's index (None for the root), its text, and whether it
    was kept."""

    parent: int | None
    text: str
    score: float
    kept: bool = True
    best: bool = False
    note: str = ""


@dataclass(frozen=True)
class Branches:
    """The steps of a search: `nodes` in order of creation; a node's step is one more than its parent's."""

    nodes: Sequence[Branch]
    title: str = ""


@dataclass(frozen=True)
class Node:
    """A box of a graph: its name, and lines of details (shape, value, gradient)."""

    name: str
    lines: Sequence[str] = ()
    kind: Literal["input", "parameter", "operation", "output"] = "operation"


@dataclass(frozen=True)
class Network:
    """A directed acyclic graph. Edges lead from one node's index to another's, with a text."""

    nodes: Sequence[Node]
    edges: Sequence[tuple[int, int, str]]
    title: str = ""


@dataclass(frozen=True)
class Overlays:
    """Where each word attends in one picture (height, width, 3) of bytes: named weights (rows, columns) over a grid of
    cells of `cell` pixels, the first starting `before` pixels outside the picture. With `boxes` (left, top, right,
    bottom), in pixels of the picture, the weights (boxes,) belong to these instead."""

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
