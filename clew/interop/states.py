"""A state as tensors with names, as a program takes and gives it: what a step changes, and what it only reads.

A program's rows have no documents in them. So of a clock the count alone is left, which all layers share, as they share where keys stand.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from clew.core.masks import Clock
from clew.core.types import Memory, State
from clew.layers.attention import Prepared
from clew.layers.caches import Grown
from clew.layers.recurrent import RecurrentState
from clew.models.body import BodyState

COUNT, INDEX, DOCUMENT, MEMORY = "count", "index", "document", "memory."

Place = Callable[[str, Tensor], Tensor]


class StateForm:
    """The names of what a body's states are made of: what a step has `changed`, and what it has only `read`.

    `example` is a state after some tokens. A tensor that several layers read is one, and one of `given` keeps the name that it has there.
    `counts` says that the body's embedding asks how much was read.
    """

    def __init__(self, example: State, *, counts: bool, given: Mapping[str, Tensor] | None = None):
        named = tensors_of(example)
        first = {id(tensor): name for name, tensor in (given or {}).items()}
        self.example = example
        self.same = {name: first.setdefault(id(tensor), name) for name, tensor in named.items() if name.startswith(MEMORY)}
        self.read = list(dict.fromkeys(self.same.values()))
        left_out = {DOCUMENT} if counts or INDEX in named else {DOCUMENT, COUNT}
        self.changed = [name for name in named if name not in left_out and name not in self.same]

    def state(self, tensors: Mapping[str, Tensor], zeros: Tensor) -> State:
        """The state that these tensors are, `zeros` (batch,) being there for what has no name."""
        return walk(self.example, lambda name, _: tensors.get(self.same.get(name, name), zeros))


def tensors_of(state: State) -> dict[str, Tensor]:
    """Every tensor of a state by its name, the first where several share one."""
    found: dict[str, Tensor] = {}
    walk(state, lambda name, tensor: found.setdefault(name, tensor))
    return found


def walk(node: Any, place: Place, path: str = "") -> Any:
    """The state with what `place` gives for the name and tensor of each leaf."""
    if node is None:
        return None
    if isinstance(node, Tensor):
        return place(path, node)
    if isinstance(node, BodyState):
        return BodyState(walk(node.clock, place), walk(node.layers, place, path))
    if isinstance(node, Clock):
        count = place(COUNT, node.count)
        return Clock(count, torch.zeros_like(count), torch.zeros_like(count))
    if isinstance(node, RecurrentState):
        return RecurrentState(walk(node.cell, place, path), place(DOCUMENT, node.document))
    if isinstance(node, Grown):
        keys, values = place(f"{path}.keys", node.keys), place(f"{path}.values", node.values)
        return Grown(keys, values, place(INDEX, node.key_index), walk(node.clock, place))
    if isinstance(node, Memory):
        path = f"{MEMORY}{path.removesuffix('.memory')}"
        mask = None if isinstance(node.values, Prepared) else node.mask  # what is prepared has it already
        return Memory(walk(node.values, place, path), walk(mask, place, f"{path}.mask"))
    names = getattr(node, "_fields", range(len(node)))
    parts = [walk(part, place, f"{path}.{name}".removeprefix(".")) for name, part in zip(names, node, strict=True)]
    return type(node)(*parts) if hasattr(node, "_fields") else type(node)(parts)
