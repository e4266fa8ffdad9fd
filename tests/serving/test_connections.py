"""Limits of connections: how long each may last, and which are closed when there are too many."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from clew.serving.connections import Connection, Connections, Stage, address_of
from clew.serving.guard import Guard
from clew.serving.server import listen

HALF = b"POST /echo HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"] * (1 if scope["path"] != "/large" else 10_000_000)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]}
    )
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(connections: Connections, app: Any = echo) -> Iterator[int]:
    """Serve in a thread with these limits; yield the port."""
    bound_socket = listen(0)
    options: dict[str, Any] = {
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "log_level": "critical",
        "access_log": False,
    }
    config = uvicorn.Config(
        Guard(app), http=lambda **options: Connection(connections=connections, **options), **options
    )  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([bound_socket])))
    thread.start()
    while not server.started:
        time.sleep(0.001)
    try:
        yield bound_socket.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(20)
        bound_socket.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def request_of(body: bytes, path: str = "/echo") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length:"
        f" {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def ask(bound: socket.socket, body: bytes = b'"here"') -> bytes:
    bound.sendall(request_of(body))
    return read_to(bound, body)


def read_to(bound: socket.socket, end: bytes) -> bytes:
    received = b""
    while not received.endswith(end):
        part = bound.recv(65536)
        if not part:
            raise ConnectionError("the server closed")
        received += part
    return received


def is_closed(bound: socket.socket, seconds: float = 20.0) -> bool:
    """Whether the server closes the connection within this time."""
    bound.settimeout(seconds)
    try:
        while bound.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_an_incomplete_request_head_is_closed_after_a_time_limit() -> None:
    closed: list[str] = []
    with (
        served(Connections(head=0.3, on_close=closed.append)) as port,
        connect(port) as silent,
        connect(port) as slow,
        connect(port) as half,
    ):
        half.sendall(HALF)
        began = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() < began + 20:
                slow.sendall(b"x")
                time.sleep(0.02)
        assert is_closed(silent)
        half.settimeout(20)
        answer = half.recv(65536)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"did not arrive within 0.3 seconds" in answer
        with connect(port) as honest:
            assert b"200" in ask(honest)
    assert closed.count("head") == 3


def test_the_limits_for_head_and_idle_time_do_not_end_a_slow_request() -> None:
    with served(Connections(head=0.2, idle=0.2)) as port, connect(port) as client:
        whole = request_of(b'"slowly"')
        client.sendall(whole[:-4])
        time.sleep(0.6)
        client.sendall(whole[-4:])
        assert b"HTTP/1.1 200" in read_to(client, b'"slowly"')


def test_an_idle_connection_is_closed_after_a_time_limit() -> None:
    with served(Connections(head=0.1, idle=0.5)) as port, connect(port) as client:
        ask(client)
        time.sleep(0.3)
        ask(client)
        assert is_closed(client)


def test_the_head_of_a_later_request_has_a_time_limit() -> None:
    with served(Connections(head=0.2, idle=60.0)) as port, connect(port) as client:
        ask(client)
        client.sendall(HALF)
        assert is_closed(client, 10.0)


def test_an_answer_that_nobody_reads_is_abandoned() -> None:
    closed: list[str] = []
    with served(Connections(stall=0.3, on_close=closed.append)) as port, connect(port) as client:
        client.sendall(request_of(b'"x"', "/large"))
        until = time.monotonic() + 20
        while "stall" not in closed and time.monotonic() < until:
            time.sleep(0.01)
    assert closed == ["stall"]


def test_slow_clients_do_not_block_honest_ones() -> None:
    """Sixty incomplete heads compete for twenty connections, from the same address as the honest clients, which connect
    before and between them."""
    closed: list[str] = []
    connections = Connections(20, head=30.0, on_close=closed.append)
    with served(connections) as port:
        slow = []
        honest = [connect(port) for _ in range(4)]
        for number in range(60):
            slow.append(connect(port))
            slow[-1].sendall(HALF)
            if number % 10 == 9:
                for client in honest:
                    assert b"200" in ask(client, json.dumps(number).encode())
                with connect(port) as new:
                    assert b"200" in ask(new)
        assert connections.count <= 20
        assert sum(is_closed(each, 0.05) for each in slow) >= 60 - 20
        for client in (*slow, *honest):
            client.close()
    assert set(closed) == {"room"}


def test_a_client_is_rejected_while_all_connections_are_being_answered() -> None:
    release = threading.Event()

    async def wait_for_release(scope: Any, receive: Any, send: Any) -> None:
        while not release.is_set():
            await asyncio.sleep(0.01)
        await echo(scope, receive, send)

    connections = Connections(2)
    with served(connections, wait_for_release) as port, connect(port) as first, connect(port) as second:
        for client in (first, second):
            client.sendall(request_of(b'"x"'))
        until = time.monotonic() + 20
        while [each.stage for each in connections.by_address.get("127.0.0.1", ())] != [
            Stage.ANSWER
        ] * 2 and time.monotonic() < until:
            time.sleep(0.001)
        with connect(port) as third:
            answer = third.recv(65536)
        assert answer.startswith(b"HTTP/1.1 503 ") and b"there are 2 connections already; try again" in answer
        assert b"retry-after: 1" in answer
        release.set()
        assert b'"x"' in read_to(first, b'"x"') and b'"x"' in read_to(second, b'"x"')


class FakeConnection:
    """A connection with the attributes that the limits use."""

    def __init__(self, address: str, stage: Stage):
        self.address = address
        self.stage = stage


def connection_of(address: str, stage: Stage) -> Any:
    return FakeConnection(address, stage)


def test_the_address_with_most_connections_makes_room_for_others() -> None:
    connections = Connections(4)
    hog = [connection_of("hog", Stage.ANSWER) for _ in range(3)]
    guest = connection_of("guest", Stage.IDLE)
    for each in (*hog, guest):
        assert connections.add(each) is None
    newcomer = connection_of("newcomer", Stage.HEAD)
    assert connections.add(newcomer) is hog[-1]
    connections.remove(hog[-1])
    again = connection_of("hog", Stage.HEAD)
    assert connections.add(again) is again
    connections.remove(again)
    hog[0].stage = Stage.BODY
    assert connections.add(connection_of("newcomer", Stage.HEAD)) is hog[0]


def test_connections_of_one_address_are_closed_by_stage_and_age() -> None:
    connections = Connections(4)
    body, idle, late, early = (connection_of("a", stage) for stage in (Stage.BODY, Stage.IDLE, Stage.HEAD, Stage.HEAD))
    for each in (body, idle, late, early):
        assert connections.add(each) is None
    connections.stage_changed(late)
    for expected in (early, late, idle, body):
        newest = connection_of("a", Stage.ANSWER)
        assert connections.add(newest) is expected
        connections.remove(expected)
    newest = connection_of("a", Stage.HEAD)
    assert connections.add(newest) is newest


def test_ipv6_addresses_of_one_network_count_together() -> None:
    assert address_of(("2001:db8::1", 1)) == address_of(("2001:db8::ffff:2", 2)) != address_of(("2001:db8:0:1::1", 1))
    assert address_of(("::ffff:10.0.0.1", 1)) == address_of(("10.0.0.1", 1)) != address_of(("10.0.0.2", 1))
    assert address_of(("fe80::1%eth0", 1)) == address_of(("fe80::2", 1)) and address_of(None) == ""


def test_the_number_of_connections_fits_the_limit_of_file_descriptors() -> None:
    """Each case runs in its own process, because a lowered hard limit cannot be raised again."""
    pytest.importorskip("resource")
    code = "import resource, sys; from clew.serving.connections import most_connections\n"
    code += (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))\nprint(most_connections())"
    )
    for soft, hard, most in ((256, 1024, 832), (200, 400, 208), (128, 128, 32), (256, 4096, 2048)):
        completed = subprocess.run(
            [sys.executable, "-c", code, str(soft), str(hard)], capture_output=True, text=True, check=True
        )
        assert int(completed.stdout) == most
