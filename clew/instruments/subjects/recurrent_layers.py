"""The recurrent layers of a run: their names, their taps and the layout of their places.

A layer is named by its number from 1, preceded by its half of an encoder-decoder, and followed by its direction or, on
grids, the corner from which it reads: `2`, `1.backward`, `encoder.1.forward`, `decoder.2`, `1.top_left`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn

from clew.core.errors import UserError, unknown
from clew.core.layouts import Layout
from clew.core.taps import Tap
from clew.inspection.recording import plain_module
from clew.instruments.subjects.subject import Subject
from clew.layers.cells import Cell
from clew.layers.recurrent import Backward
from clew.layers.shapes.graph_lstm import GraphLSTM
from clew.layers.shapes.grids import CORNERS, GridCell
from clew.layers.shapes.tree_lstm import TreeLSTM
from clew.tasks.offers import Reading

KEEPING = ("forget", "update")
"""Gates by which a cell keeps its state: c' = f * c + ..., h' = z * h + ..."""
DIRECTIONS = {"forward_layer": "forward", "backward_layer": "backward", **{corner: corner for corner in CORNERS}}


class RecurrentLayer(NamedTuple):
    """`path` is the path of its cell; `hidden` and `memory` are the places that show h and c. `memory` is None if the
    state is only h. `gates` are the places of its gates by name, without the candidate."""

    name: str
    path: str
    cell: nn.Module
    hidden: str
    memory: str | None
    gates: dict[str, str]

    @property
    def writes(self) -> bool:
        """Whether it is part of a decoder."""
        return self.name.startswith("decoder.")

    @property
    def keeping(self) -> str | None:
        """The place of the gate that controls how much of its state a cell keeps from place to place. None if there is
        no such gate, and for trees, grids and graphs, whose places are not in sequence."""
        return (
            next((self.gates[name] for name in KEEPING if name in self.gates), None)
            if isinstance(self.cell, Cell)
            else None
        )

    def place(self, of: str) -> str:
        """Return the place of its `cell` state (c, or h if there is no c) or its `hidden` state."""
        return self.memory if of == "cell" and self.memory is not None else self.hidden

    def values(self, recorded: Tensor) -> Tensor:
        """Return the values of a tap for one row (places, units): for a grid row by row, for a graph those of the last
        round."""
        row = recorded[0].float().cpu()
        if isinstance(self.cell, GridCell):
            return row.flatten(0, 1)
        return row[-1] if isinstance(self.cell, GraphLSTM) and row.dim() == 3 else row

    def layout(self, reading: Reading, recorded: Tensor) -> Layout:
        """Return the layout of the places that it reads or writes; grid layers may join places."""
        read = reading.written_places if self.writes else reading.places
        if isinstance(self.cell, GridCell) and read.shape != (shape := (recorded.shape[1], recorded.shape[2])):
            names = tuple(
                f"row {row + 1}, column {column + 1}" for row in range(shape[0]) for column in range(shape[1])
            )
            return Layout(names, "cell", shape)
        return read


RECURRENCES = (Cell, TreeLSTM, GraphLSTM, GridCell)


def recurrent_layers(run: Any) -> list[RecurrentLayer]:
    """Return every recurrent layer, the lowest first, except those inside an embedding."""
    task = plain_module(run)
    layers = []
    for path, part in task.named_modules():
        parts = path.split(".")
        if not isinstance(part, RECURRENCES) or "embedding" in parts:
            continue
        if any(isinstance(inner, Cell) for inner in part.modules() if inner is not part):
            continue  # a cell around cells: attention, a stack
        taps = {name for name, inner in part.named_modules() if isinstance(inner, Tap)}
        layers.append(
            RecurrentLayer(
                layer_name(task, parts),
                path,
                part,
                f"{path}.hidden" if "hidden" in taps else path,
                f"{path}.cell_state" if "cell_state" in taps else None,
                {
                    tap.split(".")[1]: f"{path}.{tap}"
                    for tap in gate_names(part)
                    if tap in taps and not tap.endswith(".candidate")
                },
            )
        )
    return layers


def gate_names(cell: nn.Module) -> list[str]:
    """Return the names of the gates in the order of the cell's weights."""
    gates = getattr(cell, "gates", None)
    return [f"gates.{name}" for name, _ in gates.named_children()] if isinstance(gates, nn.Module) else []


def layer_name(task: nn.Module, parts: list[str]) -> str:
    """Derive the name from the parts of a path: half, numbers and direction."""
    half = [part for part in parts if part in ("encoder", "decoder")][:1]
    # A stack's cells are its layers.
    numbers = [str(int(part) + 1) for part in parts if part.isdigit()][-1 if "cells" in parts else 0 :]
    ways = [DIRECTIONS[part] for part in parts if part in DIRECTIONS]
    if any(isinstance(module, Backward) for module in modules_along(task, parts)):
        ways.append("backward")
    return ".".join([*half, *(numbers or ["1"]), *ways[-1:]])


def modules_along(task: nn.Module, parts: list[str]) -> Iterator[nn.Module]:
    for part in parts:
        task = getattr(task, part)
        yield task


def find_layer(run: Any, name: str) -> RecurrentLayer:
    """Return the layer with a name; the topmost if the name is empty."""
    layers = recurrent_layers(run)
    if not name and layers:
        return layers[-1]
    for layer in layers:
        if layer.name == name:
            return layer
    raise unknown("recurrent layer", name, [layer.name for layer in layers])


def why_not_recurrent(subject: Subject) -> str | None:
    return (
        None
        if recurrent_layers(subject.module)
        else f"{subject.name} has no recurrent layer with cells that can be watched"
    )


def check_units(units: tuple[int, ...], width: int, layer: str) -> None:
    for unit in units:
        if not 1 <= unit <= width:
            raise UserError(f"layer {layer} has the cells 1 to {width}; there is no cell {unit}")
