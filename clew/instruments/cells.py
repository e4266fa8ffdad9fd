"""The cells of a recurrent layer while it reads a text (Karpathy et al. 2015): tanh(c) of an LSTM, h of a network that has no c, by cell
and token, and the text itself on the colour of one cell after another."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from clew.drawing.views import ColouredText, Heatmap, Part, View
from clew.inspection.recording import record
from clew.instruments.instrument import Choices, Instrument, TextOptions
from clew.instruments.reading import read
from clew.instruments.recurrent_layers import RecurrentLayer, check_units, find_layer, recurrent_layers, why_not_recurrent
from clew.instruments.subject import Subject
from clew.tasks.offers import Reading

MOST_SHOWN = 64
"""Cells in the map of all."""


class CellOptions(TextOptions):
    """A layer and some of its cells."""

    layer: str = Field("", description="a recurrent layer by its name, such as 1, 2.backward or decoder.1; the topmost where not given")
    units: tuple[int, ...] = Field((), description="cells to colour the text by, from 1; those that change most where not given")
    count: int = Field(4, ge=1, le=MOST_SHOWN, description="how many cells, where none is named")
    of: Literal["cell", "hidden"] = Field("cell", description="cell: what the layer remembers (c); hidden: what it gives (h)")


def layer_values(reading: Reading, layer: RecurrentLayer, of: str) -> Tensor:
    """(places, units) of one layer while it reads, or writes; of memory cells tanh(c), so that all lie between -1 and 1."""
    place = layer.place(of)
    with record(reading.module, place) as seen:
        reading.hidden()
    values = seen[place][0].float().cpu()
    return values.tanh() if place == layer.memory else values


def liveliest(values: Tensor, count: int) -> list[int]:
    """The units (places, units) whose values are spread most, from 1, the first being the liveliest."""
    spread = values.std(0, correction=0)
    return [unit + 1 for unit in spread.argsort(descending=True, stable=True)[:count].tolist()]


def tokens_read(reading: Reading, layer: RecurrentLayer) -> tuple[str, ...]:
    """What stands at each place of what a layer reads; of a decoder, what it then writes."""
    return reading.written if layer.writes else reading.pieces


def coloured(
    tokens: Sequence[str], values: Sequence[float], title: str, *, joined: bool, bound: float = 1.0, label: str = ""
) -> ColouredText:
    notes = [f"{value:+.3f}" for value in values]
    return ColouredText(tokens, values, title, label, -bound, bound, diverging=True, joined=joined, notes=notes)


def look_at_cells(subjects: Sequence[Subject], options: CellOptions) -> View:
    subject = subjects[0]
    layer = find_layer(subject.module, options.layer)
    reading = read(subject, options.text, options.target, into=options.into)
    values = layer_values(reading, layer, options.of)
    check_units(options.units, values.shape[1], layer.name)
    units = options.units or tuple(liveliest(values, options.count))
    shown = liveliest(values, MOST_SHOWN)
    tokens, what = tokens_read(reading, layer), symbol(layer, options.of)
    joined = reading.is_by_character(written=layer.writes)
    bound = max(1.0, float(values.abs().max()) if values.numel() else 1.0)
    parts: list[Part] = [
        coloured(tokens, values[:, unit - 1].tolist(), f"Cell {unit}", joined=joined, bound=bound, label=what) for unit in units
    ]
    chosen = torch.tensor(shown) - 1
    parts.append(
        Heatmap(
            values[:, chosen].T.numpy(),
            [str(unit) for unit in shown],
            tokens,
            f"The {len(shown)} cells that change most, of {values.shape[1]}",
            "cell",
            "token",
            -bound,
            bound,
            diverging=True,
            label=what,
            keyed="rows",
        )
    )
    about = f"{what} of layer {layer.name}, one of {', '.join(each.name for each in recurrent_layers(subject.module))}"
    facts: dict[str, Any] = {
        "layer": layer.name,
        "of": what,
        "tokens": list(tokens),
        "units": {str(unit): [round(value, 5) for value in values[:, unit - 1].tolist()] for unit in units},
        "liveliest": shown,
    }
    return View(f"Cells of layer {layer.name}", parts, about, facts)


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
