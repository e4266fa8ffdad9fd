"""A worker that runs models for a server, one job at a time. Knows no model and no request.

A job may have a key: who asked, and for what. A newer job of the same key takes an older one's place: one that waits is dropped, one
that runs is ended at the next module that it calls, by a hook of torch's, or at its next pause (`core.pauses`), since no thread can be
stopped from outside. So is one that takes longer than it may, or whose asker has gone. Every job runs in a context of its own, so that what
one watches no other sees.

A job says how large it is. Jobs of one size are done in the order in which they came. A smaller one overtakes: the same hook holds the
larger job between two modules, hands its turn on, and goes on when the smaller job is done. Each job that has begun therefore has a thread
of its own (a lane), and only the one whose turn it is runs. Every fourth turn belongs to the larger job that has waited longest for one, so
that many small jobs slow a large one down and never stop it.

Nothing that a job raises ends a lane: not SystemExit, and not the panic of a library in Rust, which is no Exception. Lanes that are gone
all the same are replaced when the next job comes, and `is_ready` says no until then.
"""

import asyncio
import logging
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
from clew.core.pauses import on_pause, pause_before

log = logging.getLogger(__name__)

LONGEST_QUEUE = 64
LANES = 8
"""Jobs that have begun at most; what they have computed so far stays in memory while they are overtaken."""
TURN = 0.02
"""Seconds after which a turn is handed on where another job has a right to it."""
LEAST_SHARE = 4
"""One turn in so many belongs to the job that has waited longest of those that smaller ones overtake."""
STUCK = 5.0
"""Seconds beyond its time after which a job that came to no module counts as stuck."""


class Ended(Exception):
    """Why a job has no result; raised inside it, and to whoever waits for it."""


class Superseded(Ended):
    """A newer job of the same key came."""


class Busy(UserError):
    """Nothing more can wait."""


class Late(UserError):
    """A job took longer than it may."""


class Failed(Exception):
    """Stands for what is no Exception, such as SystemExit or the panic of a library in Rust, or for a worker that ended."""


def as_exception(error: BaseException) -> Exception:
    """An error that a server can answer with, whatever was raised."""
    if isinstance(error, Exception):
        return error
    log.error("the worker met %s, and goes on", type(error).__name__)
    failed = Failed(type(error).__name__)
    failed.__cause__ = error
    return failed


class Job:
    """Something to do, for whom, how large it is, and what came of it. `spent` are the seconds of its turns."""

    def __init__(self, work: Callable[[], Any], key: Hashable, seconds: float, number: int = 0, size: float = 0.0):
        self.work = work
        self.key = key
        self.seconds = seconds
        self.number = number
        self.size = size
        self.result: Future[Any] = Future()
        self.ending: Exception | None = None
        self.since = time.monotonic()
        """When it came, or had its last turn."""
        self.spent = 0.0
        self.turn_began = 0.0
        self.lane: threading.Thread | None = None

    def end(self, reason: Exception) -> None:
        """Now where it waits, soon where it runs; whoever waits for it is told at once."""
        self.ending = reason
        with suppress(InvalidStateError):  # it was done, or dropped, before
            self.result.set_exception(reason)

    def time(self) -> float:
        """Seconds that it has run, the turn that it has now included."""
        return self.spent + time.monotonic() - self.turn_began

    def check(self) -> None:
        """Called between the parts of the work."""
        if self.ending is None and self.time() > self.seconds:
            self.end(Late(f"this takes longer than {self.seconds:g} seconds; ask for less of it, or run `clew look` on the command line"))
        if self.ending is not None:
            raise Ended(str(self.ending))


