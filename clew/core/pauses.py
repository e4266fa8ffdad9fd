"""Pauses of long work, in which whoever waits may have a turn, or end it. Knows neither the work nor who waits.

Whoever listens may have every module pause before it is called (`pause_before`, a hook of torch's). Steps that are replayed, from a CUDA
graph or a tape, call none, and pause themselves.
"""

from collections.abc import Callable
from typing import Any

_listeners: list[Callable[[], None]] = []


def pause() -> None:
    """Calls every listener, in the thread of the work; what one raises ends the work."""
    for listener in list(_listeners):
        listener()


def pause_before(module: Any, inputs: Any) -> None:
    pause()


def on_pause(listener: Callable[[], None]) -> Callable[[], None]:
    """Listens to the pauses of all threads, until what is returned is called."""
    _listeners.append(listener)

    def stop() -> None:
        if listener in _listeners:
            _listeners.remove(listener)

    return stop
