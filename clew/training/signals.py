"""Ctrl-C and SIGTERM as a request: what is under way is finished and saved before the program ends."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


class Interrupted(Exception):
    """A run that was asked to stop and has saved in `folder`; `number` is the signal's."""

    def __init__(self, number: int, message: str, folder: Path):
        super().__init__(message)
        self.number = number
        self.folder = folder


TORCHRUN_REPEATS = 10.0
"""Ctrl-C under torchrun reaches a process twice, from the terminal and from torchrun: within so many seconds that is
one request."""


class Request:
    """Which signal has come last, if any. A second one does not wait."""

    number: int | None = None
    time: float = 0.0

    def __bool__(self) -> bool:
        return self.number is not None


@contextmanager
def stop_requests() -> Iterator[Request]:
    """Within this context SIGINT and SIGTERM are noted instead of obeyed; the handlers before are put back."""
    request = Request()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def note(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if request and not ("TORCHELASTIC_RUN_ID" in os.environ and now - request.time < TORCHRUN_REPEATS):
            request.number = number
            raise KeyboardInterrupt
        if request:
            return
        request.number, request.time = number, now
        if sys.stderr.isatty():
            os.write(2, b"\nstopping when this step is done; once more stops at once, unsaved\n")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
