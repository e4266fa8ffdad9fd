"""One thread that runs models for a server, one job at a time. Knows no model and no request.

A job may have a key: who asked, and for what. A newer job of the same key takes an older one's place: one that waits is dropped, one
that runs is ended at the next module that it calls, by a hook of torch's, since no thread can be stopped from outside. So is one that
takes longer than it may, or whose asker has gone. Every job runs in a context of its own, so that what one watches no other sees.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import Context
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook

from clew.core.errors import UserError

LONGEST_QUEUE = 64


class Ended(Exception):
    """Why a job has no result; raised inside it, and to whoever waits for it."""


class Superseded(Ended):
    """A newer job of the same key came."""


class Busy(UserError):
    """Nothing more can wait."""


class Late(UserError):
    """A job took longer than it may."""


class Job:
    """Something to do, for whom, and what came of it."""

    def __init__(self, work: Callable[[], Any], key: Hashable, seconds: float, number: int = 0):
        self.work = work
        self.key = key
        self.seconds = seconds
        self.number = number
        self.result: Future[Any] = Future()
        self.ending: Exception | None = None
        self.deadline = float("inf")

    def end(self, reason: Exception) -> None:
        """Now where it waits, soon where it runs; whoever waits for it is told at once."""
        self.ending = reason
        with suppress(InvalidStateError):  # it was done, or dropped, before
            self.result.set_exception(reason)

    def check(self) -> None:
        """Called between the parts of the work."""
        if self.ending is None and time.monotonic() > self.deadline:
            self.end(Late(f"this takes longer than {self.seconds:g} seconds; ask for less of it, or run `clew look` on the command line"))
        if self.ending is not None:
            raise Ended(str(self.ending))


class Worker:
    """`do(work, key)` is awaited for what `work()` gives. At most `longest_queue` jobs wait."""

    def __init__(self, longest_queue: int = LONGEST_QUEUE):
        self.longest_queue = longest_queue
        self.waiting: deque[Job] = deque()
        self.running: Job | None = None
        self.changed = threading.Condition()
        self.closed = False
        self.thread = threading.Thread(target=self._work, name="clew-worker", daemon=True)
        self.thread.start()

    async def do(self, work: Callable[[], Any], key: Hashable = None, seconds: float = 60.0, number: int = 0) -> Any:
        """What the work gives or raises. The work is ended where this is cancelled."""
        job = self.submit(work, key, seconds, number)
        try:
            return await asyncio.wrap_future(job.result)
        except asyncio.CancelledError:
            self._drop(job, Ended("nobody waits for this any more"))
            raise

    def submit(self, work: Callable[[], Any], key: Hashable = None, seconds: float = 60.0, number: int = 0) -> Job:
        """Of one key the newest is that of the highest number, or that which comes last: requests need not come in order."""
        job = Job(work, key, seconds, number)
        with self.changed:
            if self.closed:
                raise Busy("the server is ending")
            older = [each for each in (*self.waiting, self.running) if each is not None and key is not None and each.key == key]
            if any(each.number > number for each in older):
                raise Superseded("a newer request of this view came before it")
            for each in older:
                self._drop(each, Superseded("a newer request of this view took its place"))
            if len(self.waiting) >= self.longest_queue:
                raise Busy(f"{len(self.waiting)} requests wait already; ask again when they are done")
            self.waiting.append(job)
            self.changed.notify()
        return job

    def close(self, seconds: float = 0.2) -> bool:
        """Ends everything; whether the thread is done in time, which it is not while one long operation runs."""
        with self.changed:
            self.closed = True
            for job in (*self.waiting, self.running):
                if job is not None:
                    job.end(Ended("the server is ending"))
            self.waiting.clear()
            self.changed.notify()
        self.thread.join(seconds)
        return not self.thread.is_alive()

    def _drop(self, job: Job, reason: Exception) -> None:
        with self.changed:
            if job in self.waiting:
                self.waiting.remove(job)
            job.end(reason)

    def _work(self) -> None:
        hook = register_module_forward_pre_hook(self._between)
        try:
            while (job := self._next()) is not None:
                self._run(job)
        finally:
            hook.remove()

    def _next(self) -> Job | None:
        with self.changed:
            self.running = None
            while not self.waiting and not self.closed:
                self.changed.wait()
            self.running = None if self.closed else self.waiting.popleft()
            return self.running

    def _run(self, job: Job) -> None:
        job.deadline = time.monotonic() + job.seconds
        try:
            found = Context().run(job.work)
        except Exception as error:
            job.end(error)
        else:
            with suppress(InvalidStateError):
                job.result.set_result(found)

    def _between(self, module: Any, inputs: Any) -> None:
        """The hook is every thread's; only the job's own is ended."""
        if threading.current_thread() is self.thread and self.running is not None:
            self.running.check()
