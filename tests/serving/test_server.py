"""The choice of a port, and the shutdown of a server: running requests are answered or abandoned."""

import asyncio
import errno
import os
import signal
import socket
import sys
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.serving.server import FIRST_PORT, HOST, listen, serve

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")


def shut_down_during_request(
    answer: Any, bound_socket: socket.socket, **options: Any
) -> tuple[int | None, list[int | str]]:
    """Run a server that receives SIGTERM during its only request; return the signal, and the status that the client
    received."""
    statuses: list[int | str] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{bound_socket.getsockname()[1]}/", timeout=30) as response:
                statuses.append(response.status)
        except urllib.error.HTTPError as error:
            statuses.append(error.code)
        except OSError as error:
            statuses.append(type(error).__name__)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        status = await answer()
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    client = threading.Thread(target=ask)
    number = serve(app, bound_socket, client.start, **options)
    client.join(30)
    return number, statuses


@needs_signals
def test_a_running_request_has_time_to_end() -> None:
    async def soon() -> int:
        await asyncio.sleep(0.1)
        return 200

    with listen(0) as bound_socket:
        assert shut_down_during_request(soon, bound_socket, grace=20.0) == (signal.SIGTERM, [200])


@needs_signals
def test_a_request_beyond_the_grace_period_is_abandoned() -> None:
    abandoned: list[asyncio.Event] = []

    async def late() -> int:
        abandoned.append(asyncio.Event())
        await abandoned[0].wait()
        return 503

    with listen(0) as bound_socket:
        assert shut_down_during_request(late, bound_socket, grace=0.05, give_up=lambda: abandoned[0].set()) == (
            signal.SIGTERM,
            [503],
        )


def test_an_address_of_another_machine_is_rejected() -> None:
    with pytest.raises(UserError, match="'203.0.113.7' is not an address of this machine"):
        listen(0, "203.0.113.7")


def test_occupied_ports_are_skipped_by_default() -> None:
    with listen() as first, listen() as second:
        assert first.getsockname()[0] == HOST
        assert first.getsockname()[1] != second.getsockname()[1] and second.getsockname()[1] >= FIRST_PORT


def test_an_occupied_port_is_rejected_if_requested() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} is in use; choose another with --port, or leave it out"):
            listen(port)


def test_the_error_without_a_free_port_suggests_to_choose_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken(socket.socket):
        def bind(self, address: Any) -> None:
            raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(socket, "socket", Taken)
    with pytest.raises(UserError, match="there is no free port; close another program, or choose one with --port"):
        listen()


@pytest.mark.parametrize("port", [-1, 65536, 10**9])
def test_invalid_ports_are_rejected(port: int) -> None:
    with pytest.raises(UserError, match=f"a port must be between 0 and 65535, not {port}"):
        listen(port)
