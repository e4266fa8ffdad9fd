"""Runs a cell over time, and joins two readers of opposite directions."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.masks import document_starts, has_documents, last_real, real_positions, reverse_rows
from clew.core.modes import is_exporting
from clew.core.state import map_tree, where_rows
from clew.core.taps import reordered, steps_of_a_loop
from clew.core.types import Fixed, Memory, State, Tree
from clew.kernels import choose, runs_equations
from clew.kernels.cells.walking import may_walk, walk_cell
from clew.kernels.quantised_weight import QuantisedWeight
from clew.layers.cell import with_fixed
from clew.layers.cells import Cell
from clew.layers.recurrence.norm_penalty import begin_steps, is_recording
from clew.layers.recurrence.scanning import scan_cell
from clew.layers.sequence import SequenceLayer


class RecurrentState(NamedTuple):
    cell: State
    document: Tensor  # (batch,) the number of the latest document


class Recurrent(SequenceLayer):
    """A cell over a sequence: y_t, s_t = cell(x_t, s_{t-1}), the weights shared over time, any length."""

    def __init__(self, cell: Cell):
        super().__init__()
        self.cell = cell
        self.dim = cell.dim

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        document = torch.zeros(batch_size, dtype=torch.long, device=like.device)
        return RecurrentState(self.cell.initial_state(batch_size, memory, like=like), document)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        state = self.initial_state(x.shape[0], like=x) if state is None else state
        in_steps = (
            not x.shape[1] or has_documents(mask) or is_recording() or (x.shape[1] == 1 and is_in_integers(self.cell))
        )
        if x.is_cuda and not in_steps and (walk := choose("walk_on_gpu", self.cell)):
            walked = walk(self.cell, x, real_positions(mask), state.cell, self.cell_loop)
            if walked is not None:
                return walked[0], RecurrentState(walked[1], state.document)
        kernel = None if in_steps else choose(self.cell.kernel, self.cell)
        if kernel is not None:
            y, cell_state = kernel(x, mask, state.cell, *self.cell.kernel_weights())
            return y, RecurrentState(self.cell.kernel_state(cell_state), state.document)
        if in_steps or runs_equations() or not may_walk(self.cell, x, state.cell):
            return self.loop(x, mask, state)
        return self.walk(x, mask, state)

    def cell_loop(self, x: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        """`loop`, taking and returning only the cell's state."""
        y, new = self.loop(x, mask, self.initial_state(len(x), like=x)._replace(cell=state))
        return y, new.cell

    def walk(self, x: Tensor, mask: Tensor | None, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """The recurrence with an explicit gradient, for cells whose step can be traced. Under autocast it runs in the
        dtype of the weights, since sums over many steps would lose digits."""
        real, device = real_positions(mask), x.device.type
        if real is not None:  # padding may hold NaN, and 0 * NaN is NaN
            x = torch.where(real[..., None], x, 0.0)
        is_cast = torch.is_autocast_enabled(device)
        with torch.autocast(device, enabled=False):
            dtype = (
                next((p.dtype for p in self.cell.parameters() if p.is_floating_point()), x.dtype)
                if is_cast
                else x.dtype
            )
            inputs = self.cell.inputs(x.to(dtype))
            walked = walk_cell(
                self.cell,
                inputs,
                real,
                map_tree(lambda leaf: leaf.to(dtype), state.cell, keep=(Memory,)) if is_cast else state.cell,
            )
        if walked is None:
            return self.loop(x, mask, state, None if is_cast else inputs)
        return walked[0], RecurrentState(walked[1], state.document)

    def loop(
        self, x: Tensor, mask: Tensor | None, state: RecurrentState, inputs: Tree = None
    ) -> tuple[Tensor, RecurrentState]:
        """The recurrence as written: each document starts from the initial state, and the state does not change on
        padding. `inputs` are the cell's inputs, if already computed."""
        initial, starts, document = None, None, state.document
        if mask is not None and has_documents(mask):
            initial = self.cell.initial_state(x.shape[0], like=x)
            starts = document_starts(mask, document)
            document = last_real(mask[..., None].long(), mask, document[:, None])[:, 0]
        real = real_positions(mask)
        if is_exporting() and isinstance(x.shape[1], torch.SymInt):
            y, cell_state = scan_cell(self.cell, x, real, state.cell)
            return y, RecurrentState(cell_state, document)
        carried, outputs, whole = state.cell, [], self.cell.inputs(x) if inputs is None else inputs
        recorded = (
            begin_steps(self.cell, unbind_steps(with_fixed(self.cell.inputs(x.detach()), whole), x.shape[1]))
            if is_recording()
            else None
        )
        with steps_of_a_loop():
            for t, step in enumerate(unbind_steps(whole, x.shape[1])):
                if starts is not None:
                    carried = where_rows(starts[:, t], initial, carried)
                y, new = self.cell(step, carried)
                if recorded is not None:
                    y, new = recorded.add(carried, y, new, continues(real, starts, t))
                carried = new if real is None else where_rows(real[:, t], new, carried)
                outputs.append(y)
        y = (
            map_tree(lambda *steps: torch.stack(steps, 1), *outputs)
            if outputs
            else x.new_zeros(x.shape[0], 0, self.dim)
        )
        return y, RecurrentState(carried, document)


def is_in_integers(cell: Cell) -> bool:
    """Whether the cell's weights are quantised. A fused kernel would convert them to float, which takes longer than a
    single step."""
    return any(isinstance(weight, QuantisedWeight) for weight in cell._parameters.values())


def continues(real: Tensor | None, starts: Tensor | None, t: int) -> Tensor | None:
    """Where (batch,) step t continues from the step before it, in the same document; None if it does in every row."""
    if real is None:
        return None
    return real[:, t] if starts is None else real[:, t] & ~starts[:, t]


class Bidirectional(SequenceLayer):
    """h_t = [forward_t; backward_t], two readers of opposite directions, each with its own weights (Schuster and
    Paliwal 1997).

    Around two cells this is a BiLSTM. Around two stacks, the readers meet only at the top, as in ELMo. The states are
    those in which each reader ended: forward at the last word, backward at the first.
    """

    causal = False

    def __init__(self, forward_layer: SequenceLayer, backward_layer: SequenceLayer):
        super().__init__()
        self.forward_layer: Any = forward_layer
        self.backward_layer: Any = backward_layer
        self.dim = forward_layer.dim + backward_layer.dim

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        self.refuse_state(state)
        ahead, ahead_state = self.forward_layer(x, mask)
        back, back_state = read_backwards(self.backward_layer, x, mask)
        return torch.cat([ahead, back], -1), (ahead_state, back_state)

    def levels(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[list[Tensor], State]:
        """The levels of two stacks: the input, once for each, then the outputs of every pair of layers,
        concatenated."""
        self.refuse_state(state)
        ahead, ahead_state = self.forward_layer.levels(x, mask)
        back, back_state = read_backwards(self.backward_layer.levels, x, mask)
        return [torch.cat(pair, -1) for pair in zip(ahead, back, strict=True)], (ahead_state, back_state)

    def carried_levels(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[list[Tensor], State]:
        """`levels`, with each reader continuing from its own last state. The result is not that of one long sequence:
        the backward reader has not read what follows the chunk."""
        before = (None, None) if state is None else state
        ahead, ahead_state = self.forward_layer.levels(x, mask, before[0])
        back, back_state = read_backwards(partial(self.backward_layer.levels, state=before[1]), x, mask)
        return [torch.cat(pair, -1) for pair in zip(ahead, back, strict=True)], (ahead_state, back_state)


class Backward(SequenceLayer):
    """Reads from the last word to the first (as Sutskever et al. 2014 read their sources); outputs are in reading
    order."""

    causal = False

    def __init__(self, layer: SequenceLayer):
        super().__init__()
        self.layer = layer
        self.dim = layer.dim

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        self.refuse_state(state)
        return read_backwards(self.layer, x, mask)


def read_backwards(layer: Callable[..., tuple[Any, State]], x: Tensor, mask: Tensor | None) -> tuple[Any, State]:
    """Run a layer, or all layers of a stack, over each row's real positions from the end. Return its outputs in
    reading order and its final state."""

    def in_reading_order(values: Tensor) -> Tensor:
        return reverse_rows(values, mask) if values.shape[:2] == x.shape[:2] else values

    with reordered(in_reading_order):
        y, state = layer(reverse_rows(x, mask), _reversed_mask(mask))
    return map_tree(lambda values: reverse_rows(values, mask), y), state


def unbind_steps(tree: Tree, length: int) -> list[Tree]:
    """Cut a cell's inputs along the length axis: one tree per step, with `Fixed` parts whole in each."""
    if tree is None or isinstance(tree, Fixed):
        return [tree] * length
    if isinstance(tree, Tensor):
        return list(tree.unbind(1))
    if isinstance(tree, dict):
        return [
            dict(zip(tree, parts, strict=True))
            for parts in zip(*(unbind_steps(v, length) for v in tree.values()), strict=True)
        ]
    steps = zip(*(unbind_steps(part, length) for part in tree), strict=True)
    return [type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts) for parts in steps]


def _reversed_mask(mask: Tensor | None) -> Tensor | None:
    return reverse_rows(mask, mask) if mask is not None and has_documents(mask) else mask


__all__ = ["Backward", "Bidirectional", "Recurrent", "RecurrentState", "unbind_steps"]
