"""A server on this machine's own address: a free port, connections that nobody can hold for ever, and an end that waits for nobody.
Knows no run."""

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import uvicorn

from clew.core.errors import UserError, shown
from clew.serving.connections import AT_ONCE, LONGEST_BACKLOG, Connection, Connections, most_connections

HOST = "127.0.0.1"
FIRST_PORT, PORTS_TRIED = 8765, 40
LAST_WORDS = 0.5
"""Seconds in which those who are given up are told so."""


def listen(port: int | None = None, host: str = HOST) -> socket.socket:
    """A socket at a port, or at the first one that is free."""
    if port is not None and not 0 <= port <= 65535:
        raise UserError(f"a port is between 0 and 65535, not {port}")
    tried = range(FIRST_PORT, FIRST_PORT + PORTS_TRIED) if port is None else [port]
    for each in (*tried, *([0] if port is None else [])):
        found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind((host, each))
            found.listen(128)
            return found
        except OSError as error:
            found.close()
            if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
                raise UserError(f"{shown(host)} is no address of this machine; 127.0.0.1 is its own, 0.0.0.0 all that it has") from None
            if port is None and error.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be had ({error.strerror})"
            raise UserError(f"port {each} {reason}; choose another with --port, or leave it out") from None
    raise UserError("there is no free port")


class Server(uvicorn.Server):
    """Leaves signals alone: `serve` has its own way of ending."""

    def capture_signals(self) -> Any:
        return nullcontext()


def serve(
    app: Any,
    at: socket.socket,
    ready: Callable[[], Any] = lambda: None,
    *,
    grace: float = 0.0,
    give_up: Callable[[], Any] = lambda: None,
    connections: Connections | None = None,
) -> int | None:
    """Answers until Ctrl-C or SIGTERM, whose number is given back. What is under way then has `grace` seconds to end, or until the signal
    comes again; `give_up` then tells those who still wait, and what is left is dropped. `connections` has their limits."""
    connections = connections or Connections(most_connections())
    config = uvicorn.Config(
        app,
        http=partial(Connection, connections=connections),  # type: ignore[arg-type]
        backlog=AT_ONCE,  # those that wait longer stay with the system, which holds LONGEST_BACKLOG
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,  # requests that are cut off at the end are no errors
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who asks is who connects, whatever is said
        timeout_keep_alive=int(connections.idle) + 1,  # a connection has ended itself before
    )
    server = Server(config)

    async def until_ended() -> int | None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()

        again = asyncio.Event()

        def end(number: int) -> None:
            if ended.done():
                again.set()
            else:
                ended.set_result(number)

        before = {number: signal.signal(number, lambda number, _: loop.call_soon_threadsafe(end, number)) for number in ENDING}
        running = asyncio.ensure_future(server.serve([at]))
        try:
            while not server.started and not running.done():
                await asyncio.sleep(0.01)
            if server.started:
                at.listen(LONGEST_BACKLOG)
            ready()
            await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
            if grace and ended.done():
                server.should_exit = True
                hurry = asyncio.ensure_future(again.wait())
                await asyncio.wait((running, hurry), timeout=grace, return_when=asyncio.FIRST_COMPLETED)
                give_up()
                await asyncio.wait((running,), timeout=LAST_WORDS)
            return ended.result() if ended.done() else None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            running.cancel()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    return asyncio.run(until_ended())


ENDING = (signal.SIGINT, signal.SIGTERM)
