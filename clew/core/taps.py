"""Taps: named places inside a layer where a value can be observed or changed.

A tap is an identity module whose only job is to have a name. Watches are in a ContextVar, never on a module, so two
threads can watch the same model and an exception leaves nothing behind. Without a watch a tap costs one look-up; in
compiled code, nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor, nn

Change = Callable[[Tensor], Tensor]
Observer = Callable[[Tensor], object]


class Watch(NamedTuple):
    """What happens to a value at one place: the changes are applied in order, and the observers see the result."""

    changes: tuple[Change, ...] = ()
    observers: tuple[Observer, ...] = ()

    def changed(self, x: Tensor) -> Tensor:
        for change in self.changes:
            x = change(x)
        return x

    def seen(self, x: Tensor) -> None:
        for observer in self.observers:
            observer(x)


Watches = dict[nn.Module, Watch]

_watches: ContextVar[Watches | None] = ContextVar("watches", default=None)
_loop: ContextVar["Loop | None"] = ContextVar("loop", default=None)


class Tap(nn.Module):
    """An identity module that applies watched changes and calls observers. `length_axes` are the axes of positions,
    which layers that read in another direction reverse."""

    def __init__(self, length_axes: tuple[int, ...] = (1,)):
        super().__init__()
        self.length_axes = length_axes

    def forward(self, x: Tensor) -> Tensor:
        return x if torch.compiler.is_compiling() else passed(self, x)


def passed(place: nn.Module, x: Tensor) -> Tensor:
    """Apply the watch of a place to a value: change it, and show it to observers immediately or, inside a loop over
    time, when the loop ends."""
    watches = _watches.get()
    if watches is None or place not in watches:
        return x
    loop = _loop.get()
    if loop is not None:
        return loop.passed(place, x, watches[place])
    x = watches[place].changed(x)
    watches[place].seen(x)
    return x


Order = Callable[[Tensor], Tensor]
"""Converts axis 1 of a tensor between a layer's order and reading order; its own inverse."""
Join = Callable[[list[Tensor]], Tensor]


def stacked(steps: list[Tensor]) -> Tensor:
    return torch.stack(steps, 1)


class Loop:
    """Collects the values of a tap at each step and shows them once, joined: by default stacked on a length axis in
    reading order. `other_joins` has another join for some places."""

    def __init__(
        self, orders: tuple[Order, ...], join: Join = stacked, other_joins: Mapping[nn.Module, Join] | None = None
    ):
        self.orders = orders
        self.join = join
        self.other_joins = other_joins or {}
        self.steps: dict[nn.Module, list[Tensor]] = {}

    def passed(self, place: nn.Module, x: Tensor, watch: Watch) -> Tensor:
        x = watch.changed(x)
        if watch.observers:
            self.steps.setdefault(place, []).append(x)
        return x

    def show(self) -> None:
        watches = _watches.get() or {}
        for place, steps in self.steps.items():
            watches[place].seen(reorder(self.other_joins.get(place, self.join)(steps), self.orders))


def reorder(x: Tensor, orders: Sequence[Order], axes: tuple[int, ...] = (1,)) -> Tensor:
    for order in orders:
        for axis in axes:
            if 0 < axis < x.dim():
                x = order(x.transpose(1, axis)).transpose(1, axis)
    return x


def watching(observers: Mapping[nn.Module, Observer]) -> AbstractContextManager[None]:
    """Call observers on the values that pass their places, in this context."""
    return watched({place: Watch(observers=(observer,)) for place, observer in observers.items()})


@contextmanager
def watched(watches: Watches) -> Iterator[None]:
    """Watch places in this context. Contexts nest, and changes of an outer one come first."""
    together = dict(_watches.get() or {})
    for place, watch in watches.items():
        outer = together.get(place, Watch())
        together[place] = Watch(outer.changes + watch.changes, outer.observers + watch.observers)
    token = _watches.set(together)
    try:
        yield
    finally:
        _watches.reset(token)


@contextmanager
def steps_of_a_loop(join: Join = stacked, other_joins: Mapping[nn.Module, Join] | None = None) -> Iterator[None]:
    """Use around a loop over time: taps inside are called at every step, observers once per loop with all steps joined
    by `join`, or by the join in `other_joins` for some places."""
    if torch.compiler.is_compiling() or _watches.get() is None:
        yield
        return
    outer = _loop.get()
    loop = Loop(outer.orders if outer is not None else (), join, other_joins)
    token = _loop.set(loop)
    try:
        yield
    finally:
        _loop.reset(token)
    loop.show()


@contextmanager
def reordered(order: Order) -> Iterator[None]:
    """Use around a layer that does not read forwards: its taps and loops show values in reading order."""
    if torch.compiler.is_compiling() or _watches.get() is None:
        yield
        return
    outer = _loop.get()
    token = _loop.set(Reordering((order, *(outer.orders if outer is not None else ()))))
    try:
        yield
    finally:
        _loop.reset(token)


class Reordering(Loop):
    """Holds the orders for the loops inside it. Places outside loops are changed and observed immediately, in reading
    order."""

    def passed(self, place: nn.Module, x: Tensor, watch: Watch) -> Tensor:
        axes = getattr(place, "length_axes", (1,))
        value = watch.changed(reorder(x, self.orders, axes))
        watch.seen(value)
        return reorder(value, self.orders[::-1], axes) if watch.changes else x


def is_watched(module: nn.Module) -> bool:
    """Whether something inside `module` is watched. It must then run its equation, since a kernel has no intermediate
    values."""
    if torch.compiler.is_compiling():
        return False
    watches = _watches.get()
    return watches is not None and any(inner in watches for inner in module.modules())


def is_watching() -> bool:
    """Whether anything is watched in this context, in any module."""
    return _watches.get() is not None
