"""A worker that runs models for a server, one job at a time. Knows no model and no request.

A job may have a key: the client and the place on its page. A newer job with the same key replaces an older one: a
waiting job is dropped; a running one ends at its next call of a module, through a torch hook, or at its next pause
(`core.pauses`). A thread cannot be stopped from outside, and an exception at an arbitrary point could leave a hook or a
mode behind. A job that calls no module, such as one large matrix product, runs to its end, and its result is dropped.
Jobs also end this way when they exceed their time or their client disconnects. Every job runs in its own context, so
that no job sees what another one records.

A job has a size. Jobs of equal size run in order of arrival. A smaller one overtakes: the same hook suspends the larger
job between two modules until the smaller one is done. So each started job has its own thread (a lane), of which only
one runs at a time. Every fourth turn belongs to the larger job that has waited longest, so that many small jobs slow a
large one down but never starve it.

No error of a job ends a lane: not SystemExit, and not the panic of a Rust library, which is not an Exception. Lanes
that end nevertheless are replaced when the next job arrives; until then `is_ready` is False.
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
"""The maximum number of started jobs; their intermediate results stay in memory while they are suspended."""
TURN = 0.02
"""Seconds after which a turn passes to another job that is due."""
LEAST_SHARE = 4
"""One turn in this many belongs to the overtaken job that has waited longest."""
STUCK = 5.0
"""Seconds over its limit after which a job counts as stuck."""


class Ended(Exception):
    """The reason why a job has no result; raised inside it and to its waiter."""


class Superseded(Ended):
    """A newer job with the same key arrived."""


class Busy(UserError):
    """The queue is full."""


class Late(UserError):
    """A job exceeded its time limit."""


class Failed(Exception):
    """Stands for an error that is not an Exception, such as SystemExit or a panic of a Rust library, or for a dead
    thread."""


def as_exception(error: BaseException) -> Exception:
    """Convert anything raised to an Exception that a server can answer with."""
    if isinstance(error, Exception):
        return error
    log.error("the worker met %s, and continues", type(error).__name__)
    failed = Failed(type(error).__name__)
    failed.__cause__ = error
    return failed


class Job:
    """A unit of work with its key, size and result. `spent` is the total time of its turns in seconds."""

    def __init__(self, work: Callable[[], Any], key: Hashable, seconds: float, number: int = 0, size: float = 0.0):
        self.work = work
        self.key = key
        self.seconds = seconds
        self.number = number
        self.size = size
        self.result: Future[Any] = Future()
        self.ending: Exception | None = None
        self.since = time.monotonic()
        """The time of its arrival, or of its last turn."""
        self.spent = 0.0
        self.turn_began = 0.0
        self.lane: threading.Thread | None = None

    def end(self, reason: Exception) -> None:
        """End the job: a waiting one now, a running one at its next check. Its waiter gets the error immediately."""
        self.ending = reason
        with suppress(InvalidStateError):  # it was already done or dropped
            self.result.set_exception(reason)

    def time(self) -> float:
        """Seconds that it has run, including the current turn."""
        return self.spent + time.monotonic() - self.turn_began

    def check(self) -> None:
        """Raise Ended if the job should end; called between parts of the work."""
        if self.ending is None and self.time() > self.seconds:
            self.end(
                Late(
                    f"this takes longer than {self.seconds:g} seconds; ask for less, or run `clew look` on the command"
                    " line"
                )
            )
        if self.ending is not None:
            raise Ended(str(self.ending))


class Worker:
    """Runs jobs: `await do(work, key)` gives the result of `work()`. At most `longest_queue` jobs wait."""

    def __init__(self, longest_queue: int = LONGEST_QUEUE):
        self.longest_queue = longest_queue
        self.waiting: deque[Job] = deque()
        self.overtaken: deque[Job] = deque()
        """Started jobs that are suspended."""
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
        """Whether a lane is alive, and the running job is not stuck."""
        with self.changed:
            running = self.running
            is_stuck = running is not None and running.time() > running.seconds + STUCK
            return not self.closed and not is_stuck and any(lane.is_alive() for lane in self.lanes)

    async def do(
        self, work: Callable[[], Any], key: Hashable = None, seconds: float = 60.0, number: int = 0, size: float = 0.0
    ) -> Any:
        """Run `work`, and return or raise its result. Cancelling this ends the work."""
        job = self.submit(work, key, seconds, number, size)
        try:
            return await asyncio.wrap_future(job.result)
        except asyncio.CancelledError:
            self._drop(job, Ended("nobody waits for this any more"))
            raise

    def submit(
        self, work: Callable[[], Any], key: Hashable = None, seconds: float = 60.0, number: int = 0, size: float = 0.0
    ) -> Job:
        """Add a job. Of jobs with the same key, the newest has the highest number, or arrived last; requests may arrive
        out of order."""
        job = Job(work, key, seconds, number, size)
        with self.changed:
            if self.closed:
                raise Busy("the server is shutting down")
            older = [each for each in (*self.waiting, *self._begun()) if key is not None and each.key == key]
            if any(each.number > number for each in older):
                raise Superseded("a newer request for this view arrived before it")
            for each in older:
                self._drop(each, Superseded("a newer request for this view replaced it"))
            if len(self.waiting) >= self.longest_queue:
                raise Busy(f"{len(self.waiting)} requests are waiting already; try again when they are done")
            self.waiting.append(job)
            self._replace_lanes()
            self.changed.notify_all()
        return job

    def close(self, seconds: float = 0.2) -> bool:
        """End all jobs. Return whether the lanes finished in time, which they do not during one long operation."""
        with self.changed:
            self.closed = True
            for job in (*self.waiting, *self._begun()):
                job.end(Ended("the server is shutting down"))
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
        """Replace dead lanes. A job that a dead lane had started fails, and its waiter gets the error."""
        dead = [lane for lane in self.lanes if not lane.is_alive()]
        self.lanes = [lane for lane in self.lanes if lane not in dead]
        for job in self._begun():
            if job.lane in dead:
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
        """The loop of a lane: run waiting jobs when it is their turn."""
        while self._has_worked():
            pass

    def _has_worked(self) -> bool:
        """Run one job; return whether there may be more. A method of its own, so that a waiting lane holds no reference
        to the last job."""
        try:
            if (job := self._next()) is None:
                return False
            self._run(job)
        except BaseException:
            log.exception("a lane of the worker failed, and continues")
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
        """The job with the next turn: one that should end, to make room; every LEAST_SHARE turns an overtaken larger
        one; else the smallest, preferring started jobs, then earlier ones."""
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
            result = Context().run(job.work)
        except BaseException as error:
            job.end(as_exception(error))
        else:
            with suppress(InvalidStateError):
                job.result.set_result(result)
        finally:
            with self.changed:
                self._forget(job)
                self.changed.notify_all()

    def _between(self) -> None:
        """The hook, which every thread calls at modules and pauses; it acts only in the running job's own thread."""
        job = self.running
        if job is None or job.lane is not threading.current_thread():
            return
        job.check()
        if time.monotonic() - job.turn_began >= TURN and (self.waiting or self.overtaken):
            self._hand_on(job)
            job.check()

    def _hand_on(self, job: Job) -> None:
        """Pass the turn to the job that is due, and wait until it is this job's turn again."""
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
