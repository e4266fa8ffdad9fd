"""Ctrl-C and SIGTERM as a request to stop: the current step is finished and saved before the program ends."""

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
    """A run was stopped by the signal `number`; its checkpoints are in `folder`."""

    def __init__(self, number: int, message: str, folder: Path):
        super().__init__(message)
        self.number = number
        self.folder = folder


TORCHRUN_REPEATS = 10.0
"""Under torchrun, Ctrl-C reaches a process twice, from the terminal and from torchrun. Two signals within this number
of seconds count as one request."""


class Request:
    """The signal that requested a stop, if any. A second signal stops immediately."""

    number: int | None = None
    time: float = 0.0

    def __bool__(self) -> bool:
        return self.number is not None


@contextmanager
def stop_requests() -> Iterator[Request]:
    """Within this context the first SIGINT or SIGTERM is recorded in the request, and a second one raises
    KeyboardInterrupt."""
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
            os.write(2, b"\nstopping after this step; press Ctrl-C again to stop at once without saving\n")

    handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
