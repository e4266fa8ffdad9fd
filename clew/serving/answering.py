"""Requests and answers shared by our servers: JSON in and out, one sentence per error, and names for runs. Knows no
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
from clew.serving.mistakes import mistake
from clew.text.tokenizer import Tokenizer

Value = TypeVar("Value")

ENCODING_SECONDS = 2.0
"""The time limit for tokenizing the texts of a row; an ordinary tokenizer takes milliseconds."""


class JSON(JSONResponse):
    """JSON in ASCII, so that any text can be sent, lone surrogates included."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def said(status: HTTPStatus, sentence: str, **more: Any) -> JSON:
    return JSON({"error": sentence, **more}, int(status))


async def missing(request: Request, error: Exception) -> Response:
    return refusal(request, HTTPStatus.NOT_FOUND, "there is nothing at this address")


def refusal(request: Request, status: HTTPStatus, sentence: str) -> JSON:
    """An error in the form that clients of the requested route expect."""
    return JSON(mistake(request.scope["path"], int(status), sentence), int(status))


async def wrong_method(request: Request, error: Exception) -> Response:
    other = "GET" if request.method == "POST" else "POST"
    return refusal(request, HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not supported here; use {other}")


async def body_of(request: Request) -> dict[str, Any]:
    try:
        fields = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise UserError(f"the request body is not valid JSON ({str(error)[:100]}); send a JSON object") from None
    if not isinstance(fields, dict):
        raise UserError("the request body must be a JSON object with fields")
    return fields


class Gone(Exception):
    """The client disconnected."""


async def while_connected(request: Request, answer: Awaitable[Value]) -> Value:
    """Await `answer`, and cancel it if the client disconnects. On return it has released everything it held."""
    job = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait((job, gone), return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise Gone("the client disconnected")
        return job.result()
    finally:
        for task in (job, gone):
            task.cancel()
        await asyncio.wait((job, gone))


async def disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def named_apart(runs: Sequence[Run]) -> dict[str, Run]:
    """Map unambiguous names to runs; duplicates are dropped."""
    once = list({run.folder.resolve(): run for run in runs}.values())
    return dict(zip(run_names(once), once, strict=True))


def limit_encoding(runs: Iterable[Run]) -> None:
    """Limit the time of every tokenizer of the runs, context tokenizers included."""
    for vocabulary in (each for run in runs for each in run.vocabularies.values()):
        tokenizer = getattr(vocabulary, "tokenizer", vocabulary)
        if isinstance(tokenizer, Tokenizer):
            tokenizer.limit_time(ENCODING_SECONDS)
