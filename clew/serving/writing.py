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
from clew.decoding.continuous import Continuous, Row, RowRequest, Written
from clew.serving.calls import Call
from clew.serving.worker import Busy, Ended, Late, Worker, as_exception
from clew.tasks.use import Growing, Joining
from clew.text.patterns import TokenizerFault

log = logging.getLogger(__name__)

SHARE, LONGEST = 0.25, 5.0
"""Seconds for which one job advances a batch: if other jobs wait, which may overtake it meanwhile, and if none does."""
SEND_EVERY, MANY_ROWS = 0.01, 16
"""With at least so many rows in a batch, the minimum number of seconds between wake-ups of the event loop: each wake-up
takes the interpreter from the worker."""
REST = 1.0
"""Seconds without requests after which a batch is released."""
READ_AT_ONCE = 20_000
"""Characters of prompts tokenized between two steps."""

Observer = Callable[[Call, Sequence[Any], Sequence[Any] | None, int], None]


class RowOutput(NamedTuple):
    """The new output of one of a request's rows, which is at `place` in the request."""

    place: int
    written: Written


class RequestRows(Protocol):
    """The inputs of a request's `count` rows, and the receiver of their outputs. All of it runs in the worker's thread,
    including tokenizing and decoding."""

    count: int

    def size(self, place: int) -> int:
        """The approximate length of a row's prompt in characters."""
        ...

    def row_request(self, place: int) -> RowRequest: ...

    def receive(self, outputs: list[RowOutput]) -> tuple[Any, Collection[int]]:
        """Take new output. Return what to pass on, or None, and the rows that are complete before their own end."""
        ...


