"""Serves runs as a JSON API. Every error is one sentence, and requests are never stored.

GET  /           the routes, as an OpenAPI description
GET  /health     whether the server is ready, its runs, and its version
GET  /metrics    metrics for Prometheus
POST /VERB       a verb of the run's task: {"text": ...} or {"texts": [...]}, and options -> {"answers": [...]}
POST /RUN/VERB   the same, if there are several runs
/v1/...          routes for clients of OpenAI's API (`openai`)

If the run reads pictures or sounds, a row has a file in place of the text: {"data": BASE64, "name": NAME}.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from clew.core.errors import UserError, few_of
from clew.runs.loaded import Run
from clew.serving.answering import (
    JSON,
    Disconnected,
    error_response,
    json_body,
    limit_encoding,
    method_not_allowed,
    name_runs,
    route_error,
    while_connected,
)
from clew.serving.batching import Batcher
from clew.serving.calls import LONGEST_TEXT, Call, call_of
from clew.serving.flows import EVENTS, GONE, LINES, Flow
from clew.serving.guard import MOST_BYTES
from clew.serving.metrics import FAMILIES, Metrics
from clew.serving.openai.routes import MODELS, OpenAIRoutes
from clew.serving.profiles import Profile
from clew.serving.routes import openapi_description
from clew.serving.sent_files import MOST_BODY
from clew.serving.worker import Busy, Ended, Failed, Late, Worker, as_exception
from clew.serving.writing import Writer
from clew.text.patterns import TokenizerFault

log = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]

PREFIXES = 64 * 2**20
"""Bytes of each run's cache of common prompt prefixes."""


