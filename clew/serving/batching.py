"""Groups waiting requests into batches. Knows no server: calls come in, answers go out.

A batch has the first waiting call and others with the same key, up to a maximum number of rows: calls that arrived
while the worker was busy, or within a few milliseconds. Its size is bounded by rows, so a large call is split over
several batches and goes to the end of the queue in between. A call whose client disconnects, or that waits too long,
leaves the queue; a batch is cancelled if nobody waits for it. If a batch fails, its calls are retried one by one, so
that no call gets the error of another.

One batch runs at a time, so that calls that arrive meanwhile are batched together. But a call with at most a quarter of
the running batch's work does not wait: its batch starts immediately, and the worker lets the smaller one overtake
between two modules. The results do not depend on this order, since batches share no state.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from clew.core.errors import UserError
from clew.serving.calls import Call
from clew.serving.worker import Busy, Ended, Late, Worker, as_exception
from clew.text.patterns import TokenizerFault

SLICE = 0.05
"""Seconds of work on a streamed text before other jobs get their turn."""
OVERTAKING = 4
"""A batch overtakes one that is at least this many times its size."""
MOST_BATCHES = 6
"""The maximum number of running batches, each at most a quarter of the one before it."""


class QueuedCall:
    """A waiting call: its arrival time, and its answers so far."""

    def __init__(self, call: Call):
        self.call = call
        self.came = time.monotonic()
        self.answers: list[Any] = []
        self.taken = 0
        self.result: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    def add(self, answers: list[Any] | Exception) -> None:
        """Add the answers to its next rows, or fail with an error."""
        if self.result.done():
            return
        if isinstance(answers, Exception):
            self.result.set_exception(answers)
            return
        self.answers += answers
        if len(self.answers) == len(self.call.rows):
            self.result.set_result(self.answers)


class Part(NamedTuple):
    """The rows [start, stop) of a call."""

    queued: QueuedCall
    start: int
    stop: int

    @property
    def rows(self) -> list[Any]:
        return self.queued.call.rows[self.start : self.stop]

    @property
    def numbers(self) -> list[int]:
        return list(range(self.start + 1, self.stop + 1))


class Batch:
    """Rows that one call of the model answers, and the job that runs it."""

    def __init__(self, parts: list[Part]):
        self.parts = parts
        self.key = parts[0].queued.call.key
        self.size = sum(part.queued.call.size(part.rows) for part in parts)
        self.working: asyncio.Future[Any] | None = None
        self.running: asyncio.Future[None] | None = None


class Batcher:
    """Batches calls. `await answers(call)` gives one answer per row. At most `queue` calls wait, each for at most
    `seconds`. `observe(call, rows, answers)` is called in the worker's thread after each batch; the answers are None if
    the batch failed."""

    def __init__(
        self,
        worker: Worker,
        *,
        batch: int = 32,
        wait: float = 0.005,
        queue: int = 64,
        seconds: float = 60.0,
        observe: Callable[[Call, Sequence[Any], Sequence[Any] | None], None] = lambda call, rows, answers: None,
    ):
        self.worker = worker
        self.batch = batch
        self.wait = wait
        self.queue = queue
        self.seconds = seconds
        self.observe = observe
        self.waiting: list[QueuedCall] = []
        self.streams = 0
        self.batches: list[Batch] = []
        self.changed = asyncio.Event()
        """Set when a call arrives or a batch is done."""
        self.dispatching: asyncio.Task[None] | None = None

    @property
    def running(self) -> list[Part]:
        """The parts of all running batches."""
        return [part for batch in self.batches for part in batch.parts]

    async def answers(self, call: Call) -> list[Any]:
        self._check_room(len(self.waiting), "requests are waiting")
        queued = QueuedCall(call)
        self.waiting.append(queued)
        if self.dispatching is None or self.dispatching.done():
            self.changed = asyncio.Event()
            self.dispatching = asyncio.ensure_future(self._dispatch())
        self.changed.set()
        try:
            async with asyncio.timeout(self.seconds):
                return await queued.result
        except TimeoutError:
            raise Late(
                f"there was no answer within {self.seconds:g} seconds; ask for less, or try again later"
            ) from None
        finally:
            self._leave(queued)

    async def stream(self, call: Call) -> AsyncIterator[str]:
        """The pieces of one continuation, in slices of the worker's time, so that other jobs get turns. The iterator is
        the state."""
        self._check_room(self.streams, "texts are being streamed")
        self.streams += 1
        try:
            pieces: Iterator[str] = await self._run_job(lambda: start_stream(call, self.observe))
            while (text := await self._run_job(lambda: next_text(pieces))) is not None:
                if text:
                    yield text
        finally:
            self.streams -= 1

    async def _run_job(self, work: Callable[[], Any]) -> Any:
        try:
            async with asyncio.timeout(self.seconds):
                return await self.worker.do(work, seconds=self.seconds)
        except TimeoutError:
            raise Late(f"nothing was written for {self.seconds:g} seconds; try again later") from None

    def _check_room(self, count: int, what: str) -> None:
        if count >= self.queue:
            raise Busy(f"{count} {what} already; try again when some are done")

    def _leave(self, queued: QueuedCall) -> None:
        """Remove a call that was answered or abandoned, and cancel batches that nobody waits for."""
        if queued in self.waiting:
            self.waiting.remove(queued)
        queued.result.cancel()
        for batch in self.batches:
            if batch.working is not None and all(part.queued.result.done() for part in batch.parts):
                batch.working.cancel()

    async def _dispatch(self) -> None:
        while self.waiting:
            self.changed.clear()
            if (first := self._first()) is None:
                await self.changed.wait()
                continue
            await asyncio.sleep(max(first.came + self.wait - time.monotonic(), 0))
            if parts := self._next():
                self._begin(Batch(parts))

    def _begin(self, batch: Batch) -> None:
        def done(_: Any) -> None:
            self.batches.remove(batch)
            self.changed.set()

        self.batches.append(batch)
        batch.running = asyncio.ensure_future(self._run(batch))
        batch.running.add_done_callback(done)

    def _first(self) -> QueuedCall | None:
        """Return the next call: the first one, or, while a batch runs, the first that is small enough to overtake."""
        if not self.batches:
            return self.waiting[0] if self.waiting else None
        if len(self.batches) >= MOST_BATCHES:
            return None
        smallest, keys = min(batch.size for batch in self.batches), {batch.key for batch in self.batches}
        small = (
            queued
            for queued in self.waiting
            if OVERTAKING * self._size(queued) <= smallest and queued.call.key not in keys
        )
        return next(small, None)

    def _size(self, queued: QueuedCall) -> float:
        """The size of the rows that the next batch would take of a call."""
        return queued.call.size(queued.call.rows[queued.taken : queued.taken + self.batch])

    def _next(self) -> list[Part]:
        """The parts of the next batch: rows of the next call and of others with its key, as many as fit."""
        parts: list[Part] = []
        first = self._first()
        room, key = self.batch, None if first is None else first.call.key
        for queued in list(self.waiting):
            if room and queued.call.key == key:
                stop = min(queued.taken + room, len(queued.call.rows))
                parts.append(Part(queued, queued.taken, stop))
                room -= stop - queued.taken
                queued.taken = stop
                self.waiting.remove(queued)
                if stop < len(queued.call.rows):
                    self.waiting.append(queued)  # behind the others
        return parts

    async def _run(self, batch: Batch) -> None:
        work = self.worker.do(lambda: answer_parts(batch.parts, self.observe), seconds=self.seconds, size=batch.size)
        batch.working = asyncio.ensure_future(work)
        await asyncio.wait([batch.working])
        if batch.working.cancelled():
            return
        error = batch.working.exception()
        results = [error] * len(batch.parts) if error is not None else batch.working.result()
        for part, answers in zip(batch.parts, results, strict=True):
            part.queued.add(answers)


def answer_parts(parts: list[Part], observe: Callable[..., None]) -> list[list[Any] | Exception]:
    """Return each part's answers, or its error. If the call for all parts fails, each part is tried by itself."""
    try:
        return one_call(parts, observe)
    except Ended:
        raise
    except BaseException as error:
        failed = as_exception(error)
        if len(parts) == 1:
            return [failed]
    results: list[list[Any] | Exception] = []
    for part in parts:
        try:
            results += one_call([part], observe)
        except Ended:
            raise
        except BaseException as error:
            results.append(as_exception(error))
    return results


def one_call(parts: list[Part], observe: Callable[..., None]) -> list[list[Any] | Exception]:
    call = parts[0].queued.call
    rows = [row for part in parts for row in part.rows]
    numbers = [number for part in parts for number in part.numbers]
    try:
        answers = call.answer(rows, numbers)
    except Ended:
        raise
    except BaseException as error:
        if len(parts) == 1 and not isinstance(error, TokenizerFault):
            observe(call, rows, None)
        raise
    observe(call, rows, answers)
    split = iter(answers)
    return [[next(split) for _ in part.rows] for part in parts]


def start_stream(call: Call, observe: Callable[..., None]) -> Iterator[str]:
    try:
        pieces = call.pieces()
    except UserError as error:
        if not isinstance(error, TokenizerFault):
            observe(call, call.rows, None)
        raise
    observe(call, call.rows, None)
    return pieces


def next_text(pieces: Iterator[str]) -> str | None:
    """Return the text generated within SLICE seconds; None at the end."""
    generated, until = [], time.monotonic() + SLICE
    for piece in pieces:
        generated.append(piece)
        if time.monotonic() >= until:
            break
    return "".join(generated) if generated else None
