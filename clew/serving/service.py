"""The server of a run's task: JSON in, JSON out. Every mistake is one sentence, and nothing is kept of what was asked.

GET  /           the routes, as OpenAPI describes them
GET  /health     whether it answers, of which runs, and by which version
GET  /metrics    counts, for Prometheus
POST /VERB       what the run's task does: {"text": ...} or {"texts": [...]}, and options -> {"answers": [...]}
POST /RUN/VERB   the same, where there are several runs

Where the run reads pictures or sounds, what is asked about is a file, sent as {"data": BASE64, "name": NAME}.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew.core.errors import UserError, few_of
from clew.runs.loaded import Run
from clew.serving.answering import JSON, Gone, body_of, limit_encoding, named_apart, said, while_connected, wrong_method
from clew.serving.batching import Batcher
from clew.serving.calls import LONGEST_TEXT, Call, call_of
from clew.serving.guard import MOST_BYTES
from clew.serving.metrics import FAMILIES, Metrics
from clew.serving.profiles import Profile
from clew.serving.routes import described
from clew.serving.sent_files import MOST_BODY
from clew.serving.worker import Busy, Ended, Failed, Late, Worker, as_exception
from clew.text.patterns import TokenizerFault

log = logging.getLogger(__name__)

GONE = 499
"""Whoever asked went away; nobody reads this status but the counts."""
EVENTS, LINES = "text/event-stream", "application/x-ndjson"


class Service:
    """Runs by route. `trained` has the profile of each run's training data, by the run's name, where it is at hand."""

    def __init__(
        self,
        runs: Sequence[Run],
        worker: Worker,
        *,
        batch: int = 32,
        wait: float = 0.005,
        queue: int = 64,
        seconds: float = 60.0,
        longest: int = LONGEST_TEXT,
        version: str = "",
        debug: bool = False,
    ):
        self.version = version
        self.runs = named_apart(runs)
        self.names = {id(run): name for name, run in self.runs.items()}
        limit_encoding(self.runs.values())
        self.longest = longest
        self.debug = debug
        self.worker = worker
        self.batcher = Batcher(worker, batch=batch, wait=wait, queue=queue, seconds=seconds, saw=self.saw)
        self.metrics = Metrics(FAMILIES)
        self.profiles = {name: Profile() for name in self.runs}
        self.trained: dict[str, Profile] = {}
        self.routes: dict[str, tuple[Run, str]] = {}
        for name, run in self.runs.items():
            run.task.eval()  # for good: batches take turns, and none may leave this mode while another needs it
            for verb in run.uses:
                self.routes[f"/{verb}" if len(self.runs) == 1 else f"/{name.strip('/')}/{verb}"] = (run, verb)

    @property
    def most_bytes(self) -> int:
        """Of a request: more where files are sent."""
        return MOST_BODY if any(run.uses[verb].names_files for run, verb in self.routes.values()) else MOST_BYTES

    def app(self) -> Starlette:
        routes = [
            Route("/", self.index),
            Route("/health", self.health),
            Route("/metrics", self.counts),
            Route("/{path:path}", self.answer, methods=["GET", "POST"]),
        ]
        return Starlette(routes=routes, exception_handlers={404: self.missing, 405: wrong_method})

    async def index(self, request: Request) -> Response:
        return JSON(described(self.routes, self.version, self.most_bytes))

    def turned_away(self, status: int) -> None:
        """What the guard around this says of those whom it does not let in."""
        self.metrics.count("clew_refused_total", {"status": str(status)})

    def cut(self, why: str) -> None:
        """What a server says of connections that it ends."""
        self.metrics.count("clew_cut_total", {"why": why})

    async def health(self, request: Request) -> Response:
        runs = {name: {"task": run.config.task.name, "verbs": self.verbs_of(run)} for name, run in self.runs.items()}
        is_ready = self.worker.is_ready
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return JSON({"ready": is_ready, "version": self.version, "runs": runs}, int(status))

    def verbs_of(self, run: Run) -> list[str]:
        return [verb for each, verb in self.routes.values() if each is run]

    async def counts(self, request: Request) -> Response:
        self.metrics.put("clew_queue_length", {}, len(self.batcher.waiting))
        self.metrics.put("clew_streams", {}, self.batcher.streams)
        for profiles, of in ((self.profiles, "requests"), (self.trained, "training")):
            for name, profile in profiles.items():
                profile.put(self.metrics, name, of)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def missing(self, request: Request, error: Exception) -> Response:
        return said(HTTPStatus.NOT_FOUND, f"there is nothing at this address; known: {few_of(['/', '/health', '/metrics', *self.routes])}")

    async def answer(self, request: Request) -> Response:
        path = request.scope["path"]
        if path not in self.routes:
            return await self.missing(request, LookupError(path))
        if request.method != "POST":
            return await wrong_method(request, LookupError(path))
        run, verb = self.routes[path]
        began, labels = time.monotonic(), {"run": self.names[id(run)], "verb": verb}
        response = await self.answered(request, run, verb)
        if isinstance(response, Streamed):
            response.ended = lambda status: self.ended(labels, began, status)
        else:
            self.ended(labels, began, response.status_code)
        return response

    def ended(self, labels: Mapping[str, str], began: float, status: int) -> None:
        self.metrics.count("clew_requests_total", {**labels, "status": str(status)})
        if status >= 400:
            self.metrics.count("clew_errors_total", {**labels, "status": str(status)})
        self.metrics.observe("clew_request_seconds", labels, time.monotonic() - began)

    async def answered(self, request: Request, run: Run, verb: str) -> Response:
        """An answer, or the sentence that says why there is none."""
        try:
            call = call_of(run, verb, await body_of(request), self.longest)
            if call.is_stream:
                return await self.streamed(request, call)
            return JSON({"answers": call.told(await while_connected(request, self.batcher.answers(call)))})
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return self.refused(as_exception(error))

    async def streamed(self, request: Request, call: Call) -> "Streamed":
        """The first piece is waited for, so that what is wrong with a request has its status."""
        pieces = self.batcher.stream(call)
        first = await while_connected(request, anext(pieces, None))
        is_events = EVENTS in request.headers.get("accept", "")
        return Streamed(call.first_text, first, pieces, is_events, self.batcher.seconds, self.refused)

    def refused(self, error: Exception) -> JSON:
        for kind, status in STATUS.items():
            if isinstance(error, kind):
                response = said(HTTPStatus(status), str(error)) if status != GONE else JSON({"error": str(error)}, GONE)
                if status == HTTPStatus.SERVICE_UNAVAILABLE:
                    response.headers["retry-after"] = "1"
                return response
        if self.debug:
            log.error("a request failed", exc_info=error)
        sentence = f"this is a fault in clew: {type(error).__name__}; --debug shows where"
        if isinstance(error, Failed):
            sentence = f"{error} ended the work on this request, and the server goes on; ask with another text, or see where with --debug"
        return said(HTTPStatus.INTERNAL_SERVER_ERROR, sentence)

    def saw(self, call: Call, rows: Sequence[Any], answers: Sequence[Any] | None) -> None:
        """In the worker's thread: what was asked and told."""
        name = self.names[id(call.run)]
        profile = self.profiles[name]
        before = (profile.texts, profile.tokens, profile.unknown)
        profile.read(call.use, call.run, rows)
        for family, value, old in zip(READ, (profile.texts, profile.tokens, profile.unknown), before, strict=True):
            self.metrics.count(family, {"run": name}, value - old)
        if answers is not None:
            self.metrics.observe("clew_batch_texts", {"run": name, "verb": call.verb}, len(rows))
            if call.use is next(iter(call.run.uses.values())):
                for label, count in profile.told(call.use, call.run, answers).items():
                    self.metrics.count("clew_labels_total", {"run": name, "label": label}, count)


