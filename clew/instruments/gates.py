"""The gates of a recurrent network: how open they are, and how long cells remember.

A gate is closed below 0.1 and open above 0.9. The shares of time in these states, per cell, form the saturation plot of
Karpathy et al. (2015, figure 2). The content of a cell at t - k reaches t through the cell itself multiplied by

    f_{t-k+1} f_{t-k+2} ... f_t              f: the forget gate of an LSTM, the update gate of a GRU

whose mean over t, for each k, is `retention`. At its mean rate a cell loses half of its content in

    ln 2 / -mean(ln f)                       steps: its half-life
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from clew.core.errors import counted
from clew.core.layouts import Layout
from clew.drawing.views import Grid, Lines, Part, Points, Series, Table, View
from clew.inspection.recording import record
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.laid_out import over_places
from clew.instruments.reading import read
from clew.instruments.subjects.recurrent_layers import recurrent_layers, why_not_recurrent
from clew.instruments.subjects.subject import Subject

CLOSED, OPEN = 0.1, 0.9
SMALLEST = 1e-30
"""Gates are clamped to at least this value, so logarithms are finite."""
NAMED = 8
"""The maximum number of cells that the label of a point names."""
LONGEST = 5
"""The number of cells with the longest memory that are named."""


class GateOptions(TextOptions):
    """The text, and how far back."""

    steps: int = Field(
        100,
        ge=1,
        le=10_000,
        description="how far back to show the retained share, in places, up to the length of the text",
    )


def saturation(gate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares of time (units,) in which each unit's gate (places, units) is closed and open."""
    return (gate < CLOSED).mean(0), (gate > OPEN).mean(0)


def half_lives(keeping: np.ndarray) -> np.ndarray:
    """Return the steps (units,) in which each cell loses half; infinite if its gate (places, units) is always 1."""
    rates = -np.log(np.maximum(keeping.astype(np.float64), SMALLEST)).mean(0)
    return np.divide(math.log(2), rates, out=np.full_like(rates, np.inf), where=rates > 0)


def retention(keeping: np.ndarray, steps: int) -> np.ndarray:
    """Return the mean over t of f_{t-k+1} ... f_t for k from 0 to `steps` (steps + 1, units)."""
    logs = np.log(np.maximum(keeping.astype(np.float64), SMALLEST))
    sums = np.concatenate([np.zeros((1, logs.shape[1])), logs.cumsum(0)])
    return np.stack([np.exp(sums[k:] - sums[: len(sums) - k]).mean(0) for k in range(min(steps, len(logs)) + 1)])


class Gates(NamedTuple):
    """Values (places, units) of every gate of a layer by name, and the layout of the layer's places."""

    values: dict[str, np.ndarray]
    layout: Layout


def gate_values(subject: Subject, options: TextOptions) -> dict[str, Gates]:
    """Record the gates of every layer, by layer name."""
    reading = read(subject, options.text, options.target, into=options.into)
    layers = [layer for layer in recurrent_layers(subject.module) if layer.gates]
    with record(
        subject.module, *(path for layer in layers for path in (layer.hidden, *layer.gates.values()))
    ) as recorded:
        reading.hidden()
    return {
        layer.name: Gates(
            {gate: layer.values(recorded[path]).numpy() for gate, path in layer.gates.items()},
            layer.layout(reading, recorded[layer.hidden]),
        )
        for layer in layers
    }


def openness(layers: Mapping[str, Gates]) -> list[Part]:
    """Draw the mean openness of gates over cells by place, for inputs other than text: lines over time, small maps for
    pictures. The forget gates of a graph's edges have no place."""
    placed = {
        layer: {gate: each.mean(1) for gate, each in gates.values.items() if len(each) == len(gates.layout.names)}
        for layer, gates in layers.items()
    }
    parts: list[Part] = []
    for layer, gates in layers.items():
        if gates.layout.axis:
            title = f"How open the gates of layer {layer} are, mean over cells"
            values_by_gate = {gate: each.tolist() for gate, each in placed[layer].items()}
            parts += over_places(gates.layout, values_by_gate, "mean openness", low=0.0, high=1.0, title=title)
    shaped = {layer: gates.layout.shape for layer, gates in layers.items() if gates.layout.shape is not None}
    if shaped:
        maps = [[each.reshape(shape) for each in placed[layer].values()] for layer, shape in shaped.items()]
        names = max((list(placed[layer]) for layer in shaped), key=len)
        parts.append(
            Grid(maps, [f"layer {layer}" for layer in shaped], names, "How open gates are, from 0 to 1", high=1.0)
        )
    return parts


