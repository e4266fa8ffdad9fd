"""Draw values of places by their layout: coloured text, lines over time, maps of rows and columns."""

from collections.abc import Mapping, Sequence

import numpy as np

from clew.core.layouts import Layout
from clew.drawing.views import ColouredText, Heatmap, Lines, Part, Series


def over_places(
    layout: Layout,
    values_by_name: Mapping[str, Sequence[float]],
    label: str,
    *,
    low: float,
    high: float,
    title: str = "",
    diverging: bool = False,
    joined: bool = False,
) -> list[Part]:
    """Draw named values, one per place; `title` is the title of lines that share axes."""
    if layout.axis:
        series = [Series(name, list(layout.at), list(values)) for name, values in values_by_name.items()]
        return [Lines(series, layout.axis, label, title, y_range=(low, high))]
    if layout.shape is not None:
        rows, columns = layout.row_names, layout.column_names
        return [
            Heatmap(
                np.reshape(values, layout.shape),
                rows,
                columns,
                name,
                "row",
                "column",
                low,
                high,
                diverging=diverging,
                label=label,
            )
            for name, values in values_by_name.items()
        ]
    return [
        coloured_tokens(layout.names, values, name, low=low, high=high, label=label, diverging=diverging, joined=joined)
        for name, values in values_by_name.items()
    ]


def coloured_tokens(
    tokens: Sequence[str],
    values: Sequence[float],
    title: str,
    *,
    joined: bool,
    low: float = -1.0,
    high: float = 1.0,
    label: str = "",
    diverging: bool = True,
) -> ColouredText:
    """Draw a text coloured by values, with the values as notes."""
    notes = [f"{value:+.3f}" for value in values]
    return ColouredText(tokens, values, title, label, low, high, diverging=diverging, joined=joined, notes=notes)
