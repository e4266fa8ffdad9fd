"""Continuous batching: a request's rows join the running batch of its run, and leave it when they end. Knows no server.

Each run has one batch (`decoding.continuous`), which a job of the worker advances while there are rows. Requests come
from the server's event loop and join between two steps; generated tokens go back to the loop. A request with many rows
has only its fair share of them in the batch at a time, so that it does not delay later requests.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from typing import Any, NamedTuple, Protocol

from clew.core.errors import UserError
from clew.decoding.continuous import Continuous, Row, Wanted, Written
from clew.serving.calls import Call
from clew.serving.worker import Busy, Ended, Late, Worker, as_exception
from clew.tasks.use import Growing, Joining
from clew.text.patterns import TokenizerFault

log = logging.getLogger(__name__)

SHARE, LONGEST = 0.25, 5.0
"""Seconds for which one job advances a batch: if other jobs wait, which may overtake it meanwhile, and if none does."""
NEWS_EVERY, MANY = 0.01, 16
"""The minimum seconds between wake-ups of the event loop, from MANY rows on; each wake-up takes the interpreter from
the worker."""
READ_AT_ONCE = 20_000
"""Characters of prompts tokenized between two steps."""

Saw = Callable[[Call, Sequence[Any], Sequence[Any] | None, int], None]


class Told(NamedTuple):
    """The new output of one of a request's rows."""

    place: int
    written: Written


class Teller(Protocol):
    """The inputs of a request's `count` rows, and the receiver of their outputs. All of it runs in the worker's thread,
    including tokenizing and decoding."""

    count: int

    def size(self, place: int) -> int:
        """The approximate length of a row's prompt in characters."""
        ...

    def wanted(self, place: int) -> Wanted: ...

    def hear(self, told: list[Told]) -> tuple[Any, Collection[int]]:
        """Take new output. Return what to pass on, or None, and the rows that are complete before their own end."""
        ...


class Asked:
    """A request with its rows and its output queue."""

    def __init__(self, call: Call, teller: Teller):
        self.call = call
        self.teller = teller
        self.loop = asyncio.get_running_loop()
        self.passed: asyncio.Queue[Any] = asyncio.Queue()
        self.came = self.ended = 0
        """The numbers of rows that have joined and that have ended."""
        self.rows: dict[Row, int] = {}
        """The place in the request of each row in the batch."""
        self.has_begun = self.is_done = False

    def pass_on(self, items: list[Any]) -> None:
        for each in items:
            self.passed.put_nowait(each)


class Completed:
    """Marks the end of a request's output."""


