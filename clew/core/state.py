"""Operations on the rows of any layer's state.

`Memory` is never written and has one row per sentence: every operation here keeps it unchanged, except `map_state` with
`memory=True` and `select_rows` with `memory_rows`.

A part of a state, a NamedTuple, may define what an operation does to it by a method: `selected(rows)`,
`rewind(lengths)`, and `reordered(move)`, which calls `move` on each tensor that follows its rows.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from clew.core.types import Memory, State, Tree

MOST_STACKED = 2**18
"""The most entries of a small tensor: see `_rows_of_each`."""


def map_tree(function: Callable[..., Any], first: Tree, *rest: Tree, keep: tuple[type, ...] = ()) -> Tree:
    """Apply `function` to corresponding leaves of trees; nodes of a type in `keep` are taken unchanged from the first
    tree."""
    if first is None or isinstance(first, keep):
        return first
    if isinstance(first, Tensor):
        return function(first, *rest)
    if isinstance(first, dict):
        return {name: map_tree(function, leaf, *(o[name] for o in rest), keep=keep) for name, leaf in first.items()}
    if isinstance(first, (tuple, list)):
        if rest:
            parts = [map_tree(function, *leaves, keep=keep) for leaves in zip(first, *rest, strict=True)]
        else:
            parts = [map_tree(function, leaf, keep=keep) for leaf in first]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    raise TypeError(f"a state holds tensors in tuples, lists and dicts, not {type(first).__name__}")


def leaves(tree: Tree, keep: tuple[type, ...] = ()) -> list[Tensor]:
    """Return every tensor of a tree, in order, except those inside nodes of a type in `keep`."""
    tensors: list[Tensor] = []
    _gather(tree, keep, tensors)
    return tensors


def _gather(tree: Tree, keep: tuple[type, ...], tensors: list[Tensor]) -> None:
    if isinstance(tree, Tensor):
        tensors.append(tree)
    elif tree is None or isinstance(tree, keep):
        return
    elif isinstance(tree, (tuple, list)):
        for part in tree:
            _gather(part, keep, tensors)
    elif isinstance(tree, dict):
        for part in tree.values():
            _gather(part, keep, tensors)
    else:
        raise TypeError(f"a state holds tensors in tuples, lists and dicts, not {type(tree).__name__}")


def with_leaves(tree: Tree, new: Iterable[Tensor], keep: tuple[type, ...] = ()) -> Tree:
    """Replace the tensors `leaves(tree, keep)` of a tree."""
    each = iter(new)
    return map_tree(lambda leaf: next(each), tree, keep=keep)


def map_state(function: Callable[..., Tensor], *states: State, memory: bool = False) -> State:
    """Apply `function` to every leaf that a step changes, and to `Memory` if `memory` is True."""
    return map_tree(function, *states, keep=() if memory else (Memory,))


def select_rows(state: State, rows: Tensor, memory_rows: Tensor | None = None) -> State:
    """Select rows of a state, in any order and with repeats. Memory keeps its rows unless `memory_rows` selects
    them."""
    chosen = map_parts("selected", lambda part: part.selected(rows), lambda leaf: leaf.index_select(0, rows), state)
    if memory_rows is None:
        return chosen
    return _map_memory(lambda leaf: leaf.index_select(0, memory_rows), chosen)


def reorder(state: State, rows: Tensor) -> State:
    """Return a state in which row i continues from row `rows[i]`, with repeats allowed; the given state is consumed.

    Equivalent to `select_rows(state, rows)` if every row is replaced by one that has read equally many positions, such
    as a beam of the same sentence. Only what can differ between such rows is moved: recurrent states, growing caches
    and rings, but not clocks, and of a buffer of keys and values only the table of their slots. Memory keeps its rows.
    Rows that share keys and values cannot be merged with others (`where_rows`, `write_rows`) until `select_rows` has
    given each its own copy.
    """
    moving: list[Tensor] = []
    map_parts("reordered", lambda part: part.reordered(moving.append), moving.append, state)
    moved = iter(_rows_of_each(moving, rows))
    return map_parts("reordered", lambda part: part.reordered(lambda _: next(moved)), lambda _: next(moved), state)


def where_rows(condition: Tensor, new: State, old: State) -> State:
    """Take rows of the new state where `condition` (batch,) holds, else of the old one; memory is the new state's."""
    return map_state(lambda a, b: torch.where(condition.view(-1, *[1] * (a.dim() - 1)), a, b), new, old)


def write_rows(state: State, rows: Tensor, new: State) -> State:
    """Return the state with `rows` replaced by the rows of `new`."""
    return map_state(lambda leaf, part: leaf.index_copy(0, rows, part.to(leaf.dtype)), state, new)


def put_rows(state: State, rows: Tensor, new: State) -> None:
    """Write the rows of `new` over `rows` of the state, in place. If a leaf of one state has more room, as a buffer of
    keys and values for more positions has, only the common part is written. Memory is unchanged."""

    def put(leaf: Tensor, part: Tensor) -> Tensor:
        if leaf.shape[1:] != part.shape[1:]:
            common = (slice(None), *(slice(min(sizes)) for sizes in zip(leaf.shape[1:], part.shape[1:], strict=True)))
            leaf, part = leaf[common], part[common]
        return leaf.index_copy_(0, rows, part.to(leaf.dtype))

    map_state(put, state, new)


def copy_state(state: State) -> State:
    """Copy a state to branch from it: calls may write buffers in place."""
    return map_state(torch.clone, state)


def detach_state(state: State) -> State:
    """Detach a state from its autograd graph, for truncated back-propagation through time."""
    return map_state(Tensor.detach, state, memory=True)


def _rows_of_each(tensors: list[Tensor], rows: Tensor) -> list[Tensor]:
    """Select rows of every tensor. Small tensors of one shape are stacked and selected together, since a launch costs
    more than its work."""
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
    """Apply `of_part` to each part that has the method, and `of_leaf` to every leaf outside such parts; memory is
    unchanged."""
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
    """Apply `function` to each child of a node."""
    if isinstance(node, dict):
        return {name: function(child) for name, child in node.items()}
    if isinstance(node, (tuple, list)):
        children = [function(child) for child in node]
        return type(node)(*children) if hasattr(node, "_fields") else type(node)(children)
    raise TypeError(f"a state holds tensors in tuples, lists and dicts, not {type(node).__name__}")
