"""Responses that are streamed line by line. Knows no route."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from clew.serving.answering import Disconnected, while_connected

GONE = 499
"""The status of a request whose client disconnected; only metrics read it."""
EVENTS, LINES = "text/event-stream", "application/x-ndjson"


class Flow(Response):
    """A response that streams `lines`, which may set `status` for the metrics. `on_end(status)` is called when all
    lines are sent or the client disconnects."""

    def __init__(self, media_type: str, seconds: float):
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self.seconds = seconds
        self.status = 200
        self.on_end: Any = lambda status: None

    def lines(self) -> AsyncGenerator[str, None]:
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status = GONE
        try:
            with suppress(Disconnected):
                await while_connected(Request(scope, receive), self.send_all(send))
                status = self.status
        finally:
            self.on_end(status)

    async def send_all(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self.lines()) as lines:
            async for line in lines:
                await self.send_one(send, line, more=True)
                await asyncio.sleep(0)  # a disconnect is noticed only when the event loop runs
        await self.send_one(send, "", more=False)

    async def send_one(self, send: Any, line: str, *, more: bool) -> None:
        """Send one line; a client that reads nothing for too long times out."""
        async with asyncio.timeout(self.seconds):
            await send({"type": "http.response.body", "body": line.encode("ascii"), "more_body": more})
