"""Limits on connections. They apply before a request has arrived, and so before the rules of the guard. Knows no route.

A connection costs a file descriptor. A process has a few thousand at most, and a client that holds them all locks out
everybody else without sending one request. So

    - the head of a request must arrive within HEAD seconds;
    - an idle connection is closed after IDLE seconds;
    - a connection whose client reads nothing of an answer for STALL seconds is closed (the guard limits the time of a
      body);
    - the number of connections is limited. At the limit, a new connection replaces one of the address with the most
      connections: the one that has waited longest for the head of a request, else one between two requests, else one
      whose body is arriving.

A request that is being answered is closed only if its address holds more connections than the new connection's;
otherwise the new connection is refused and asked to try again. An honest client sends its head immediately, so it never
waits longest: it is accepted beside any number of slow clients, even from its own address.
"""

import asyncio
import ipaddress
import json
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from importlib import import_module
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 2048
HEAD, IDLE, STALL = 10.0, 60.0, 60.0
RESERVED = 192
"""File descriptors reserved for other uses, and for connections that are accepted but not yet counted, or aborted but
not yet closed."""
AT_ONCE = 16
"""Connections accepted in one round, before existing ones are served; RESERVED has room for several rounds."""
LONGEST_BACKLOG = 1024


class Stage(IntEnum):
    """The stage of a connection; lower stages are closed first."""

    HEAD = 0
    IDLE = 1
    BODY = 2
    ANSWER = 3


class Connections:
    """All open connections by address, the longest in its stage first. `on_close(reason)` is called when the server
    closes one."""

    def __init__(
        self,
        most: int = MOST_CONNECTIONS,
        *,
        head: float = HEAD,
        idle: float = IDLE,
        stall: float = STALL,
        on_close: Callable[[str], None] = lambda reason: None,
    ):
        self.most = most
        self.head, self.idle, self.stall = head, idle, stall
        self.on_close = on_close
        self.by_address: dict[str, dict[Connection, None]] = {}
        self.count = 0

    def add(self, connection: "Connection") -> "Connection | None":
        """Add a connection and return the one to close for it, which may be itself; None if there is room."""
        self.by_address.setdefault(connection.address, {})[connection] = None
        self.count += 1
        return self.choose_to_close(connection) if self.count > self.most else None

    def remove(self, connection: "Connection") -> None:
        siblings = self.by_address.get(connection.address, {})
        if connection in siblings:
            del siblings[connection]
            self.count -= 1
        if not siblings:
            self.by_address.pop(connection.address, None)

    def stage_changed(self, connection: "Connection") -> None:
        """Move a connection to the end of its address's list when its stage changes."""
        siblings = self.by_address.get(connection.address, {})
        if connection in siblings:
            del siblings[connection]
            siblings[connection] = None

    def choose_to_close(self, newest: "Connection") -> "Connection":
        """Return the connection to close in favour of the newest one, or the newest one itself."""
        largest = max(self.by_address.values(), key=len)
        older = [each for each in largest if each is not newest]
        for stage in (Stage.HEAD, Stage.IDLE, Stage.BODY):
            candidate = next((each for each in older if each.stage is stage), None)
            if candidate is not None:
                return candidate
        is_fair = len(largest) <= len(self.by_address[newest.address]) + 1
        return newest if is_fair or not older else older[-1]


class Connection(H11Protocol):
    """uvicorn's connection with time limits."""

    def __init__(self, *args: Any, connections: Connections, **options: Any):
        super().__init__(*args, **options)
        self.all_connections = connections
        self.address = ""
        self.stage = Stage.HEAD
        self.deadline: asyncio.TimerHandle | None = None
        self.stall_timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = address_of(self.client)
        self._set_deadline(self.all_connections.head, "head")
        to_close = self.all_connections.add(self)
        if to_close is self:
            most = self.all_connections.most
            self._refuse(503, f"there are {most} connections already; try again when some are closed", "room")
        elif to_close is not None:
            to_close.end("room")

    def connection_lost(self, exc: Exception | None) -> None:
        self._unregister()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.stage
        super().data_received(data)
        self._update_stage()
        if before is Stage.IDLE and self.stage is Stage.IDLE:
            self._set_stage(Stage.HEAD)
            self._set_deadline(self.all_connections.head, "head")

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_stage()
        if self.stage is Stage.IDLE:
            self._set_deadline(self.all_connections.idle, "idle")

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stall_timeout = self.stall_timeout or self.loop.call_later(self.all_connections.stall, self.end, "stall")

    def resume_writing(self) -> None:
        super().resume_writing()
        cancel(self.stall_timeout)
        self.stall_timeout = None

    def end(self, reason: str) -> None:
        """Close immediately, and drop unsent and unread data."""
        self._unregister()
        self.all_connections.on_close(reason)
        self.transport.abort()

    def _update_stage(self) -> None:
        """Update the stage after data was received or sent."""
        if self.cycle is None:
            return
        if self.cycle.response_complete:
            if self.stage in (Stage.BODY, Stage.ANSWER):
                self._set_stage(Stage.IDLE)
            return
        self._set_stage(Stage.BODY if self.cycle.more_body else Stage.ANSWER)
        cancel(self.deadline)

    def _set_stage(self, stage: Stage) -> None:
        if stage is not self.stage:
            self.stage = stage
            self.all_connections.stage_changed(self)

    def _set_deadline(self, seconds: float, reason: str) -> None:
        cancel(self.deadline)
        self.deadline = self.loop.call_later(seconds, self._time_out, reason)

    def _time_out(self, reason: str) -> None:
        has_begun = bool(self.conn.trailing_data[0])
        if reason == "head" and has_begun and not self.transport.is_closing():
            seconds = self.all_connections.head
            self._refuse(
                408, f"the head of the request did not arrive within {seconds:g} seconds; send it again", reason
            )
        else:
            self.end(reason)

    def _refuse(self, status: int, sentence: str, reason: str) -> None:
        """Send one sentence and close. It fits into the system's buffer, so that nothing waits until it is read."""
        body = json.dumps({"error": sentence})
        head = (
            f"HTTP/1.1 {status} {PHRASES[status]}\r\ncontent-type: application/json\r\ncontent-length:"
            f" {len(body)}\r\nretry-after: 1\r\n"
        )
        self.transport.write(f"{head}connection: close\r\n\r\n{body}".encode("ascii"))
        if self.transport.get_write_buffer_size():
            return self.end(reason)
        self._unregister()
        self.all_connections.on_close(reason)
        self.transport.close()

    def _unregister(self) -> None:
        self.all_connections.remove(self)
        cancel(self.deadline)
        cancel(self.stall_timeout)


def cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def address_of(client: tuple[str, int] | None) -> str:
    """Return the owner of a connection: an IPv4 address, or an IPv6 /64 network, which one household usually owns."""
    if client is None:
        return ""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((int(address) >> 64 << 64, 64)))


def most_connections() -> int:
    """Return the connection limit: MOST_CONNECTIONS, or what the system allows.

    Raise the limit of open files if possible, since an idle connection costs almost nothing, while replacing one costs
    an accept and a close.
    """
    if resource is None:
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MOST_CONNECTIONS + RESERVED
    limit = target if hard == resource.RLIM_INFINITY else min(target, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with suppress(ValueError, OSError):  # some systems allow less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(min(MOST_CONNECTIONS, soft - RESERVED), soft // 4)
    )


resource: Any = None
"""Python's module `resource`, if the system has it."""
with suppress(ImportError):
    resource = import_module("resource")
PHRASES = {408: "Request Timeout", 503: "Service Unavailable"}
