"""Pauses in long computations, in which listeners can run or cancel it. Knows neither the computation nor the
listeners.

A listener can make every module pause before its call (`pause_before`, a torch hook). Steps replayed from a CUDA graph
or a tape call no modules, so they call `pause` themselves.
"""

from collections.abc import Callable
from typing import Any

_listeners: list[Callable[[], None]] = []


def pause() -> None:
    """Call every listener, in the thread of the computation; an exception ends the computation."""
    for listener in list(_listeners):
        listener()


def pause_before(module: Any, inputs: Any) -> None:
    pause()


def on_pause(listener: Callable[[], None]) -> Callable[[], None]:
    """Call `listener` at the pauses of all threads, until the returned function is called."""
    _listeners.append(listener)

    def stop() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return stop
