"""Who may hold a connection, for how long, and who has to go when there are too many."""

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
    """The port of a server in a thread, with these limits."""
    at = listen(0)
    options: dict[str, Any] = {
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "log_level": "critical",
        "access_log": False,
    }
    config = uvicorn.Config(Guard(app), http=lambda **given: Connection(connections=connections, **given), **options)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([at])))
    thread.start()
    while not server.started:
        time.sleep(0.001)
    try:
        yield at.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(20)
        at.close()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def request_of(body: bytes, path: str = "/echo") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length:"
        f" {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def ask(at: socket.socket, body: bytes = b'"here"') -> bytes:
    at.sendall(request_of(body))
    return read_to(at, body)


def read_to(at: socket.socket, end: bytes) -> bytes:
    found = b""
    while not found.endswith(end):
        part = at.recv(65536)
        if not part:
            raise ConnectionError("the server closed")
        found += part
    return found


def is_cut(at: socket.socket, seconds: float = 20.0) -> bool:
    """Whether the other side has ended a connection within this time."""
    at.settimeout(seconds)
    try:
        while at.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_a_head_that_does_not_come_is_given_up_however_its_bytes_come() -> None:
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
        assert is_cut(silent)
        half.settimeout(20)
        answer = half.recv(65536)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"did not arrive within 0.3 seconds" in answer
        with connect(port) as honest:
            assert b"200" in ask(honest)
    assert closed.count("head") == 3


def test_a_request_that_takes_long_is_not_cut_by_the_time_for_its_head_or_the_next() -> None:
    with served(Connections(head=0.2, idle=0.2)) as port, connect(port) as client:
        whole = request_of(b'"slowly"')
        client.sendall(whole[:-4])
        time.sleep(0.6)
        client.sendall(whole[-4:])
        assert b"HTTP/1.1 200" in read_to(client, b'"slowly"')


def test_a_connection_may_wait_for_its_next_request_and_not_for_ever() -> None:
    with served(Connections(head=0.1, idle=0.5)) as port, connect(port) as client:
        ask(client)
        time.sleep(0.3)
        ask(client)
        assert is_cut(client)


def test_the_head_of_the_next_request_has_its_time_too() -> None:
    with served(Connections(head=0.2, idle=60.0)) as port, connect(port) as client:
        ask(client)
        client.sendall(HALF)
        assert is_cut(client, 10.0)


def test_an_answer_that_nobody_reads_is_given_up() -> None:
    closed: list[str] = []
    with served(Connections(stall=0.3, on_close=closed.append)) as port, connect(port) as client:
        client.sendall(request_of(b'"x"', "/large"))
        until = time.monotonic() + 20
        while "stall" not in closed and time.monotonic() < until:
            time.sleep(0.01)
    assert closed == ["stall"]


def test_slow_clients_that_hold_every_connection_keep_no_honest_one_out() -> None:
    """Sixty half-sent heads where there is room for twenty, from the address of the honest clients, before, between and
    after these."""
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
        assert sum(is_cut(each, 0.05) for each in slow) >= 60 - 20
        for client in (*slow, *honest):
            client.close()
    assert set(closed) == {"room"}


def test_whoever_comes_when_all_are_being_answered_is_told_to_come_back() -> None:
    release = threading.Event()

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        while not release.is_set():
            await asyncio.sleep(0.01)
        await echo(scope, receive, send)

    connections = Connections(2)
    with served(connections, waits) as port, connect(port) as first, connect(port) as second:
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


class Seen:
    """A connection as the limits see it."""

    def __init__(self, address: str, doing: Stage):
        self.address = address
        self.stage = doing


def one(address: str, doing: Stage) -> Any:
    return Seen(address, doing)


def test_who_holds_most_connections_makes_room_for_others() -> None:
    connections = Connections(4)
    hog = [one("hog", Stage.ANSWER) for _ in range(3)]
    guest = one("guest", Stage.IDLE)
    for each in (*hog, guest):
        assert connections.add(each) is None
    newcomer = one("newcomer", Stage.HEAD)
    assert connections.add(newcomer) is hog[-1]
    connections.remove(hog[-1])
    again = one("hog", Stage.HEAD)
    assert connections.add(again) is again
    connections.remove(again)
    hog[0].stage = Stage.BODY
    assert connections.add(one("newcomer", Stage.HEAD)) is hog[0]


def test_of_one_address_the_longest_without_a_head_goes_first_then_the_idle_then_those_whose_body_comes() -> None:
    connections = Connections(4)
    body, idle, late, early = (one("a", doing) for doing in (Stage.BODY, Stage.IDLE, Stage.HEAD, Stage.HEAD))
    for each in (body, idle, late, early):
        assert connections.add(each) is None
    connections.stage_changed(late)
    for expected in (early, late, idle, body):
        newest = one("a", Stage.ANSWER)
        assert connections.add(newest) is expected
        connections.remove(expected)
    newest = one("a", Stage.HEAD)
    assert connections.add(newest) is newest


def test_an_address_of_version_6_counts_with_its_household() -> None:
    assert address_of(("2001:db8::1", 1)) == address_of(("2001:db8::ffff:2", 2)) != address_of(("2001:db8:0:1::1", 1))
    assert address_of(("::ffff:10.0.0.1", 1)) == address_of(("10.0.0.1", 1)) != address_of(("10.0.0.2", 1))
    assert address_of(("fe80::1%eth0", 1)) == address_of(("fe80::2", 1)) and address_of(None) == ""


def test_there_are_fewer_connections_than_file_descriptors_and_more_of_these_are_asked_for() -> None:
    """In processes of their own: a limit that was lowered for good cannot be raised again."""
    pytest.importorskip("resource")
    code = "import resource, sys; from clew.serving.connections import most_connections\n"
    code += (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))\nprint(most_connections())"
    )
    for soft, hard, most in ((256, 1024, 832), (200, 400, 208), (128, 128, 32), (256, 4096, 2048)):
        found = subprocess.run(
            [sys.executable, "-c", code, str(soft), str(hard)], capture_output=True, text=True, check=True
        )
        assert int(found.stdout) == most
