"""Shared by both servers: JSON requests and responses, error responses of one sentence, and names for runs. Knows no
route."""

import asyncio
import json
from collections.abc import Awaitable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from clew.core.errors import UserError
from clew.runs.folder.names import run_names
from clew.runs.loaded import Run
from clew.serving.mistakes import error_object
from clew.text.tokenizer import Tokenizer

Value = TypeVar("Value")

ENCODING_SECONDS = 2.0
"""The time limit for tokenizing the texts of a row; an ordinary tokenizer takes milliseconds."""


class JSON(JSONResponse):
    """JSON in ASCII, so that any text can be sent, lone surrogates included."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def error_response(status: HTTPStatus, sentence: str, **more: Any) -> JSON:
    return JSON({"error": sentence, **more}, int(status))


async def not_found(request: Request, error: Exception) -> Response:
    return route_error(request, HTTPStatus.NOT_FOUND, "there is nothing at this address")


def route_error(request: Request, status: HTTPStatus, sentence: str) -> JSON:
    """An error in the form that clients of the requested route expect."""
    return JSON(error_object(request.scope["path"], int(status), sentence), int(status))


async def method_not_allowed(request: Request, error: Exception) -> Response:
    method = "GET" if request.method == "POST" else "POST"
    return route_error(request, HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not supported here; use {method}")


async def json_body(request: Request) -> dict[str, Any]:
    try:
        fields = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise UserError(f"the request body is not valid JSON ({str(error)[:100]}); send a JSON object") from None
    if not isinstance(fields, dict):
        raise UserError("the request body must be a JSON object with fields")
    return fields


class Disconnected(Exception):
    """The client disconnected."""


async def while_connected(request: Request, answer: Awaitable[Value]) -> Value:
    """Await `answer`, and cancel it if the client disconnects. On return it has released everything it held."""
    task = asyncio.ensure_future(answer)
    disconnect = asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait((task, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Disconnected("the client disconnected")
        return task.result()
    finally:
        for each in (task, disconnect):
            each.cancel()
        await asyncio.wait((task, disconnect))


async def disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def name_runs(runs: Sequence[Run]) -> dict[str, Run]:
    """Map unambiguous names to runs; duplicates are dropped."""
    unique = list({run.folder.resolve(): run for run in runs}.values())
    return dict(zip(run_names(unique), unique, strict=True))


def limit_encoding(runs: Iterable[Run]) -> None:
    """Limit the time of every tokenizer of the runs, context tokenizers included."""
    for vocabulary in (each for run in runs for each in run.vocabularies.values()):
        tokenizer = getattr(vocabulary, "tokenizer", vocabulary)
        if isinstance(tokenizer, Tokenizer):
            tokenizer.limit_time(ENCODING_SECONDS)
