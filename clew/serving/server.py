"""A local server: a free port, limits of connections, and a bounded shutdown. Knows no run."""

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
"""Seconds for sending errors to abandoned requests at shutdown."""


def listen(port: int | None = None, host: str = HOST) -> socket.socket:
    """A listening socket at `port`, or at the first free one."""
    if port is not None and not 0 <= port <= 65535:
        raise UserError(f"a port must be between 0 and 65535, not {port}")
    tried = range(FIRST_PORT, FIRST_PORT + PORTS_TRIED) if port is None else [port]
    for each in (*tried, *([0] if port is None else [])):
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, each))
            sock.listen(128)
            return sock
        except OSError as error:
            sock.close()
            if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
                raise UserError(
                    f"{shown(host)} is not an address of this machine; use 127.0.0.1 for local access, or 0.0.0.0 for"
                    " all its addresses"
                ) from None
            if port is None and error.errno in (errno.EADDRINUSE, errno.EACCES):
                continue
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
            raise UserError(f"port {each} {reason}; choose another with --port, or leave it out") from None
    raise UserError("there is no free port; close another program, or choose one with --port")


class Server(uvicorn.Server):
    """uvicorn's server without its signal handlers; `serve` has its own."""

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
    """Serve until Ctrl-C or SIGTERM, and return the signal's number. Running requests then have `grace` seconds to
    finish, or until a second signal; `give_up` then sends errors to the rest, and what is left is dropped.
    `connections` has the limits of connections."""
    connections = connections or Connections(most_connections())
    config = uvicorn.Config(
        app,
        http=partial(Connection, connections=connections),  # type: ignore[arg-type]
        backlog=AT_ONCE,  # the others wait in the system's queue of LONGEST_BACKLOG
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,  # requests cut off at shutdown are not errors
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the client is the one that connects, whatever headers say
        timeout_keep_alive=int(connections.idle) + 1,  # our connections close themselves before
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

        before = {
            number: signal.signal(number, lambda number, _: loop.call_soon_threadsafe(end, number)) for number in ENDING
        }
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
