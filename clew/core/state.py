"""Operations on the rows of a state, whatever layer made it.

`Memory` is read, never written, and has one row a sentence: every operation here hands it on untouched, except `map_state` with
`memory=True` and `select_rows` with `memory_rows`.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from clew.core.types import Memory, State, Tree


def map_tree(function: Callable[..., Any], first: Tree, *others: Tree, keep: tuple[type, ...] = ()) -> Tree:
    """`function` of the leaves that stand at the same place of each tree; nodes of a type in `keep` come from the first tree
    as they are."""
    if first is None or isinstance(first, keep):
        return first
    if isinstance(first, Tensor):
        return function(first, *others)
    if isinstance(first, dict):
        return {name: map_tree(function, leaf, *(o[name] for o in others), keep=keep) for name, leaf in first.items()}
    if isinstance(first, (tuple, list)):
        parts = [map_tree(function, *leaves, keep=keep) for leaves in zip(first, *others, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    raise TypeError(f"a state holds tensors in tuples, lists and dicts, not {type(first).__name__}")


def leaves(tree: Tree, keep: tuple[type, ...] = ()) -> list[Tensor]:
    """Every tensor of a tree, in order, but those inside nodes of a type in `keep`."""
    found: list[Tensor] = []
    map_tree(lambda leaf: found.append(leaf), tree, keep=keep)
    return found


def with_leaves(tree: Tree, new: Iterable[Tensor], keep: tuple[type, ...] = ()) -> Tree:
    """The tree with other tensors in the places of `leaves(tree, keep)`."""
    each = iter(new)
    return map_tree(lambda leaf: next(each), tree, keep=keep)


def map_state(function: Callable[..., Tensor], *states: State, memory: bool = False) -> State:
    """`function` of every leaf that a step changes; of `Memory` too where `memory` says so."""
    return map_tree(function, *states, keep=() if memory else (Memory,))


def select_rows(state: State, rows: Tensor, memory_rows: Tensor | None = None) -> State:
    """The state of `rows`, in that order, repeats allowed; memory keeps its rows unless `memory_rows` says which of them stay."""
    chosen = map_state(lambda leaf: leaf.index_select(0, rows), state)
    if memory_rows is None:
        return chosen
    return _map_memory(lambda leaf: leaf.index_select(0, memory_rows), chosen)


def where_rows(condition: Tensor, new: State, old: State) -> State:
    """Row by row the new state where `condition` (batch,) holds, else the old one; memory is the new state's."""
    return map_state(lambda a, b: torch.where(condition.view(-1, *[1] * (a.dim() - 1)), a, b), new, old)


def write_rows(state: State, rows: Tensor, new: State) -> State:
    """The state with `rows` replaced by the rows of `new`."""
    return map_state(lambda leaf, part: leaf.index_copy(0, rows, part.to(leaf.dtype)), state, new)


def copy_state(state: State) -> State:
    """A state that shares nothing with the first: a buffer that a call will write in place can be branched this way."""
    return map_state(torch.clone, state)


def detach_state(state: State) -> State:
    """The same values, cut off from the graph that made them: truncated back-propagation through time."""
    return map_state(Tensor.detach, state, memory=True)


def _map_memory(function: Callable[[Tensor], Tensor], state: State) -> State:
    if isinstance(state, Memory):
        return map_tree(function, state)
    if isinstance(state, (tuple, list)):
        parts = [_map_memory(function, part) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    if isinstance(state, dict):
        return {name: _map_memory(function, part) for name, part in state.items()}
    return state