def look_at_gates(subjects: Sequence[Subject], options: GateOptions) -> View:
    subject = subjects[0]
    values = gate_values(subject, options)
    layers = recurrent_layers(subject.module)
    keeping = {layer.name: layer.keeping.rsplit(".", 1)[1] for layer in layers if layer.keeping is not None}
    rows: list[tuple[Any, ...]] = []
    points: dict[str, list[Series]] = {}
    texts: dict[str, list[list[str]]] = {}
    facts: dict[str, dict[str, Any]] = {}
    for layer, gates in values.items():
        layer_facts: dict[str, Any] = {}
        for gate, each in gates.values.items():
            closed, opened = saturation(each)
            rows.append((layer, gate, round(float(each.mean()), 3), share(closed.mean()), share(opened.mean())))
            spots, which = np.unique(np.stack([opened, closed], 1), axis=0, return_inverse=True)
            points.setdefault(gate, []).append(Series(f"layer {layer}", spots[:, 0].tolist(), spots[:, 1].tolist()))
            texts.setdefault(gate, []).append(
                [named_cells(np.flatnonzero(which.reshape(-1) == spot) + 1) for spot in range(len(spots))]
            )
            layer_facts[gate] = {
                "mean": float(each.mean()),
                "closed": float(closed.mean()),
                "open": float(opened.mean()),
            }
        facts[layer] = {"gates": layer_facts}
    parts: list[Part] = [
        Table(
            ("layer", "gate", "mean openness (0 to 1)", f"time below {CLOSED}", f"time above {OPEN}"),
            rows,
            "How open the gates are",
            keys=2,
        ),
        *openness(values),
    ]
    sides = f"share of the time above {OPEN}", f"share of the time below {CLOSED}"
    whole = (0.0, 1.0)
    parts += [
        Points(series, texts[gate], *sides, f"Saturation of the {gate} gates, cell by cell", whole, whole)
        for gate, series in points.items()
    ]
    memory, curves = [], []
    for layer, gate in keeping.items():
        each = values[layer].values[gate]
        lives, curve = half_lives(each), retention(each, options.steps).mean(1)
        best = np.argsort(-lives, kind="stable")[:LONGEST]
        low, middle, high = (format_steps(np.quantile(lives, part, method="nearest")) for part in (0.1, 0.5, 0.9))
        memory.append(
            (layer, gate, low, middle, high, ", ".join(f"{unit + 1}: {format_steps(lives[unit])}" for unit in best))
        )
        curves.append(Series(f"layer {layer}, {gate} gate", list(range(len(curve))), curve.tolist()))
        facts[layer] |= {"keeps_by": gate, "half_lives": [finite(life) for life in lives], "kept": curve.tolist()}
    if memory:
        quantiles = ("half-life, 10th percentile (steps)", "median (steps)", "90th percentile (steps)")
        header = ("layer", "by its gate", *quantiles, "longest (cell: steps)")
        parts.append(Table(header, memory, "How long cells remember, in steps", keys=2))
        title = "Share of a cell's state that is left after k steps, mean over cells"
        parts.append(Lines(curves, "k, steps", "product of gates", title, log_y=True))
    layout = next(iter(values.values())).layout
    return View(
        "Gates",
        parts,
        f"over {counted(len(layout.names), layout.unit)}; a gate is closed below {CLOSED} and open above {OPEN}",
        {"layers": facts},
    )


def named_cells(units: np.ndarray) -> str:
    """Return `cell 3`, or the count and the first few cells."""
    if len(units) == 1:
        return f"cell {units[0]}"
    return f"{len(units)} cells, {', '.join(map(str, units[:NAMED]))}{', ...' if len(units) > NAMED else ''}"


def share(value: float) -> str:
    return f"{value:.1%}"


def format_steps(value: float) -> str:
    return f"{value:.1f}" if np.isfinite(value) else "forever"


def finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def why_no_gates(subject: Subject) -> str | None:
    if (why := why_not_recurrent(subject)) is not None:
        return why
    has_gates = any(layer.gates for layer in recurrent_layers(subject.module))
    return None if has_gates else f"the cells of {subject.name} have no gates to watch"


GATES = Instrument(
    "how open the gates of recurrent layers are, and how long their cells remember",
    GateOptions,
    look_at_gates,
    ("reads",),
    why_no_gates,
)
