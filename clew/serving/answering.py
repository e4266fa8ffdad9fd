"""How any server of ours speaks: JSON out, JSON in, one sentence for a mistake, and names for runs. Knows no route."""

import asyncio
import json
from collections.abc import Awaitable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from clew.core.errors import UserError
from clew.runs.loaded import Run
from clew.runs.names import run_names
from clew.serving.mistakes import mistake
from clew.text.tokenizer import Tokenizer

Value = TypeVar("Value")

ENCODING_SECONDS = 2.0
"""In which the texts of a row are cut into tokens; an ordinary tokenizer takes milliseconds."""


class JSON(JSONResponse):
    """In ASCII, so that whatever a text holds can be sent."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def said(status: HTTPStatus, sentence: str, **more: Any) -> JSON:
    return JSON({"error": sentence, **more}, int(status))


async def missing(request: Request, error: Exception) -> Response:
    return refusal(request, HTTPStatus.NOT_FOUND, "there is nothing at this address")


def refusal(request: Request, status: HTTPStatus, sentence: str) -> JSON:
    """A mistake, as the clients of the route that was asked read it."""
    return JSON(mistake(request.scope["path"], int(status), sentence), int(status))


async def wrong_method(request: Request, error: Exception) -> Response:
    other = "GET" if request.method == "POST" else "POST"
    return refusal(request, HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not understood here; ask by {other}")


async def body_of(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise UserError(f"what was posted is not JSON: {str(error)[:100]}") from None
    if not isinstance(found, dict):
        raise UserError("what is posted is an object with fields")
    return found


class Gone(Exception):
    """Whoever asked went away."""


async def while_connected(request: Request, answer: Awaitable[Value]) -> Value:
    """What is awaited; where whoever asked goes away it is cancelled, and has given back what it held when this ends."""
    job = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait((job, gone), return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            raise Gone("whoever asked has gone")
        return job.result()
    finally:
        for task in (job, gone):
            task.cancel()
        await asyncio.wait((job, gone))


async def disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def named_apart(runs: Sequence[Run]) -> dict[str, Run]:
    """By the names that they have beside each other; one that is given twice is one."""
    once = list({run.folder.resolve(): run for run in runs}.values())
    return dict(zip(run_names(once), once, strict=True))


def limit_encoding(runs: Iterable[Run]) -> None:
    """Bound the time of every tokenizer, of the runs and of what they read words with."""
    for vocabulary in (each for run in runs for each in run.vocabularies.values()):
        tokenizer = getattr(vocabulary, "tokenizer", vocabulary)
        if isinstance(tokenizer, Tokenizer):
            tokenizer.limit_time(ENCODING_SECONDS)