class Service:
    """The routes of runs. `training_profiles` maps names of runs to the profiles of their training data, if
    available."""

    def __init__(
        self,
        runs: Sequence[Run],
        worker: Worker,
        *,
        batch: int = 64,
        prefixes: int = PREFIXES,
        wait: float = 0.005,
        queue: int = 64,
        seconds: float = 60.0,
        longest: int = LONGEST_TEXT,
        templates: Path | None = None,
        version: str = "",
        debug: bool = False,
    ):
        self.version = version
        self.runs = name_runs(runs)
        self.names = {id(run): name for name, run in self.runs.items()}
        limit_encoding(self.runs.values())
        self.longest = longest
        self.debug = debug
        self.worker = worker
        self.batcher = Batcher(worker, batch=batch, wait=wait, queue=queue, seconds=seconds, observe=self.observe)
        self.writers: dict[tuple[int, str], Writer] = {}
        for run in self.runs.values():
            for verb, use in run.uses.items():
                if (joins := use.joins) is not None:
                    self.writers[id(run), verb] = Writer(
                        worker,
                        run.task,
                        joins,
                        rows=batch,
                        most_bytes=prefixes,
                        queue=queue,
                        seconds=seconds,
                        observe=self.observe,
                    )
        self.openai = OpenAIRoutes(self, templates)
        self.metrics = Metrics(FAMILIES)
        self.profiles = {name: Profile() for name in self.runs}
        self.training_profiles: dict[str, Profile] = {}
        self.routes: dict[str, tuple[Run, str]] = {}
        for name, run in self.runs.items():
            run.task.eval()  # permanently: batches interleave, so none may switch the mode
            for verb in run.uses:
                self.routes[f"/{verb}" if len(self.runs) == 1 else f"/{name.strip('/')}/{verb}"] = (run, verb)
        self.endpoints: dict[tuple[str, str], Endpoint] = {
            ("GET", "/"): self.index,
            ("GET", "/health"): self.health,
            ("GET", "/metrics"): self.counts,
            **self.openai.endpoints(),
            **{("POST", path): self.answer for path in self.routes},
        }

    @property
    def most_bytes(self) -> int:
        """The maximum size of a request; larger if a run reads files."""
        return MOST_BODY if any(run.uses[verb].names_files for run, verb in self.routes.values()) else MOST_BYTES

    @property
    def num_waiting(self) -> int:
        """The number of requests that have not started."""
        return len(self.batcher.waiting) + sum(writer.num_waiting for writer in self.writers.values())

    def app(self) -> Callable[..., Awaitable[None]]:
        """The ASGI application. It finds the endpoint in a dictionary: matching patterns takes as long as parsing a
        short request."""

        async def application(scope: Any, receive: Any, send: Any) -> None:
            request = Request(scope, receive)
            response = await self.endpoint(request.method, scope["path"])(request)
            await response(scope, receive, send)

        return application

    def endpoint(self, method: str, path: str) -> Endpoint:
        method = "GET" if method == "HEAD" else method
        if method == "GET" and path.startswith(MODELS):
            return self.openai.models
        return self.endpoints.get((method, path), self.refuse)

    async def index(self, request: Request) -> Response:
        return JSON(openapi_description(self.routes, self.version, self.most_bytes))

    def count_refusal(self, status: int) -> None:
        """Count a request that the guard refused."""
        self.metrics.count("clew_refused_total", {"status": str(status)})

    def count_closed(self, reason: str) -> None:
        """Count a connection that the server closed."""
        self.metrics.count("clew_cut_total", {"why": reason})

    async def health(self, request: Request) -> Response:
        runs = {name: {"task": run.config.task.name, "verbs": self.verbs_of(run)} for name, run in self.runs.items()}
        is_ready = self.worker.is_ready
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return JSON({"ready": is_ready, "version": self.version, "runs": runs}, int(status))

    def verbs_of(self, run: Run) -> list[str]:
        return [verb for each, verb in self.routes.values() if each is run]

    async def counts(self, request: Request) -> Response:
        self.metrics.put("clew_queue_length", {}, self.num_waiting)
        self.metrics.put("clew_prefix_bytes", {}, sum(writer.cached_bytes for writer in self.writers.values()))
        self.metrics.put(
            "clew_streams", {}, self.batcher.streams + sum(writer.streams for writer in self.writers.values())
        )
        for profiles, of in ((self.profiles, "requests"), (self.training_profiles, "training")):
            for name, profile in profiles.items():
                profile.put(self.metrics, name, of)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def refuse(self, request: Request) -> Response:
        path = request.scope["path"]
        if path in self.routes or path in self.openai.paths:
            return await method_not_allowed(request, LookupError(path))
        known = few_of(["/", "/health", "/metrics", *self.routes, *self.openai.paths])
        return route_error(request, HTTPStatus.NOT_FOUND, f"there is nothing at this address; known: {known}")

    async def answer(self, request: Request) -> Response:
        run, verb = self.routes[request.scope["path"]]
        return await self.counted(lambda: self.names[id(run)], verb, self.answered(request, run, verb))

    async def counted(self, run: Callable[[], str], verb: str, answer: Awaitable[Response]) -> Response:
        """Await the answer, and count its status and time under the run's name, which may be known only after the
        request was parsed."""
        began = time.monotonic()
        response = await answer
        labels = {"run": run(), "verb": verb}
        if isinstance(response, Flow):
            response.on_end = lambda status: self.count_request(labels, began, status)
        else:
            self.count_request(labels, began, response.status_code)
        return response

    def count_request(self, labels: Mapping[str, str], began: float, status: int) -> None:
        self.metrics.count("clew_requests_total", {**labels, "status": str(status)})
        if status >= 400:
            self.metrics.count("clew_errors_total", {**labels, "status": str(status)})
        self.metrics.observe("clew_request_seconds", labels, time.monotonic() - began)

    async def answered(self, request: Request, run: Run, verb: str) -> Response:
        """Return the answer, or its error as one sentence. The objects are those of `Use.objects`, which `--json`
        prints."""
        try:
            call = call_of(run, verb, await json_body(request), self.longest)
            if call.is_stream:
                return await self.streamed(request, call)
            answers = await while_connected(request, self.answerer(call).answers(call))
            return JSON({"answers": call.objects(answers)})
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return self.error_response(as_exception(error))

    def answerer(self, call: Call) -> Batcher | Writer:
        """Return the running batch if the call's rows can join it; otherwise the batcher, which groups requests with
        equal options."""
        return self.writers[id(call.run), call.verb] if call.joins else self.batcher

    async def streamed(self, request: Request, call: Call) -> "Streamed":
        """Return a streamed answer. The first piece is awaited, so that an invalid request gets its own status."""
        pieces = self.answerer(call).stream(call)
        first = await while_connected(request, anext(pieces, None))
        is_events = EVENTS in request.headers.get("accept", "")
        return Streamed(call.first_text, first, pieces, is_events, self.batcher.seconds, self.error_response)

    def error_response(self, error: Exception) -> JSON:
        for kind, status in STATUS.items():
            if isinstance(error, kind):
                if status == GONE:
                    return JSON({"error": str(error)}, GONE)
                response = error_response(HTTPStatus(status), str(error))
                if status == HTTPStatus.SERVICE_UNAVAILABLE:
                    response.headers["retry-after"] = "1"
                return response
        if self.debug:
            log.error("a request failed", exc_info=error)
        sentence = f"this is a bug in clew: {type(error).__name__}; restart with --debug to see where"
        if isinstance(error, Failed):
            sentence = f"{error} ended the work on this request; try another text, or restart with --debug to see where"
        return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, sentence)

    def observe(self, call: Call, rows: Sequence[Any], answers: Sequence[Any] | None, together: int = 0) -> None:
        """Count rows and answers; called in the worker's thread. `together` is the size of the running batch."""
        name = self.names[id(call.run)]
        profile = self.profiles[name]
        before = (profile.texts, profile.tokens, profile.unknown)
        profile.add_rows(call.use, call.run, rows)
        for family, value, previous in zip(READ, (profile.texts, profile.tokens, profile.unknown), before, strict=True):
            self.metrics.count(family, {"run": name}, value - previous)
        if answers is not None:
            self.metrics.observe("clew_batch_texts", {"run": name, "verb": call.verb}, max(together, len(rows)))
            if call.use is next(iter(call.run.uses.values())):
                for label, count in profile.add_answers(call.use, call.run, answers).items():
                    self.metrics.count("clew_labels_total", {"run": name, "label": label}, count)


