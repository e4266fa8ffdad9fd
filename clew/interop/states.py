"""A state as named tensors, as a program takes and returns it: tensors that a step changes, and tensors that it only
reads.

The rows of a program hold no packed documents. So only the count of a clock is kept, which all layers share, like the
indices of keys.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from clew.core.masks import Clock
from clew.core.types import Memory, State
from clew.layers.attending.caches import Grown
from clew.layers.attention import Prepared
from clew.layers.recurrent import RecurrentState
from clew.models.body import BodyState

COUNT, INDEX, DOCUMENT, MEMORY = "count", "index", "document", "memory."

Place = Callable[[str, Tensor], Tensor]


class StateForm:
    """The names of the tensors of a body's states: `changed` by a step, or only `read`.

    `example` is a state after some tokens. A tensor that several layers read has one name; a tensor in `shared` keeps
    its name there. `counts` is True if the body's embedding reads the position count.
    """

    def __init__(self, example: State, *, counts: bool, shared: Mapping[str, Tensor] | None = None):
        tensors = tensors_of(example)
        first = {id(tensor): name for name, tensor in (shared or {}).items()}
        self.example = example
        self.same = {
            name: first.setdefault(id(tensor), name) for name, tensor in tensors.items() if name.startswith(MEMORY)
        }
        self.read = list(dict.fromkeys(self.same.values()))
        dropped = {DOCUMENT} if counts or INDEX in tensors else {DOCUMENT, COUNT}
        self.changed = [name for name in tensors if name not in dropped and name not in self.same]

    def state(self, tensors: Mapping[str, Tensor], zeros: Tensor) -> State:
        """Return the state made of these tensors, with `zeros` (batch,) for those without a name."""
        return walk(self.example, lambda name, _: tensors.get(self.same.get(name, name), zeros))


def tensors_of(state: State) -> dict[str, Tensor]:
    """Return the tensors of a state by name; the first of several with the same name."""
    tensors: dict[str, Tensor] = {}
    walk(state, lambda name, tensor: tensors.setdefault(name, tensor))
    return tensors


def walk(node: Any, place: Place, path: str = "") -> Any:
    """Return a copy of the state in which each leaf is `place(name, tensor)`."""
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
        mask = None if isinstance(node.values, Prepared) else node.mask  # prepared values contain the mask
        return Memory(walk(node.values, place, path), walk(mask, place, f"{path}.mask"))
    names = getattr(node, "_fields", range(len(node)))
    parts = [walk(part, place, f"{path}.{name}".removeprefix(".")) for name, part in zip(names, node, strict=True)]
    return type(node)(*parts) if hasattr(node, "_fields") else type(node)(parts)
