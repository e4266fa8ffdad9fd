"""Ports: the first that is free, or the one that was asked for and no other. And how a server ends: what is under way
is answered, or given up."""

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


def ended_while_asked(answer: Any, at: socket.socket, **options: Any) -> tuple[int | None, list[int | str]]:
    """A server that is told to end by the one request that it gets: what it gives back, and the status that the client
    saw."""
    seen: list[int | str] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{at.getsockname()[1]}/", timeout=30) as response:
                seen.append(response.status)
        except urllib.error.HTTPError as error:
            seen.append(error.code)
        except OSError as error:
            seen.append(type(error).__name__)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        status = await answer()
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    client = threading.Thread(target=ask)
    number = serve(app, at, client.start, **options)
    client.join(30)
    return number, seen


@needs_signals
def test_what_is_under_way_has_time_to_end() -> None:
    async def soon() -> int:
        await asyncio.sleep(0.1)
        return 200

    with listen(0) as at:
        assert ended_while_asked(soon, at, grace=20.0) == (signal.SIGTERM, [200])


@needs_signals
def test_who_waits_longer_is_told_so() -> None:
    given_up: list[asyncio.Event] = []

    async def late() -> int:
        given_up.append(asyncio.Event())
        await given_up[0].wait()
        return 503

    with listen(0) as at:
        assert ended_while_asked(late, at, grace=0.05, give_up=lambda: given_up[0].set()) == (signal.SIGTERM, [503])


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UserError, match="'203.0.113.7' is not an address of this machine"):
        listen(0, "203.0.113.7")


def test_a_port_that_is_taken_is_passed_over_where_none_was_asked_for() -> None:
    with listen() as first, listen() as second:
        assert first.getsockname()[0] == HOST
        assert first.getsockname()[1] != second.getsockname()[1] and second.getsockname()[1] >= FIRST_PORT


def test_a_port_that_was_asked_for_and_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} is in use; choose another with --port, or leave it out"):
            listen(port)


def test_without_a_free_port_one_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken(socket.socket):
        def bind(self, address: Any) -> None:
            raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(socket, "socket", Taken)
    with pytest.raises(UserError, match="there is no free port; close another program, or choose one with --port"):
        listen()


@pytest.mark.parametrize("port", [-1, 65536, 10**9])
def test_what_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(UserError, match=f"a port must be between 0 and 65535, not {port}"):
        listen(port)