class Streamed(Flow):
    """Pieces of a text as server-sent events, or as one JSON object per line. The last has the whole text or the
    error."""

    def __init__(
        self,
        prompt: str,
        first: str | None,
        pieces: AsyncIterator[str],
        is_events: bool,
        seconds: float,
        error_response: Callable[[Exception], JSON],
    ):
        super().__init__(EVENTS if is_events else LINES, seconds)
        self.prompt = prompt
        self.first = first
        self.pieces = pieces
        self.is_events = is_events
        self.error_response = error_response

    async def lines(self) -> AsyncGenerator[str, None]:
        whole = self.first or ""
        last: dict[str, Any]
        try:
            async with aclosing(self.pieces):  # type: ignore[type-var]
                if self.first is not None:
                    yield self.line({"text": self.first})
                async for piece in self.pieces:
                    whole += piece
                    yield self.line({"text": piece})
            last = {"done": True, "prompt": self.prompt, "text": whole}
        except Exception as error:
            response = self.error_response(error)
            last, self.status = {"done": True, **json.loads(bytes(response.body))}, response.status_code
        yield self.line(last)

    def line(self, fields: Mapping[str, Any]) -> str:
        line = json.dumps(fields)
        return f"data: {line}\n\n" if self.is_events else f"{line}\n"


STATUS: dict[type[Exception], int] = {
    Disconnected: GONE,
    Busy: HTTPStatus.SERVICE_UNAVAILABLE,
    Ended: HTTPStatus.SERVICE_UNAVAILABLE,
    Late: HTTPStatus.GATEWAY_TIMEOUT,
    TokenizerFault: HTTPStatus.INTERNAL_SERVER_ERROR,
    UserError: HTTPStatus.BAD_REQUEST,
}
"""The status of an error, by the first type that matches."""
READ = ("clew_texts_total", "clew_tokens_total", "clew_unknown_tokens_total")