class OpenRequest:
    """A request with its rows and its output queue."""

    def __init__(self, call: Call, source: RequestRows):
        self.call = call
        self.source = source
        self.loop = asyncio.get_running_loop()
        self.outputs: asyncio.Queue[Any] = asyncio.Queue()
        self.num_joined = self.num_ended = 0
        """The numbers of rows that have joined and that have ended."""
        self.rows: dict[Row, int] = {}
        """The place in the request of each row in the batch."""
        self.has_begun = self.is_done = False

    def put_outputs(self, items: list[Any]) -> None:
        for each in items:
            self.outputs.put_nowait(each)


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
        observe: Observer = lambda call, rows, answers, together: None,
    ):
        self.worker = worker
        self.task = task
        self.joining = joining
        self.batch: Continuous = joining.batch(task, rows, most_bytes)
        self.rows = rows
        self.queue = queue
        self.seconds = seconds
        self.observe = observe
        self.arriving: deque[OpenRequest] = deque()
        self.leaving: deque[OpenRequest] = deque()
        """New and abandoned requests, passed from the event loop to the worker's thread."""
        self.open: list[OpenRequest] = []
        """All requests with a waiter; used by the event loop only."""
        self.streams = 0
        self.active: list[OpenRequest] = []
        """Requests with rows in the batch, now or later; used by the worker only."""
        self.joining_requests: list[OpenRequest] = []
        """Those with further rows to join."""
        self.owners: dict[Row, OpenRequest] = {}
        self.submitting: asyncio.Task[None] | None = None
        self.resting: asyncio.TimerHandle | None = None
        self.batch_lock = threading.Lock()
        self.unsent: list[tuple[OpenRequest, list[Any]]] = []
        """Output not yet sent to the event loop."""
        self.sent_at = 0.0

    @property
    def cached_bytes(self) -> int:
        """The memory of the cached prefixes."""
        return 0 if self.batch.prefixes is None else self.batch.prefixes.num_bytes

    @property
    def num_waiting(self) -> int:
        return sum(not request.has_begun for request in self.open)

    async def answers(self, call: Call) -> list[Any]:
        """One answer per row."""
        request = self._join(OpenRequest(call, Answers(self, call)))
        try:
            late = f"there was no answer within {self.seconds:g} seconds; ask for less, or try again later"
            answers: list[Any] = await self._next_output(request, late)
            return answers
        finally:
            self._leave(request)

    async def stream(self, call: Call) -> AsyncIterator[str]:
        """The pieces of one continuation."""
        async with aclosing(self.outputs(call, Pieces(self, call), is_stream=True)) as outputs:
            async for text in outputs:
                yield text

    async def outputs(self, call: Call, source: RequestRows, *, is_stream: bool = False) -> AsyncGenerator[Any, None]:
        """Yield a request's outputs as soon as they are available. Its rows leave the batch when the caller stops
        iterating. With `is_stream`, each row is counted in `streams`."""
        request = self._join(OpenRequest(call, source))
        num_streams = source.count if is_stream else 0
        self.streams += num_streams
        late = f"nothing was written for {self.seconds:g} seconds; try again later"
        try:
            while not isinstance(output := await self._next_output(request, late), Completed):
                yield output
        finally:
            self.streams -= num_streams
            self._leave(request)

    # In the server's loop

    async def _next_output(self, request: OpenRequest, late: str) -> Any:
        """Wait for the next output of a request, or raise its error. `late` is said when there is none in time."""
        try:
            async with asyncio.timeout(self.seconds):
                output = await request.outputs.get()
        except TimeoutError:
            raise Late(late) from None
        if isinstance(output, Exception):
            raise output
        return output

    def _join(self, request: OpenRequest) -> OpenRequest:
        if self.num_waiting >= self.queue:
            raise Busy(f"{self.num_waiting} requests are waiting already; try again when some are done")
        self.open.append(request)
        self.arriving.append(request)
        self._start_jobs()
        return request

    def _leave(self, request: OpenRequest) -> None:
        self.open.remove(request)
        if not request.is_done:
            self.leaving.append(request)
            self._start_jobs()

    def _start_jobs(self) -> None:
        if self.submitting is None or self.submitting.done():
            self.submitting = asyncio.ensure_future(self._submit_jobs())

    async def _submit_jobs(self) -> None:
        """Submit jobs that advance the batch while there is anything to do."""
        if self.resting is not None:
            self.resting.cancel()
        while self.arriving or self.leaving or self.active:
            size = min((request.call.size(request.call.rows[:1]) for request in self.open), default=0.0)
            try:
                await asyncio.wrap_future(self.worker.submit(self._advance, seconds=self.seconds, size=size).result)
            except Busy as error:
                if self.worker.closed:
                    self._fail(error)
                await asyncio.sleep(0.01)
            except Exception as error:
                # The job itself has sent the error to its waiters.
                log.debug("a job of a running batch ended: %s", error)
                await asyncio.sleep(0)
        self.resting = asyncio.get_running_loop().call_later(REST, self._submit_rest)

    def _submit_rest(self) -> None:
        try:
            self.worker.submit(self._rest)
        except Busy:
            if not self.worker.closed:
                self.resting = asyncio.get_running_loop().call_later(REST, self._submit_rest)

    # In the worker's thread

    def _advance(self) -> None:
        if not self.batch_lock.acquire(blocking=False):  # a cancelled job still runs until its next pause
            return
        began = time.monotonic()
        try:
            while not self._should_yield(time.monotonic() - began):
                while self.leaving:
                    self._end(self.leaving.popleft())
                self._admit()
                if not self.active:
                    return
                self._deliver(self.batch.advance())
        except BaseException as error:
            self._fail(as_exception(error))
            if isinstance(error, Ended):
                raise
        finally:
            self._send_all()
            self.batch_lock.release()

    def _rest(self) -> None:
        if not self.active and self.batch_lock.acquire(blocking=False):
            try:
                self.batch.rest()
            finally:
                self.batch_lock.release()

    def _should_yield(self, seconds: float) -> bool:
        """Whether the job should end to let others run. Not too often: a handover takes two thread switches."""
        is_contended = bool(self.worker.waiting or self.worker.overtaken)
        return seconds >= (SHARE if is_contended else min(LONGEST, self.seconds / 4))

    def _admit(self) -> None:
        """Let rows join: from each request its share, one row at a time in turn."""
        while self.arriving:
            request = self.arriving.popleft()
            self.active.append(request)
            self.joining_requests.append(request)
        if not self.joining_requests:
            return
        share = max(self.rows // max(len(self.active), 1), 1)
        room = READ_AT_ONCE
        with_room = self._with_room(self.joining_requests, share)
        while with_room and room > 0:
            for request in with_room:
                room -= request.source.size(request.num_joined)
                self._admit_row(request)
            with_room = self._with_room(with_room, share)
        self.joining_requests = [
            request
            for request in self.joining_requests
            if not request.is_done and request.num_joined < request.source.count
        ]

    def _with_room(self, requests: list[OpenRequest], share: int) -> list[OpenRequest]:
        """Return the requests with further rows to join and fewer rows in the batch than their share."""
        return [
            request
            for request in requests
            if not request.is_done and request.num_joined < request.source.count and len(request.rows) < share
        ]

    def _admit_row(self, request: OpenRequest) -> None:
        try:
            row = self.batch.join(request.source.row_request(request.num_joined))
        except Ended:
            raise
        except BaseException as error:
            if isinstance(error, UserError) and not isinstance(error, TokenizerFault):
                self.observe(request.call, request.call.rows, None, 0)
            self._fail_request(request, error)
            return
        request.rows[row] = request.num_joined
        request.num_joined += 1
        self.owners[row] = request

    def _deliver(self, written_rows: list[Written]) -> None:
        """Give each request its new output."""
        outputs_of: dict[OpenRequest, list[RowOutput]] = {}
        for written in written_rows:
            request = self.owners[written.row]
            outputs_of.setdefault(request, []).append(RowOutput(request.rows[written.row], written))
        for request, outputs in outputs_of.items():
            request.has_begun = True
            if errors := [written.error for _, written in outputs if written.error is not None]:
                self._fail_request(request, errors[0])
                continue
            try:
                item, complete = request.source.receive(outputs)
            except Ended:
                raise
            except BaseException as error:
                self._fail_request(request, error)
                continue
            for row in {written.row for place, written in outputs if written.ended is not None or place in complete}:
                self.batch.leave(row)
                del request.rows[row], self.owners[row]
                request.num_ended += 1
            items = [] if item is None else [item]
            if request.num_ended == request.source.count:
                self._end(request)
                items.append(Completed())
            self.unsent.append((request, items))
        if len(self.owners) < MANY_ROWS or time.monotonic() - self.sent_at >= SEND_EVERY:
            self._send_all()

    def _fail_request(self, request: OpenRequest, error: BaseException) -> None:
        self._end(request)
        self.unsent.append((request, [as_exception(error)]))

    def _send_all(self) -> None:
        """Send all pending output, waking each event loop once."""
        unsent, self.unsent = [(request, items) for request, items in self.unsent if items], []
        self.sent_at = time.monotonic()
        for loop in {request.loop for request, _ in unsent}:
            with suppress(RuntimeError):  # the loop has ended
                of_loop = [(request, items) for request, items in unsent if request.loop is loop]
                loop.call_soon_threadsafe(put_outputs, of_loop)

    def _end(self, request: OpenRequest) -> None:
        """Remove a request's rows from the batch."""
        request.is_done = True
        for row in request.rows:
            self.batch.leave(row)
            del self.owners[row]
        request.rows.clear()
        if request in self.active:
            self.active.remove(request)
        if request in self.arriving:
            self.arriving.remove(request)

    def _fail(self, error: Exception) -> None:
        """Close the batch, and fail all its requests."""
        self.batch.close()
        for request in [*self.active, *self.arriving]:
            self._fail_request(request, error)
        self._send_all()


def put_outputs(unsent: list[tuple[OpenRequest, list[Any]]]) -> None:
    """Put output into the requests' queues; runs in the event loop."""
    for request, items in unsent:
        request.put_outputs(items)


class Answers:
    """Passes on all answers when the last one is complete."""

    def __init__(self, writer: Writer, call: Call):
        self.writer, self.call = writer, call
        self.joining, self.task = writer.joining, writer.task
        self.prompts = [self.joining.prompt(row) for row in call.rows]
        self.count = len(self.prompts)
        self.tokens: list[list[int]] = [[] for _ in self.prompts]
        self.log_probs = [0.0] * self.count
        self.num_left = self.count

    def size(self, place: int) -> int:
        return len(self.prompts[place])

    def row_request(self, place: int) -> RowRequest:
        number = place // self.call.samples + 1 if self.count > self.call.samples else None
        tokens = self.joining.tokens(self.task, self.prompts[place], number)
        return self.joining.request(self.task, tokens, self.call.options, place + 1)

    def receive(self, outputs: list[RowOutput]) -> tuple[Any, Collection[int]]:
        for place, written in outputs:
            self.tokens[place] += written.text
            self.log_probs[place] += sum(written.log_probs)
            self.num_left -= written.ended is not None
        if self.num_left:
            return None, ()
        rows = zip(self.call.rows, self.tokens, self.log_probs, strict=True)
        answers = [self.joining.answer(self.task, row, tokens, log_prob) for row, tokens, log_prob in rows]
        together = max(len(self.writer.owners), self.count)
        self.writer.observe(self.call, self.call.rows, answers, together)
        return answers, ()


class Pieces(Answers):
    """Passes on the text of one row as it is generated."""

    text_so_far: Growing

    def row_request(self, place: int) -> RowRequest:
        self.text_so_far = self.joining.growing(self.task, self.prompts[place])
        row_request = super().row_request(place)
        self.writer.observe(self.call, self.call.rows, None, 0)
        return row_request

    def receive(self, outputs: list[RowOutput]) -> tuple[Any, Collection[int]]:
        [(_, written)] = outputs
        text = "".join(map(self.text_so_far.add, written.text))
        if written.ended is not None:
            text += self.text_so_far.rest()
        return text or None, ()