class Streamed(Response):
    """Pieces as they come: server-sent events, or a JSON object a line. The last has the whole text, or says what went wrong."""

    def __init__(self, prompt: str, first: str | None, pieces: AsyncIterator[str], is_events: bool, seconds: float, refused: Any):
        super().__init__(media_type=EVENTS if is_events else LINES)
        del self.headers["content-length"]
        self.prompt = prompt
        self.first = first
        self.pieces = pieces
        self.is_events = is_events
        self.seconds = seconds
        self.refused = refused
        self.ended: Any = lambda status: None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status = GONE
        try:
            with suppress(Gone):
                status = await while_connected(Request(scope, receive), self.send_all(send))
        finally:
            self.ended(status)

    async def send_all(self, send: Any) -> int:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        whole, status = self.first or "", 200
        last: dict[str, Any]
        try:
            async with aclosing(self.pieces):  # type: ignore[type-var]
                if self.first is not None:
                    await self.send_one(send, {"text": self.first})
                async for piece in self.pieces:
                    whole += piece
                    await self.send_one(send, {"text": piece})
            last = {"done": True, "prompt": self.prompt, "text": whole}
        except Exception as error:
            response = self.refused(error)
            last, status = {"done": True, **json.loads(response.body)}, response.status_code
        await self.send_one(send, last, more=False)
        return status

    async def send_one(self, send: Any, fields: Mapping[str, Any], *, more: bool = True) -> None:
        """A reader that takes nothing for too long is left alone."""
        line = json.dumps(fields)
        body = f"data: {line}\n\n" if self.is_events else f"{line}\n"
        async with asyncio.timeout(self.seconds):
            await send({"type": "http.response.body", "body": body.encode("ascii"), "more_body": more})


STATUS: dict[type[Exception], int] = {
    Gone: GONE,
    Busy: HTTPStatus.SERVICE_UNAVAILABLE,
    Ended: HTTPStatus.SERVICE_UNAVAILABLE,
    Late: HTTPStatus.GATEWAY_TIMEOUT,
    TokenizerFault: HTTPStatus.INTERNAL_SERVER_ERROR,
    UserError: HTTPStatus.BAD_REQUEST,
}
"""By the first kind that an error is of."""
READ = ("clew_texts_total", "clew_tokens_total", "clew_unknown_tokens_total")
