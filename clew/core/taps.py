"""Taps: named places inside a layer where a value can be seen or changed.

A tap is an identity module whose only job is to have a name. What is watched lives in a ContextVar, never on a module, so two threads can
watch the same model and an exception leaves nothing behind. Outside a watch a tap costs one look-up; inside compiled code, nothing.
"""

from collections.abc import Callable, Iterator, Mapping
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
    """Hands its input on, changed where someone changes it and seen where someone looks."""

    def forward(self, x: Tensor) -> Tensor:
        return x if torch.compiler.is_compiling() else passed(self, x)


def passed(place: nn.Module, x: Tensor) -> Tensor:
    """What comes of a value that passes a place: changed, and seen at once or, inside a loop over time, when that ends."""
    watches = _watches.get()
    if watches is None or place not in watches:
        return x
    x = watches[place].changed(x)
    loop = _loop.get()
    if loop is None:
        watches[place].seen(x)
    else:
        loop.gather(place, x, watches[place])
    return x


class Loop:
    """Gathers what a tap sees at each step and shows it once, stacked on a length axis in reading order."""

    def __init__(self, reorder: Callable[[Tensor], Tensor] | None):
        self.reorder = reorder
        self.steps: dict[nn.Module, list[Tensor]] = {}

    def gather(self, tap: nn.Module, x: Tensor, watch: Watch) -> None:
        if watch.observers:
            self.steps.setdefault(tap, []).append(x)

    def show(self) -> None:
        watches = _watches.get() or {}
        for tap, steps in self.steps.items():
            stacked = torch.stack(steps, 1)
            watches[tap].seen(stacked if self.reorder is None else self.reorder(stacked))


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
def steps_of_a_loop() -> Iterator[None]:
    """Around a loop over time: taps inside it are called once a step, observers once a loop."""
    if torch.compiler.is_compiling() or _watches.get() is None:
        yield
        return
    outer = _loop.get()
    loop = Loop(outer.reorder if outer is not None else None)
    token = _loop.set(loop)
    try:
        yield
    finally:
        _loop.reset(token)
    loop.show()


@contextmanager
def reordered(reorder: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Around a layer that reads another way than forward: `reorder` brings what its loops show back into reading order."""
    if torch.compiler.is_compiling() or _watches.get() is None:
        yield
        return
    outer = _loop.get()
    around = outer.reorder if outer is not None else None
    token = _loop.set(Reordering(reorder if around is None else lambda seen: around(reorder(seen))))
    try:
        yield
    finally:
        _loop.reset(token)


class Reordering(Loop):
    """Holds an order for the loops inside it; a tap outside any loop shows itself at once, as its layer read it."""

    def gather(self, tap: nn.Module, x: Tensor, watch: Watch) -> None:
        watch.seen(x)


def is_watched(module: nn.Module) -> bool:
    """Whether something inside `module` is watched: then it has to take its equation, since a kernel has no inside."""
    if torch.compiler.is_compiling():
        return False
    watches = _watches.get()
    return watches is not None and any(inner in watches for inner in module.modules())
