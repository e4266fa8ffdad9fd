"""Taps: named places inside a layer where a value can be seen or changed.

A tap is an identity module whose only job is to have a name. What is watched lives in a ContextVar, never on a module, so two threads can
watch the same model and an exception leaves nothing behind. Outside a watch a tap costs one look-up; inside compiled code, nothing.
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
    """What is done to a value at one place: it is changed, in this order, and what came of that is seen."""

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
    """Hands its input on, changed where someone changes it and seen where someone looks. `length_axes` are those that count positions: a
    reader of another direction turns them round."""

    def __init__(self, length_axes: tuple[int, ...] = (1,)):
        super().__init__()
        self.length_axes = length_axes

    def forward(self, x: Tensor) -> Tensor:
        return x if torch.compiler.is_compiling() else passed(self, x)


def passed(place: nn.Module, x: Tensor) -> Tensor:
    """What comes of a value that passes a place: changed, and seen at once or, inside a loop over time, when that ends."""
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
"""Turns axis 1 of a tensor from a layer's order into reading order; done twice it is nothing."""
Join = Callable[[list[Tensor]], Tensor]


def stacked(steps: list[Tensor]) -> Tensor:
    return torch.stack(steps, 1)


class Loop:
    """Gathers what a tap sees at each step and shows it once, joined: stacked on a length axis in reading order, where nothing else is
    said. `others` joins the steps of some places another way."""

    def __init__(self, orders: tuple[Order, ...], join: Join = stacked, others: Mapping[nn.Module, Join] | None = None):
        self.orders = orders
        self.join = join
        self.others = others or {}
        self.steps: dict[nn.Module, list[Tensor]] = {}

    def passed(self, place: nn.Module, x: Tensor, watch: Watch) -> Tensor:
        x = watch.changed(x)
        if watch.observers:
            self.steps.setdefault(place, []).append(x)
        return x

    def show(self) -> None:
        watches = _watches.get() or {}
        for place, steps in self.steps.items():
            watches[place].seen(reorder(self.others.get(place, self.join)(steps), self.orders))


def reorder(x: Tensor, orders: Sequence[Order], axes: tuple[int, ...] = (1,)) -> Tensor:
    for order in orders:
        for axis in axes:
            if 0 < axis < x.dim():
                x = order(x.transpose(1, axis)).transpose(1, axis)
    return x


def watching(observers: Mapping[nn.Module, Observer]) -> AbstractContextManager[None]:
    """Within this context the given places show what passes them."""
    return watched({place: Watch(observers=(observer,)) for place, observer in observers.items()})


@contextmanager
def watched(watches: Watches) -> Iterator[None]:
    """Within this context the given places are watched; contexts nest, and an outer one's changes come first."""
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
def steps_of_a_loop(join: Join = stacked, others: Mapping[nn.Module, Join] | None = None) -> Iterator[None]:
    """Around a loop over time: taps inside it are called once a step, observers once a loop, with all steps joined; those of the places
    in `others` as that says."""
    if torch.compiler.is_compiling() or _watches.get() is None:
        yield
        return
    outer = _loop.get()
    loop = Loop(outer.orders if outer is not None else (), join, others)
    token = _loop.set(loop)
    try:
        yield
    finally:
        _loop.reset(token)
    loop.show()


@contextmanager
def reordered(order: Order) -> Iterator[None]:
    """Around a layer that reads another way than forward: what its taps and loops show is in reading order."""
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
    """Holds the orders for the loops inside it. A place outside any loop is seen, and changed, at once and in reading order."""

    def passed(self, place: nn.Module, x: Tensor, watch: Watch) -> Tensor:
        axes = getattr(place, "length_axes", (1,))
        there = watch.changed(reorder(x, self.orders, axes))
        watch.seen(there)
        return reorder(there, self.orders[::-1], axes) if watch.changes else x


def is_watched(module: nn.Module) -> bool:
    """Whether something inside `module` is watched: then it has to take its equation, since a kernel has no inside."""
    if torch.compiler.is_compiling():
        return False
    watches = _watches.get()
    return watches is not None and any(inner in watches for inner in module.modules())


def is_watching() -> bool:
    """Whether anything is watched here, in any module."""
    return _watches.get() is not None
