"""The cells of a recurrent layer over a text (Karpathy et al. 2015): tanh(c) of an LSTM, or h of a network without c,
for each cell and token, and the text coloured by one cell at a time."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from clew.core.layouts import Layout
from clew.drawing.views import Grid, Heatmap, Part, View
from clew.inspection.recording import record
from clew.instruments.instrument import Choices, Instrument, TextOptions
from clew.instruments.laid_out import over_places
from clew.instruments.reading import read
from clew.instruments.subjects.recurrent_layers import (
    RecurrentLayer,
    check_units,
    find_layer,
    recurrent_layers,
    why_not_recurrent,
)
from clew.instruments.subjects.subject import Subject
from clew.tasks.offers import Reading

MOST_SHOWN = 64
"""The maximum number of cells in the overview map."""
ABREAST = 4
"""The number of small maps per row."""


class CellOptions(TextOptions):
    """The layer and the cells."""

    layer: str = Field(
        "", description="the name of a recurrent layer, such as 1, 2.backward or decoder.1; the topmost by default"
    )
    units: tuple[int, ...] = Field(
        (), description="cells to colour the text by, from 1; by default those that change most"
    )
    count: int = Field(4, ge=1, le=MOST_SHOWN, description="the number of cells, if none are named")
    of: Literal["cell", "hidden"] = Field("cell", description="cell: the layer's memory (c); hidden: its output (h)")


class LayerValues(NamedTuple):
    """Values (places, units) of one layer, and the layout of its places."""

    values: Tensor
    layout: Layout


def layer_values(reading: Reading, layer: RecurrentLayer, of: str) -> LayerValues:
    """Record the values of a layer. Memory cells are recorded as tanh(c), which is between -1 and 1."""
    place = layer.place(of)
    with record(reading.module, place) as recorded:
        reading.hidden()
    values = layer.values(recorded[place])
    return LayerValues(values.tanh() if place == layer.memory else values, layer.layout(reading, recorded[place]))


def liveliest(values: Tensor, count: int) -> list[int]:
    """Return the units, from 1, whose values (places, units) have the largest deviation, largest first."""
    spread = values.std(0, correction=0)
    return [unit + 1 for unit in spread.argsort(descending=True, stable=True)[:count].tolist()]


def look_at_cells(subjects: Sequence[Subject], options: CellOptions) -> View:
    subject = subjects[0]
    layer = find_layer(subject.module, options.layer)
    reading = read(subject, options.text, options.target, into=options.into)
    values, layout = layer_values(reading, layer, options.of)
    check_units(options.units, values.shape[1], layer.name)
    units = options.units or tuple(liveliest(values, options.count))
    most_varied = liveliest(values, MOST_SHOWN)
    what = symbol(layer, options.of)
    joined = reading.is_by_character(written=layer.writes)
    bound = max(1.0, float(values.abs().max()) if values.numel() else 1.0)
    chosen_cells = {f"Cell {unit}": values[:, unit - 1].tolist() for unit in units}
    parts: list[Part] = over_places(
        layout, chosen_cells, what, low=-bound, high=bound, title="Cells", diverging=True, joined=joined
    )
    parts.append(liveliest_map(values, layout, most_varied, what, bound))
    about = f"{what} of layer {layer.name}, one of {', '.join(each.name for each in recurrent_layers(subject.module))}"
    facts: dict[str, Any] = {
        "layer": layer.name,
        "of": what,
        "tokens": list(layout.names),
        "units": {str(unit): [round(value, 5) for value in values[:, unit - 1].tolist()] for unit in units},
        "liveliest": most_varied,
    }
    return View(f"Cells of layer {layer.name}", parts, about, facts)


def liveliest_map(values: Tensor, layout: Layout, units: Sequence[int], what: str, bound: float) -> Part:
    """Draw the cells that change most, one row each; for places in rows and columns, one small map each."""
    title = f"The {len(units)} cells that change most, of {values.shape[1]}"
    chosen = values[:, torch.tensor(units) - 1].T.numpy()
    if layout.shape is not None:
        maps = [each.reshape(layout.shape) for each in chosen]
        rows = [slice(start, start + ABREAST) for start in range(0, len(maps), ABREAST)]
        names = [", ".join(map(str, units[row])) for row in rows]
        title = f"{title}: {what} from {-bound:.3g} to {bound:.3g}"
        return Grid([maps[row] for row in rows], names, [""] * min(ABREAST, len(maps)), title, high=bound, low=-bound)
    names = [str(unit) for unit in units]
    column = layout.axis or layout.unit
    return Heatmap(
        chosen, names, layout.names, title, "cell", column, -bound, bound, diverging=True, label=what, keyed="rows"
    )


def symbol(layer: RecurrentLayer, of: str) -> str:
    return "tanh(c)" if layer.place(of) == layer.memory else "h"


CELLS = Instrument(
    "a recurrent layer's cells over a text, coloured token by token",
    CellOptions,
    look_at_cells,
    ("reads",),
    why_not_recurrent,
    choices=lambda subject: Choices(("layer",), tuple((layer.name,) for layer in recurrent_layers(subject.module))),
)
