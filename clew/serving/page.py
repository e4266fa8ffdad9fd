"""The page that looks inside runs: its files, and the JSON for its scripts. Every error is one sentence.

GET  /                    the page
GET  /static/NAME         its scripts and styles
GET  /api/runs            the runs and instruments
POST /api/look/NAME       an instrument's view: title, about, html, facts; for several columns, `views`
POST /api/save/NAME       the same as a file
POST /api/step            the next token's distribution, after those chosen so far
POST /api/files           upload a picture or a sound in base64; it stays in memory, and other requests use its id
GET  /api/files/ID        its description; /api/files/ID/content its bytes
"""

import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clew.core.errors import UserError, unknown
from clew.drawing.pages import script, stylesheet
from clew.runs.settings.explaining import read_section
from clew.serving.answering import (
    JSON,
    Disconnected,
    error_response,
    json_body,
    method_not_allowed,
    not_found,
    while_connected,
)
from clew.serving.inspector import (
    QUICK_SECONDS,
    FileRequest,
    Inspector,
    LookRequest,
    PageRequest,
    StepRequest,
    UploadRequest,
)
from clew.serving.worker import Busy, Ended, Failed, Superseded, Worker

log = logging.getLogger(__name__)

KINDS = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "json": "application/json",
}
DESCRIBING_SECONDS = 60.0
FILES = {"html": "text/html", "svg": "image/svg+xml", "json": "application/json"}


def page_app(inspector: Inspector, worker: Worker, *, debug: bool = False) -> Starlette:
    """The page's application, without a guard."""
    answers = Answers(inspector, worker, debug)
    routes = [
        Route("/", answers.file),
        Route("/static/{name}", answers.file),
        Route("/api/runs", answers.runs),
        Route("/api/look/{name}", answers.look, methods=["POST"]),
        Route("/api/save/{name}", answers.save, methods=["POST"]),
        Route("/api/step", answers.step, methods=["POST"]),
        Route("/api/files", answers.upload, methods=["POST"]),
        Route("/api/files/{id}", answers.held),
        Route("/api/files/{id}/content", answers.content),
    ]
    return Starlette(routes=routes, exception_handlers={404: not_found, 405: method_not_allowed})


class Answers:
    """The endpoints, one method per route."""

    def __init__(self, inspector: Inspector, worker: Worker, debug: bool):
        self.inspector = inspector
        self.worker = worker
        self.debug = debug
        self.files = static_files()

    async def file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in self.files:
            return error_response(HTTPStatus.NOT_FOUND, "there is no such file")
        return Response(self.files[name], media_type=KINDS[name.rpartition(".")[2]])

    async def runs(self, request: Request) -> Response:
        return await self.respond(lambda: self.answer(request, None, self.inspector.describe, DESCRIBING_SECONDS))

    async def look(self, request: Request) -> Response:
        name = request.path_params["name"]

        async def ask() -> Response:
            body = read_section(LookRequest, await json_body(request))
            return await self.answer(
                request, body, lambda: self.inspector.look(name, body), self.inspector.seconds(name)
            )

        return await self.respond(ask)

    async def save(self, request: Request) -> Response:
        name = request.path_params["name"]

        async def ask() -> Response:
            body = read_section(FileRequest, await json_body(request))
            if body.format not in FILES:
                raise unknown("format", body.format, FILES)
            content = await self.run_work(
                request, body, lambda: self.inspector.file(name, body), self.inspector.seconds(name)
            )
            shown = {"content-disposition": f'attachment; filename="{name}.{body.format}"'}
            return Response(content.encode("utf-8", "replace"), media_type=FILES[body.format], headers=shown)

        return await self.respond(ask)

    async def step(self, request: Request) -> Response:
        async def ask() -> Response:
            body = read_section(StepRequest, await json_body(request))
            return await self.answer(request, body, lambda: self.inspector.step(body), QUICK_SECONDS)

        return await self.respond(ask)

    async def upload(self, request: Request) -> Response:
        async def ask() -> Response:
            body = read_section(UploadRequest, await json_body(request))
            return await self.answer(request, body, lambda: self.inspector.upload(body), QUICK_SECONDS)

        return await self.respond(ask)

    async def held(self, request: Request) -> Response:
        async def ask() -> Response:
            return JSON(self.inspector.files.find(request.path_params["id"])[1])

        return await self.respond(ask)

    async def content(self, request: Request) -> Response:
        """The bytes of a file, never in a form that a browser would display by itself."""

        async def ask() -> Response:
            file, _ = self.inspector.files.find(request.path_params["id"])
            return Response(
                file.data, media_type="application/octet-stream", headers={"content-disposition": "attachment"}
            )

        return await self.respond(ask)

    async def answer(
        self, request: Request, body: PageRequest | None, work: Callable[[], Any], seconds: float
    ) -> Response:
        began = time.perf_counter()
        result = await self.run_work(request, body, work, seconds)
        return JSON({**result, "seconds": round(time.perf_counter() - began, 4)})

    async def run_work(
        self, request: Request, body: PageRequest | None, work: Callable[[], Any], seconds: float
    ) -> Any:
        """The result of `work`, run by the worker; cancelled if the client disconnects."""
        key = (body.client, body.place) if body is not None and body.client else None
        return await while_connected(request, self.worker.do(work, key, seconds, 0 if body is None else body.number))

    async def respond(self, ask: Callable[[], Any]) -> Response:
        """The answer, or its error as one sentence."""
        try:
            return await ask()
        except Superseded as error:
            return error_response(HTTPStatus.CONFLICT, str(error), superseded=True)
        except (Disconnected, Ended, Busy) as error:
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except UserError as error:
            return error_response(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except Exception as error:
            if self.debug:
                log.exception("a request failed")
            if isinstance(error, Failed):
                sentence = (
                    f"{error} ended the work on this view; try another text, or restart with --debug to see where"
                )
                return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, sentence)
            sentence = " ".join(f"{type(error).__name__}: {error}".split())
            return error_response(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"this is a bug in clew: {sentence[:300]}; restart with --debug to see where",
            )


def static_files() -> Mapping[str, bytes]:
    """The page's files by name; no other file can be requested."""
    contents = {each.name: each.read_bytes() for each in (files("clew.serving") / "static").iterdir() if each.is_file()}
    return contents | {"view.css": stylesheet().encode(), "view.js": script().encode()}