class Worker:
    """`do(work, key)` is awaited for what `work()` gives. At most `longest_queue` jobs wait."""

    def __init__(self, longest_queue: int = LONGEST_QUEUE):
        self.longest_queue = longest_queue
        self.waiting: deque[Job] = deque()
        self.overtaken: deque[Job] = deque()
        """Jobs that have begun and have no turn."""
        self.running: Job | None = None
        self.changed = threading.Condition()
        self.closed = False
        self.turns = 0
        self.lanes: list[threading.Thread] = []
        self.hook = register_module_forward_pre_hook(pause_before)
        self.stop_listening = on_pause(self._between)
        self._open_lane()

    @property
    def is_ready(self) -> bool:
        """Whether there is a lane, and none is held by work that should have ended."""
        with self.changed:
            running = self.running
            is_stuck = running is not None and running.time() > running.seconds + STUCK
            return not self.closed and not is_stuck and any(lane.is_alive() for lane in self.lanes)

    async def do(self, work: Callable[[], Any], key: Hashable = None, seconds: float = 60.0, number: int = 0, size: float = 0.0) -> Any:
        """What the work gives or raises. The work is ended where this is cancelled."""
        job = self.submit(work, key, seconds, number, size)
        try:
            return await asyncio.wrap_future(job.result)
        except asyncio.CancelledError:
            self._drop(job, Ended("nobody waits for this any more"))
            raise

    def submit(self, work: Callable[[], Any], key: Hashable = None, seconds: float = 60.0, number: int = 0, size: float = 0.0) -> Job:
        """Of one key the newest is that of the highest number, or that which comes last: requests need not come in order."""
        job = Job(work, key, seconds, number, size)
        with self.changed:
            if self.closed:
                raise Busy("the server is ending")
            older = [each for each in (*self.waiting, *self._begun()) if key is not None and each.key == key]
            if any(each.number > number for each in older):
                raise Superseded("a newer request of this view came before it")
            for each in older:
                self._drop(each, Superseded("a newer request of this view took its place"))
            if len(self.waiting) >= self.longest_queue:
                raise Busy(f"{len(self.waiting)} requests wait already; ask again when they are done")
            self.waiting.append(job)
            self._replace_lanes()
            self.changed.notify_all()
        return job

    def close(self, seconds: float = 0.2) -> bool:
        """Ends everything; whether the lanes are done in time, which they are not while one long operation runs."""
        with self.changed:
            self.closed = True
            for job in (*self.waiting, *self._begun()):
                job.end(Ended("the server is ending"))
            self.waiting.clear()
            self.changed.notify_all()
        until = time.monotonic() + seconds
        for lane in self.lanes:
            lane.join(max(until - time.monotonic(), 0))
        is_done = not any(lane.is_alive() for lane in self.lanes)
        if is_done:
            self.hook.remove()
            self.stop_listening()
        return is_done

    def _begun(self) -> list[Job]:
        return [*self.overtaken, *([] if self.running is None else [self.running])]

    def _drop(self, job: Job, reason: Exception) -> None:
        with self.changed:
            if job in self.waiting:
                self.waiting.remove(job)
            job.end(reason)

    def _open_lane(self) -> None:
        lane = threading.Thread(target=self._work, name="clew-worker", daemon=True)
        self.lanes.append(lane)
        lane.start()

    def _replace_lanes(self) -> None:
        """Opens a lane for each thread that has died. A job that it had begun fails, and whoever waits for it gets the error."""
        gone = [lane for lane in self.lanes if not lane.is_alive()]
        self.lanes = [lane for lane in self.lanes if lane not in gone]
        for job in self._begun():
            if job.lane in gone:
                job.end(Failed("the thread that did this ended"))
                self._forget(job)
        if len(self.lanes) <= len(self._begun()) and len(self.lanes) < LANES:
            self._open_lane()

    def _forget(self, job: Job) -> None:
        if job in self.overtaken:
            self.overtaken.remove(job)
        if self.running is job:
            self.running = None

    def _work(self) -> None:
        """A lane: takes a job that waits whenever it is its turn."""
        while self._has_worked():
            pass

    def _has_worked(self) -> bool:
        """One job, of which nothing is kept here while the lane waits for another; whether there may be more."""
        try:
            if (job := self._next()) is None:
                return False
            self._run(job)
        except BaseException:
            log.exception("a lane of the worker failed, and goes on")
        return True

    def _next(self) -> Job | None:
        with self.changed:
            while not self.closed:
                if self.running is None and (chosen := self._chosen()) is not None:
                    self._give_turn(chosen)
                    if chosen.lane is None:
                        chosen.lane = threading.current_thread()
                        return chosen
                self.changed.wait()
            return None

    def _chosen(self) -> Job | None:
        """Who has the next turn: a job that is to end, so that it makes room; now and then a larger one that smaller ones overtake; else
        the smallest, of equal ones that which has begun, or came first."""
        ending = [job for job in self.overtaken if job.ending is not None]
        contenders = ending or [*self.overtaken, *(self.waiting if len(self._begun()) < LANES else ())]
        if not contenders:
            return None
        smallest = min(contenders, key=lambda job: job.size)
        larger = [job for job in contenders if job.size > smallest.size]
        if larger and self.turns % LEAST_SHARE == LEAST_SHARE - 1:
            return min(larger, key=lambda job: job.since)
        return smallest

    def _give_turn(self, job: Job) -> None:
        if job.lane is None:
            self.waiting.remove(job)
        else:
            self.overtaken.remove(job)
        self.running = job
        self.turns += 1
        job.turn_began = time.monotonic()
        self.changed.notify_all()

    def _run(self, job: Job) -> None:
        try:
            found = Context().run(job.work)
        except BaseException as error:
            job.end(as_exception(error))
        else:
            with suppress(InvalidStateError):
                job.result.set_result(found)
        finally:
            with self.changed:
                self._forget(job)
                self.changed.notify_all()

    def _between(self) -> None:
        """Modules are called, and steps pause, in every thread; only the job's own is ended, or held."""
        job = self.running
        if job is None or job.lane is not threading.current_thread():
            return
        job.check()
        if time.monotonic() - job.turn_began >= TURN and (self.waiting or self.overtaken):
            self._hand_on(job)
            job.check()

    def _hand_on(self, job: Job) -> None:
        """Waits until it is this job's turn again, where another has a right to it now."""
        with self.changed:
            job.spent, job.since = job.time(), time.monotonic()
            self.overtaken.append(job)
            self.running = None
            chosen = self._chosen()
            assert chosen is not None
            if chosen.lane is not None:
                self._give_turn(chosen)
            elif len(self.lanes) <= len(self.overtaken):
                self._open_lane()
            self.changed.notify_all()
            while self.running is not job:
                if self.closed:
                    return
                self.changed.wait()
