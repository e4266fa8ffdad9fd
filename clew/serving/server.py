"""A local server: finds a free port, limits connections, and shuts down in bounded time. Knows no run."""

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
from clew.core.wording import in_json, worded
from clew.serving.connections import AT_ONCE, LONGEST_BACKLOG, Connection, Connections, most_connections

HOST = "127.0.0.1"
FIRST_PORT, PORTS_TRIED = 8765, 40
ERROR_SECONDS = 0.5
"""Seconds for sending errors to abandoned requests at shutdown."""


def listen(port: int | None = None, host: str = HOST) -> socket.socket:
    """Return a listening socket at `port`, or at the first free port."""
    if port is not None and not 0 <= port <= 65535:
        raise UserError(f"a port must be between 0 and 65535, not {port}")
    ports = range(FIRST_PORT, FIRST_PORT + PORTS_TRIED) if port is None else [port]
    for each in (*ports, *([0] if port is None else [])):
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
    sock: socket.socket,
    ready: Callable[[], Any] = lambda: None,
    *,
    grace: float = 0.0,
    give_up: Callable[[], Any] = lambda: None,
    connections: Connections | None = None,
) -> int | None:
    """Serve until Ctrl-C or SIGTERM, and return the signal's number.

    Running requests then have `grace` seconds to finish, or until a second signal. After that, `give_up` sends errors
    to the others, and unanswered requests are dropped. `connections` holds the limits on connections.
    """
    connections = connections or Connections(most_connections())
    config = uvicorn.Config(
        app,
        http=partial(Connection, connections=connections),  # type: ignore[arg-type]
        backlog=AT_ONCE,  # further connections wait in the system's queue of LONGEST_BACKLOG
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level=logging.CRITICAL,  # requests that are dropped at shutdown are not errors
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the client is whoever connects, whatever the headers say
        timeout_keep_alive=int(connections.idle) + 1,  # our connections close themselves earlier
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

        previous_handlers = {
            number: signal.signal(number, lambda number, _: loop.call_soon_threadsafe(end, number)) for number in ENDING
        }
        running = asyncio.ensure_future(server.serve([sock]))
        try:
            while not server.started and not running.done():
                await asyncio.sleep(0.01)
            if server.started:
                sock.listen(LONGEST_BACKLOG)
            ready()
            await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
            if grace and ended.done():
                server.should_exit = True
                second_signal = asyncio.ensure_future(again.wait())
                await asyncio.wait((running, second_signal), timeout=grace, return_when=asyncio.FIRST_COMPLETED)
                give_up()
                await asyncio.wait((running,), timeout=ERROR_SECONDS)
            return ended.result() if ended.done() else None
        finally:
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)
            running.cancel()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    with worded(in_json):
        return asyncio.run(until_ended())


ENDING = (signal.SIGINT, signal.SIGTERM)
