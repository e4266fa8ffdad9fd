"""Answers that are sent line by line, as they come. Knows no route."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from clew.serving.answering import Gone, while_connected

GONE = 499
"""Whoever asked went away; nobody reads this status but the counts."""
EVENTS, LINES = "text/event-stream", "application/x-ndjson"


class Flow(Response):
    """`lines` as they come, which leave in `status` what is to be counted; `ended` is called with that when all are sent, or nobody reads
    them any more."""

    def __init__(self, media_type: str, seconds: float):
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self.seconds = seconds
        self.status = 200
        self.ended: Any = lambda status: None

    def lines(self) -> AsyncGenerator[str, None]:
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status = GONE
        try:
            with suppress(Gone):
                await while_connected(Request(scope, receive), self.send_all(send))
                status = self.status
        finally:
            self.ended(status)

    async def send_all(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self.lines()) as lines:
            async for line in lines:
                await self.send_one(send, line, more=True)
                await asyncio.sleep(0)  # that the connection has ended is known only when the loop has had its turn
        await self.send_one(send, "", more=False)

    async def send_one(self, send: Any, line: str, *, more: bool) -> None:
        """A reader that takes nothing for too long is left alone."""
        async with asyncio.timeout(self.seconds):
            await send({"type": "http.response.body", "body": line.encode("ascii"), "more_body": more})
