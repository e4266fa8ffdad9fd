"""Taps: named places inside a layer where a value can be seen or changed.

A tap is an identity module whose only job is to have a name. What is watched lives in a ContextVar, never on a module, so two threads can
watch the same model and an exception leaves nothing behind. Outside a watch a tap costs one look-up; inside compiled code, nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor, nn

Observer = Callable[[Tensor], Tensor | None]
"""Sees a value; what it returns, if anything, takes the value's place."""

_observers: ContextVar[dict[nn.Module, Observer] | None] = ContextVar("observers", default=None)
_loop: ContextVar["Loop | None"] = ContextVar("loop", default=None)


class Tap(nn.Module):
    """Hands its input on; an observer of this tap sees it and may replace it."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return x
        observers = _observers.get()
        if observers is None or self not in observers:
            return x
        loop = _loop.get()
        if loop is not None:
            return loop.see(self, x, observers[self])
        seen = observers[self](x)
        return x if seen is None else seen


class Loop:
    """Gathers what a tap sees at each step and shows it once, stacked on a length axis in reading order."""

    def __init__(self, reorder: Callable[[Tensor], Tensor] | None):
        self.reorder = reorder
        self.steps: dict[nn.Module, list[Tensor]] = {}

    def see(self, tap: nn.Module, x: Tensor, observer: Observer) -> Tensor:
        if getattr(observer, "changes", False):
            changed = observer(x)
            x = x if changed is None else changed
        else:
            self.steps.setdefault(tap, []).append(x)
        return x

    def show(self) -> None:
        observers = _observers.get() or {}
        for tap, steps in self.steps.items():
            stacked = torch.stack(steps, 1)
            observers[tap](stacked if self.reorder is None else self.reorder(stacked))


@contextmanager
def watching(observers: dict[nn.Module, Observer]) -> Iterator[None]:
    """Within this context the given taps show what passes them; contexts nest, the inner one's observers coming first."""
    token = _observers.set({**(_observers.get() or {}), **observers})
    try:
        yield
    finally:
        _observers.reset(token)


@contextmanager
def steps_of_a_loop() -> Iterator[None]:
    """Around a loop over time: taps inside it are called once a step, observers once a loop."""
    if torch.compiler.is_compiling() or _observers.get() is None:
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
    if torch.compiler.is_compiling() or _observers.get() is None:
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

    def see(self, tap: nn.Module, x: Tensor, observer: Observer) -> Tensor:
        seen = observer(x)
        return x if seen is None else seen


def is_watched(module: nn.Module) -> bool:
    """Whether an observer watches a tap somewhere inside `module`: then it has to take its equation, since a kernel has no inside."""
    if torch.compiler.is_compiling():
        return False
    observers = _observers.get()
    return observers is not None and any(inner in observers for inner in module.modules())
