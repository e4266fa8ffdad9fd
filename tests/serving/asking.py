"""A worker that is kept busy."""

import threading
from typing import Any

from clew.serving.worker import Worker


class Held:
    """Within this context the worker does nothing else."""

    def __init__(self, worker: Worker):
        self.worker = worker
        self.free = threading.Event()

    def __enter__(self) -> None:
        self.job = self.worker.submit(self.free.wait)

    def __exit__(self, *_: Any) -> None:
        self.free.set()
        self.job.result.result(5)