class Writer:
    """The running batch of one run. At most `queue` requests wait to start; each waits at most `seconds` for its next
    output."""

    def __init__(
        self,
        worker: Worker,
        task: Any,
        joining: Joining[Any, Any],
        *,
        rows: int = 64,
        most_bytes: int = 0,
        queue: int = 64,
        seconds: float = 60.0,
        saw: Saw = lambda call, rows, answers, together: None,
    ):
        self.worker = worker
        self.task = task
        self.joining = joining
        self.batch: Continuous = joining.batch(task, rows, most_bytes)
        self.rows = rows
        self.queue = queue
        self.seconds = seconds
        self.saw = saw
        self.coming: deque[Asked] = deque()
        self.going: deque[Asked] = deque()
        """New and abandoned requests, passed from the event loop to the worker's thread."""
        self.open: list[Asked] = []
        """All requests with a waiter; used by the event loop only."""
        self.streams = 0
        self.taken: list[Asked] = []
        """Requests with rows in the batch, now or later; used by the worker only."""
        self.owners: dict[Row, Asked] = {}
        self.driving: asyncio.Task[None] | None = None
        self.is_free = threading.Lock()
        self.news: list[tuple[Asked, list[Any]]] = []
        """Output not yet sent to the event loop."""
        self.sent = 0.0

    @property
    def num_waiting(self) -> int:
        return sum(not asked.has_begun for asked in self.open)

    async def answers(self, call: Call) -> list[Any]:
        """One answer per row."""
        late = f"there was no answer within {self.seconds:g} seconds; ask for less, or try again later"
        async with aclosing(self.told(call, Answers(self, call), late)) as told:
            answers: list[Any] = await anext(told)
            return answers

    async def stream(self, call: Call) -> AsyncIterator[str]:
        """The pieces of one continuation."""
        async with aclosing(self.told(call, Pieces(self, call))) as told:
            self.streams += 1
            try:
                async for text in told:
                    yield text
            finally:
                self.streams -= 1

    async def told(self, call: Call, teller: Teller, late: str | None = None) -> AsyncGenerator[Any, None]:
        """Yield what a teller passes on, as soon as it is available. The rows leave the batch when the caller stops
        iterating."""
        asked = self._join(Asked(call, teller))
        try:
            while True:
                try:
                    async with asyncio.timeout(self.seconds):
                        passed = await asked.passed.get()
                except TimeoutError:
                    raise Late(late or f"nothing was written for {self.seconds:g} seconds; try again later") from None
                if isinstance(passed, Completed):
                    return
                if isinstance(passed, Exception):
                    raise passed
                yield passed
        finally:
            self._leave(asked)

    # In the server's loop

    def _join(self, asked: Asked) -> Asked:
        if self.num_waiting >= self.queue:
            raise Busy(f"{self.num_waiting} requests are waiting already; try again when some are done")
        self.open.append(asked)
        self.coming.append(asked)
        self._drive()
        return asked

    def _leave(self, asked: Asked) -> None:
        self.open.remove(asked)
        if not asked.is_done:
            self.going.append(asked)
            self._drive()

    def _drive(self) -> None:
        if self.driving is None or self.driving.done():
            self.driving = asyncio.ensure_future(self._driven())

    async def _driven(self) -> None:
        """Submit jobs that advance the batch while there is anything to do."""
        while self.coming or self.going or self.taken:
            size = min((asked.call.size(asked.call.rows[:1]) for asked in self.open), default=0.0)
            try:
                await asyncio.wrap_future(self.worker.submit(self._work, seconds=self.seconds, size=size).result)
            except Busy as error:
                if self.worker.closed:
                    self._fail(error)
                await asyncio.sleep(0.01)
            except Exception as error:
                log.debug(
                    "a job of a running batch ended: %s", error
                )  # the job itself has sent the error to its waiters
                await asyncio.sleep(0)

    # In the worker's thread

    def _work(self) -> None:
        if not self.is_free.acquire(blocking=False):  # a cancelled job still runs until its next pause
            return
        began = time.monotonic()
        try:
            while not self._is_over(time.monotonic() - began):
                while self.going:
                    self._end(self.going.popleft())
                self._take()
                if not self.taken:
                    return
                self._tell(self.batch.advance())
        except BaseException as error:
            self._fail(as_exception(error))
            if isinstance(error, Ended):
                raise
        finally:
            self._send()
            self.is_free.release()

    def _is_over(self, seconds: float) -> bool:
        """Whether the job should make room for others, though not too often: a handover takes two thread switches."""
        others = bool(self.worker.waiting or self.worker.overtaken)
        return seconds >= (SHARE if others else min(LONGEST, self.seconds / 4))

    def _take(self) -> None:
        """Let rows join: from each request its share, one row at a time in turn."""
        while self.coming:
            self.taken.append(self.coming.popleft())
        share = max(self.rows // max(len(self.taken), 1), 1)
        room = READ_AT_ONCE
        eager = self._eager(self.taken, share)
        while eager and room > 0:
            for asked in eager:
                room -= asked.teller.size(asked.came)
                self._take_row(asked)
            eager = self._eager(eager, share)

    def _eager(self, some: list[Asked], share: int) -> list[Asked]:
        return [
            asked for asked in some if not asked.is_done and asked.came < asked.teller.count and len(asked.rows) < share
        ]

    def _take_row(self, asked: Asked) -> None:
        try:
            row = self.batch.join(asked.teller.wanted(asked.came))
        except Ended:
            raise
        except BaseException as error:
            if isinstance(error, UserError) and not isinstance(error, TokenizerFault):
                self.saw(asked.call, asked.call.rows, None, 0)
            self._refuse(asked, error)
            return
        asked.rows[row] = asked.came
        asked.came += 1
        self.owners[row] = asked

    def _tell(self, outputs: list[Written]) -> None:
        told: dict[Asked, list[Told]] = {}
        for written in outputs:
            asked = self.owners[written.row]
            told.setdefault(asked, []).append(Told(asked.rows[written.row], written))
        for asked, some in told.items():
            asked.has_begun = True
            if errors := [written.error for _, written in some if written.error is not None]:
                self._refuse(asked, errors[0])
                continue
            try:
                passed, complete = asked.teller.hear(some)
            except Ended:
                raise
            except BaseException as error:
                self._refuse(asked, error)
                continue
            for row in {written.row for place, written in some if written.ended is not None or place in complete}:
                self.batch.leave(row)
                del asked.rows[row], self.owners[row]
                asked.ended += 1
            is_complete = asked.ended == asked.teller.count
            if is_complete:
                self._end(asked)
            self.news += [(asked, [*(() if passed is None else (passed,)), *((Completed(),) if is_complete else ())])]
        if len(self.owners) < MANY or time.monotonic() - self.sent >= NEWS_EVERY:
            self._send()

    def _refuse(self, asked: Asked, error: BaseException) -> None:
        self._end(asked)
        self.news.append((asked, [as_exception(error)]))

    def _send(self) -> None:
        """Send all pending output, waking each event loop once."""
        news, self.news = [(asked, found) for asked, found in self.news if found], []
        self.sent = time.monotonic()
        for loop in {asked.loop for asked, _ in news}:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(pass_on, [(asked, found) for asked, found in news if asked.loop is loop])

    def _end(self, asked: Asked) -> None:
        """Remove a request's rows from the batch."""
        asked.is_done = True
        for row in asked.rows:
            self.batch.leave(row)
            del self.owners[row]
        asked.rows.clear()
        if asked in self.taken:
            self.taken.remove(asked)
        if asked in self.coming:
            self.coming.remove(asked)

    def _fail(self, error: Exception) -> None:
        """Close the batch, and fail all its requests."""
        self.batch.close()
        for asked in [*self.taken, *self.coming]:
            self._refuse(asked, error)
        self._send()


def pass_on(news: list[tuple[Asked, list[Any]]]) -> None:
    """Put output into the requests' queues; runs in the event loop."""
    for asked, found in news:
        asked.pass_on(found)


class Answers:
    """Passes on all answers when the last one is complete."""

    def __init__(self, writer: Writer, call: Call):
        self.writer, self.call = writer, call
        self.joining, self.task = writer.joining, writer.task
        self.prompts = [self.joining.prompt(row) for row in call.rows]
        self.count = len(self.prompts)
        self.tokens: list[list[int]] = [[] for _ in self.prompts]
        self.log_probs = [0.0] * self.count
        self.left = self.count

    def size(self, place: int) -> int:
        return len(self.prompts[place])

    def wanted(self, place: int) -> Wanted:
        number = place // self.call.samples + 1 if self.count > self.call.samples else None
        tokens = self.joining.tokens(self.task, self.prompts[place], number)
        return self.joining.wanted(self.task, tokens, self.call.options, place + 1)

    def hear(self, told: list[Told]) -> tuple[Any, Collection[int]]:
        for place, written in told:
            self.tokens[place] += written.text
            self.log_probs[place] += sum(written.log_probs)
            self.left -= written.ended is not None
        if self.left:
            return None, ()
        rows = zip(self.call.rows, self.tokens, self.log_probs, strict=True)
        answers = [self.joining.answer(self.task, row, tokens, log_prob) for row, tokens, log_prob in rows]
        together = max(len(self.writer.owners), self.count)
        self.writer.saw(self.call, self.call.rows, answers, together)
        return answers, ()


class Pieces(Answers):
    """Passes on the text of one row as it is generated."""

    growing: Growing

    def wanted(self, place: int) -> Wanted:
        self.growing = self.joining.growing(self.task, self.prompts[place])
        wanted = super().wanted(place)
        self.writer.saw(self.call, self.call.rows, None, 0)
        return wanted

    def hear(self, told: list[Told]) -> tuple[Any, Collection[int]]:
        [(_, written)] = told
        text = "".join(map(self.growing.add, written.text))
        if written.ended is not None:
            text += self.growing.rest()
        return text or None, ()
