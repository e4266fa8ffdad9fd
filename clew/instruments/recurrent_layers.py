"""The recurrences of a run: how each is called, where its taps are, and what it reads.

A layer is called by its number from 1, with its half of a model that reads and writes before it and its direction behind it, or the corner
of a grid from which it reads: `2`, `1.backward`, `encoder.1.forward`, `decoder.2`, `1.top_left`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn

from clew.core.errors import UserError, unknown
from clew.core.layouts import Layout
from clew.core.taps import Tap
from clew.inspection.recording import plain_module
from clew.instruments.subject import Subject
from clew.layers.cells import Cell
from clew.layers.graph_lstm import GraphLSTM
from clew.layers.grids import CORNERS, GridCell
from clew.layers.recurrent import Backward
from clew.layers.tree_lstm import TreeLSTM
from clew.tasks.offers import Reading

KEEPING = ("forget", "update")
"""Gates by which a cell keeps what it had: c' = f * c + ..., h' = z * h + ..."""
DIRECTIONS = {"forward_layer": "forward", "backward_layer": "backward", **{corner: corner for corner in CORNERS}}


class RecurrentLayer(NamedTuple):
    """`path` is its cell's, `hidden` and `memory` the places that show h and c; `memory` is None where the state is h alone. `gates` are
    the places of its gates by name, the candidate not being one."""

    name: str
    path: str
    cell: nn.Module
    hidden: str
    memory: str | None
    gates: dict[str, str]

    @property
    def writes(self) -> bool:
        """Whether it is a part of a decoder."""
        return self.name.startswith("decoder.")

    @property
    def keeping(self) -> str | None:
        """The place of the gate that tells how much of its state a cell keeps from place to place, where there is one: nodes of a graph do
        not follow one another."""
        return next((self.gates[name] for name in KEEPING if name in self.gates), None) if isinstance(self.cell, Cell) else None

    def place(self, of: str) -> str:
        """Where its `cell` (c, or h where that is all) or its `hidden` state is seen."""
        return self.memory if of == "cell" and self.memory is not None else self.hidden

    def values(self, seen: Tensor) -> Tensor:
        """What a tap of it shows of one row, (places, units): of a grid row by row, of rounds over a graph the last."""
        row = seen[0].float().cpu()
        if isinstance(self.cell, GridCell):
            return row.flatten(0, 1)
        return row[-1] if isinstance(self.cell, GraphLSTM) and row.dim() == 3 else row

    def layout(self, reading: Reading, seen: Tensor) -> Layout:
        """How the places lie that it reads, or writes; layers of a grid may join places."""
        read = reading.written_places if self.writes else reading.places
        if isinstance(self.cell, GridCell) and read.shape != (shape := (seen.shape[1], seen.shape[2])):
            names = tuple(f"row {row + 1}, column {column + 1}" for row in range(shape[0]) for column in range(shape[1]))
            return Layout(names, "cell", shape)
        return read


RECURRENCES = (Cell, TreeLSTM, GraphLSTM, GridCell)


def recurrent_layers(run: Any) -> list[RecurrentLayer]:
    """Every recurrence, from the lowest; those of a body that only the embedding reads are no part of it."""
    task = plain_module(run)
    found = []
    for path, part in task.named_modules():
        parts = path.split(".")
        if not isinstance(part, RECURRENCES) or "embedding" in parts:
            continue
        if any(isinstance(inner, Cell) for inner in part.modules() if inner is not part):
            continue  # a cell around cells: attention, a stack
        taps = {name for name, inner in part.named_modules() if isinstance(inner, Tap)}
        found.append(
            RecurrentLayer(
                layer_name(task, parts),
                path,
                part,
                f"{path}.hidden" if "hidden" in taps else path,
                f"{path}.cell_state" if "cell_state" in taps else None,
                {tap.split(".")[1]: f"{path}.{tap}" for tap in gate_names(part) if tap in taps and not tap.endswith(".candidate")},
            )
        )
    return found


def gate_names(cell: nn.Module) -> list[str]:
    """In the order of the cell's weights."""
    gates = getattr(cell, "gates", None)
    return [f"gates.{name}" for name, _ in gates.named_children()] if isinstance(gates, nn.Module) else []


def layer_name(task: nn.Module, parts: list[str]) -> str:
    """From the steps of a path: where it stands, which numbers it has, which way it reads."""
    half = [part for part in parts if part in ("encoder", "decoder")][:1]
    numbers = [str(int(part) + 1) for part in parts if part.isdigit()][-1 if "cells" in parts else 0 :]  # cells of a stack are its layers
    ways = [DIRECTIONS[part] for part in parts if part in DIRECTIONS]
    if any(isinstance(module, Backward) for module in modules_along(task, parts)):
        ways.append("backward")
    return ".".join([*half, *(numbers or ["1"]), *ways[-1:]])


def modules_along(task: nn.Module, parts: list[str]) -> Iterator[nn.Module]:
    for part in parts:
        task = getattr(task, part)
        yield task


def find_layer(run: Any, name: str) -> RecurrentLayer:
    """The layer of that name; the topmost where none is said."""
    layers = recurrent_layers(run)
    if not name and layers:
        return layers[-1]
    for layer in layers:
        if layer.name == name:
            return layer
    raise unknown("recurrent layer", name, [layer.name for layer in layers])


def why_not_recurrent(subject: Subject) -> str | None:
    return None if recurrent_layers(subject.module) else f"{subject.name} has no recurrent layer whose cells can be watched"


def check_units(units: tuple[int, ...], width: int, layer: str) -> None:
    for unit in units:
        if not 1 <= unit <= width:
            raise UserError(f"layer {layer} has the cells 1 to {width}; there is no cell {unit}")
