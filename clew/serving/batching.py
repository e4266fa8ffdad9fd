"""Requests that wait together are answered together. Knows no server: calls come in, answers go out.

The first call that waits has others of its key with it, as many rows as a batch holds: those that came while the worker was busy, or
within a few milliseconds. Rows of one call may be cut over several batches. A call whose asker goes away, or waits too long, leaves the
queue; a batch is ended where nobody waits for any of it. What goes wrong with a batch is found out call by call, so that no call
answers for another.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from clew.serving.calls import Call
from clew.serving.worker import Busy, Ended, Late, Worker

SLICE = 0.05
"""Seconds for which a text that is sent piece by piece is written before others have their turn."""


class Waiting:
    """A call, when it came, and what is there of its answers."""

    def __init__(self, call: Call):
        self.call = call
        self.came = time.monotonic()
        self.answers: list[Any] = []
        self.taken = 0
        self.done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def add(self, found: list[Any] | Exception) -> None:
        """The answers to its next rows, or why it has none."""
        if self.done.done():
            return
        if isinstance(found, Exception):
            self.done.set_exception(found)
            return
        self.answers += found
        if len(self.answers) == len(self.call.rows):
            self.done.set_result(self.answers)


class Part(NamedTuple):
    """The rows [start, stop) of a call."""

    of: Waiting
    start: int
    stop: int

    @property
    def rows(self) -> list[Any]:
        return self.of.call.rows[self.start : self.stop]

    @property
    def numbers(self) -> list[int]:
        return list(range(self.start + 1, self.stop + 1))


class Batcher:
    """`answers(call)` is awaited for an answer a row. At most `queue` calls wait, each for at most `seconds`; `saw(call, rows, answers)` is
    called in the worker's thread with what each batch was asked and gave, the answers being None where there are none."""

    def __init__(
        self,
        worker: Worker,
        *,
        batch: int = 32,
        wait: float = 0.005,
        queue: int = 64,
        seconds: float = 60.0,
        saw: Callable[[Call, Sequence[Any], Sequence[Any] | None], None] = lambda call, rows, answers: None,
    ):
        self.worker = worker
        self.batch = batch
        self.wait = wait
        self.queue = queue
        self.seconds = seconds
        self.saw = saw
        self.waiting: list[Waiting] = []
        self.streams = 0
        self.running: list[Part] = []
        self.working: asyncio.Future[Any] | None = None
        self.dispatching: asyncio.Task[None] | None = None

    async def answers(self, call: Call) -> list[Any]:
        self._check_room(len(self.waiting), "requests wait")
        asked = Waiting(call)
        self.waiting.append(asked)
        if self.dispatching is None or self.dispatching.done():
            self.dispatching = asyncio.ensure_future(self._dispatch())
        try:
            async with asyncio.timeout(self.seconds):
                return await asked.done
        except TimeoutError:
            raise Late(f"there was no answer within {self.seconds:g} seconds; ask for less, or again when less is asked") from None
        finally:
            self._leave(asked)

    async def stream(self, call: Call) -> AsyncIterator[str]:
        """The pieces of one continuation, some at a time, so that others have their turn between them."""
        self._check_room(self.streams, "texts are written piece by piece")
        self.streams += 1
        try:
            pieces: Iterator[str] = await self._soon(lambda: started(call, self.saw))
            while (some := await self._soon(lambda: taken(pieces))) is not None:
                if some:
                    yield some
        finally:
            self.streams -= 1

    async def _soon(self, work: Callable[[], Any]) -> Any:
        try:
            async with asyncio.timeout(self.seconds):
                return await self.worker.do(work, seconds=self.seconds)
        except TimeoutError:
            raise Late(f"nothing was written for {self.seconds:g} seconds; ask again when less is asked") from None

    def _check_room(self, count: int, what: str) -> None:
        if count >= self.queue:
            raise Busy(f"{count} {what} already; ask again when some are done")

    def _leave(self, asked: Waiting) -> None:
        """Nobody waits for a call any more: it was answered, or its asker is gone."""
        if asked in self.waiting:
            self.waiting.remove(asked)
        asked.done.cancel()
        if self.working is not None and self.running and all(part.of.done.done() for part in self.running):
            self.working.cancel()

    async def _dispatch(self) -> None:
        while self.waiting:
            await asyncio.sleep(max(self.waiting[0].came + self.wait - time.monotonic(), 0))
            if parts := self._next():
                await self._run(parts)

    def _next(self) -> list[Part]:
        """The rows of the first call that waits, and of others of its key, as many as a batch holds."""
        found: list[Part] = []
        room, key = self.batch, self.waiting[0].call.key if self.waiting else None
        for asked in list(self.waiting):
            if room and asked.call.key == key:
                stop = min(asked.taken + room, len(asked.call.rows))
                found.append(Part(asked, asked.taken, stop))
                room -= stop - asked.taken
                asked.taken = stop
                self.waiting.remove(asked)
                if stop < len(asked.call.rows):
                    self.waiting.append(asked)  # others have their turn
        return found

    async def _run(self, parts: list[Part]) -> None:
        self.running = parts
        self.working = asyncio.ensure_future(self.worker.do(lambda: answered(parts, self.saw), seconds=self.seconds))
        try:
            await asyncio.wait([self.working])
            if self.working.cancelled():
                return
            error = self.working.exception()
            found = [error] * len(parts) if error is not None else self.working.result()
            for part, answers in zip(parts, found, strict=True):
                part.of.add(answers)
        finally:
            self.running, self.working = [], None


def answered(parts: list[Part], saw: Callable[..., None]) -> list[list[Any] | Exception]:
    """What each part gets. Where one call for all goes wrong, each has one of its own."""
    try:
        return one_call(parts, saw)
    except Ended:
        raise
    except Exception as error:
        if len(parts) == 1:
            return [error]
    found: list[list[Any] | Exception] = []
    for part in parts:
        try:
            found += one_call([part], saw)
        except Ended:
            raise
        except Exception as error:
            found.append(error)
    return found


def one_call(parts: list[Part], saw: Callable[..., None]) -> list[list[Any] | Exception]:
    call = parts[0].of.call
    rows = [row for part in parts for row in part.rows]
    numbers = [number for part in parts for number in part.numbers]
    try:
        found = call.answered(rows, numbers)
    except Ended:
        raise
    except Exception:
        if len(parts) == 1:
            saw(call, rows, None)
        raise
    saw(call, rows, found)
    split = iter(found)
    return [[next(split) for _ in part.rows] for part in parts]


def started(call: Call, saw: Callable[..., None]) -> Iterator[str]:
    try:
        return call.pieces()
    finally:
        saw(call, call.rows, None)


def taken(pieces: Iterator[str]) -> str | None:
    """What is written within a short while; None at the end."""
    some, until = [], time.monotonic() + SLICE
    for piece in pieces:
        some.append(piece)
        if time.monotonic() >= until:
            break
    return "".join(some) if some else None
