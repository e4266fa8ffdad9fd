"""Restores a view from the output of `View.json`: the same parts, drawn the same. Non-finite values are restored as
NaN."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from clew.drawing.views import (
    Bars,
    Branch,
    Branches,
    ColouredText,
    Grid,
    Heatmap,
    Lines,
    Network,
    Node,
    Note,
    Overlays,
    Part,
    Points,
    Series,
    Spelled,
    Table,
    View,
)


def view_of(content: Mapping[str, Any]) -> View:
    """The view in parsed JSON."""
    return View(content["title"], [part_of(part) for part in content["parts"]], content["about"], content["facts"])


def part_of(content: Mapping[str, Any]) -> Part:
    kind, inner = PARTS[content["kind"]]
    fields = {name: inner[name](value) if name in inner else value for name, value in content.items() if name != "kind"}
    return kind(**fields)


def numbers(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float64)  # null is nan


def levels(values: Any) -> np.ndarray | None:
    """A picture's bytes, if there is one."""
    return None if values is None else np.array(values, dtype=np.uint8)


def listed(values: Any) -> Any:
    """Numbers, or rows of them; null becomes NaN, or None for a whole list."""
    return (
        None
        if values is None
        else [listed(value) if isinstance(value, list) else np.nan if value is None else value for value in values]
    )


def series_of(content: list[dict[str, Any]]) -> list[Series]:
    return [
        Series(**{**series, "x": listed(series["x"]), "y": listed(series["y"]), "spread": listed(series["spread"])})
        for series in content
    ]


PARTS: dict[str, tuple[Callable[..., Part], dict[str, Callable[[Any], Any]]]] = {
    "heatmap": (Heatmap, {"values": numbers, "backdrop": levels}),
    "spelled": (Spelled, {"shown": numbers, "weights": numbers}),
    "grid": (Grid, {"maps": lambda maps: [[numbers(each) for each in row] for row in maps]}),
    "lines": (Lines, {"series": series_of, "thresholds": lambda pairs: [tuple(pair) for pair in pairs]}),
    "bars": (Bars, {"values": listed}),
    "points": (Points, {"series": series_of}),
    "colouredtext": (ColouredText, {"values": listed}),
    "table": (Table, {}),
    "branches": (Branches, {"nodes": lambda nodes: [Branch(**node) for node in nodes]}),
    "network": (
        Network,
        {
            "nodes": lambda nodes: [Node(**node) for node in nodes],
            "edges": lambda edges: [tuple(edge) for edge in edges],
        },
    ),
    "overlays": (
        Overlays,
        {
            "pixels": lambda pixels: np.array(pixels, dtype=np.uint8),
            "maps": lambda maps: [numbers(each) for each in maps],
            "cell": tuple,
        },
    ),
    "note": (Note, {}),
}
"""The class of each kind of part, and converters for the fields that JSON stores in another form."""
