"""Operations on the rows of a state, whatever layer made it.

`Memory` is read, never written, and has one row a sentence: every operation here hands it on untouched, except `map_state` with
`memory=True` and `select_rows` with `memory_rows`.

A part of a state, a NamedTuple, may say by a method of its own what an operation does to it: `selected(rows)`, `rewind(lengths)`, and
`reordered(move)`, with `move` of each tensor that follows its rows.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from clew.core.types import Memory, State, Tree

MOST_STACKED = 2**18
"""Entries of a tensor that is still small: see `reorder`."""


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
        if others:
            parts = [map_tree(function, *leaves, keep=keep) for leaves in zip(first, *others, strict=True)]
        else:
            parts = [map_tree(function, leaf, keep=keep) for leaf in first]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    raise TypeError(f"a state holds tensors in tuples, lists and dicts, not {type(first).__name__}")


def leaves(tree: Tree, keep: tuple[type, ...] = ()) -> list[Tensor]:
    """Every tensor of a tree, in order, but those inside nodes of a type in `keep`."""
    found: list[Tensor] = []
    _gather(tree, keep, found)
    return found


def _gather(tree: Tree, keep: tuple[type, ...], found: list[Tensor]) -> None:
    if isinstance(tree, Tensor):
        found.append(tree)
    elif tree is None or isinstance(tree, keep):
        return
    elif isinstance(tree, (tuple, list)):
        for part in tree:
            _gather(part, keep, found)
    elif isinstance(tree, dict):
        for part in tree.values():
            _gather(part, keep, found)
    else:
        raise TypeError(f"a state holds tensors in tuples, lists and dicts, not {type(tree).__name__}")


def with_leaves(tree: Tree, new: Iterable[Tensor], keep: tuple[type, ...] = ()) -> Tree:
    """The tree with other tensors in the places of `leaves(tree, keep)`."""
    each = iter(new)
    return map_tree(lambda leaf: next(each), tree, keep=keep)


def map_state(function: Callable[..., Tensor], *states: State, memory: bool = False) -> State:
    """`function` of every leaf that a step changes; of `Memory` too where `memory` says so."""
    return map_tree(function, *states, keep=() if memory else (Memory,))


def select_rows(state: State, rows: Tensor, memory_rows: Tensor | None = None) -> State:
    """The state of `rows`, in that order, repeats allowed; memory keeps its rows unless `memory_rows` says which of them stay."""
    chosen = map_parts("selected", lambda part: part.selected(rows), lambda leaf: leaf.index_select(0, rows), state)
    if memory_rows is None:
        return chosen
    return _map_memory(lambda leaf: leaf.index_select(0, memory_rows), chosen)


def reorder(state: State, rows: Tensor) -> State:
    """The state in which row i goes on from where row `rows[i]` stood, repeats allowed; the state given is used up.

    It reads on as `select_rows(state, rows)` does, where every row takes the place of one that has read as many positions: the beams of a
    sentence. Only what differs between such rows is moved: a recurrent state, a growing cache, a ring; not clocks, and of a buffer of keys
    and values only the table that says where they lie. Memory keeps its rows. Rows that share keys and values cannot be merged with others
    (`where_rows`, `write_rows`) before `select_rows` has given each its own.
    """
    moving: list[Tensor] = []
    map_parts("reordered", lambda part: part.reordered(moving.append), moving.append, state)
    moved = iter(_rows_of_each(moving, rows))
    return map_parts("reordered", lambda part: part.reordered(lambda _: next(moved)), lambda _: next(moved), state)


def where_rows(condition: Tensor, new: State, old: State) -> State:
    """Row by row the new state where `condition` (batch,) holds, else the old one; memory is the new state's."""
    return map_state(lambda a, b: torch.where(condition.view(-1, *[1] * (a.dim() - 1)), a, b), new, old)


def write_rows(state: State, rows: Tensor, new: State) -> State:
    """The state with `rows` replaced by the rows of `new`."""
    return map_state(lambda leaf, part: leaf.index_copy(0, rows, part.to(leaf.dtype)), state, new)


def put_rows(state: State, rows: Tensor, new: State) -> None:
    """Writes the rows of `new` over `rows` of the state, in place. Where a leaf of one has more room than that of the other, such as a
    buffer of keys and values for more positions, what both have is written; memory stays."""

    def put(leaf: Tensor, part: Tensor) -> Tensor:
        common = tuple(slice(min(sizes)) for sizes in zip(leaf.shape[1:], part.shape[1:], strict=True))
        return leaf[(slice(None), *common)].index_copy_(0, rows, part[(slice(None), *common)].to(leaf.dtype))

    map_state(put, state, new)


def copy_state(state: State) -> State:
    """A state that shares nothing with the first: a buffer that a call will write in place can be branched this way."""
    return map_state(torch.clone, state)


def detach_state(state: State) -> State:
    """The same values, cut off from the graph that made them: truncated back-propagation through time."""
    return map_state(Tensor.detach, state, memory=True)


def _rows_of_each(tensors: list[Tensor], rows: Tensor) -> list[Tensor]:
    """`rows` of every tensor. Small ones of the same shape are stacked and moved as one: a kernel's launch costs more than its work."""
    alike: dict[Any, list[int]] = {}
    for place, tensor in enumerate(tensors):
        key = (tensor.shape, tensor.dtype, tensor.device) if tensor.numel() <= MOST_STACKED else place
        alike.setdefault(key, []).append(place)
    chosen = list(tensors)
    for places in alike.values():
        if len(places) == 1:
            chosen[places[0]] = tensors[places[0]].index_select(0, rows)
            continue
        together = torch.stack([tensors[place] for place in places]).index_select(1, rows)
        for place, tensor in zip(places, together.unbind(0), strict=True):
            chosen[place] = tensor
    return chosen


def map_parts(method: str, of_part: Callable[[Any], Any], of_leaf: Callable[[Tensor], Any], state: State) -> State:
    """`of_part` of each part that has the method, and `of_leaf` of every leaf outside such parts; memory stays."""
    if state is None or isinstance(state, Memory):
        return state
    if hasattr(state, method):
        return of_part(state)
    if isinstance(state, Tensor):
        return of_leaf(state)
    return _with_children(lambda part: map_parts(method, of_part, of_leaf, part), state)


def _map_memory(function: Callable[[Tensor], Tensor], state: State) -> State:
    if isinstance(state, Memory):
        return map_tree(function, state)
    if state is None or isinstance(state, Tensor):
        return state
    return _with_children(lambda part: _map_memory(function, part), state)


def _with_children(function: Callable[[Tree], Tree], node: Tree) -> Tree:
    """The node with `function` of each of its children."""
    if isinstance(node, dict):
        return {name: function(child) for name, child in node.items()}
    if isinstance(node, (tuple, list)):
        children = [function(child) for child in node]
        return type(node)(*children) if hasattr(node, "_fields") else type(node)(children)
    raise TypeError(f"a state holds tensors in tuples, lists and dicts, not {type(node).__name__}")
