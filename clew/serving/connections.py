"""Limits of connections, which apply before a request has arrived, and so before the rules of the guard. Knows no
route.

A connection costs a file descriptor. A process has a few thousand at most, and a client that holds them all locks
everybody out without having sent one request. So

    the head of a request must arrive within HEAD seconds; an idle connection is closed after IDLE seconds; a connection
    whose client reads nothing of an answer for STALL seconds is closed (the guard limits the time of a body); the
    number of connections is limited. A new one replaces another: of the address with the most connections, the one that
    has waited longest for the head of a request, else one between two requests, else one whose body is arriving.

A request that is being answered is cut only if its address holds more connections than the newcomer's; otherwise the
newcomer is told to come back later. An honest client sends its head at once, so it is never the one that has waited
longest: it gets in beside any number of slow ones, even from its own address.
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
"""File descriptors reserved for other uses, and for connections accepted but not yet counted, or cut but not yet
closed."""
AT_ONCE = 16
"""Connections accepted in one round, before existing ones are served; RESERVED has room for several rounds."""
LONGEST_BACKLOG = 1024


class Doing(IntEnum):
    """The stage of a connection; lower stages are cut first."""

    HEAD = 0
    IDLE = 1
    BODY = 2
    ANSWER = 3


class Connections:
    """All open connections by address, the longest in its stage first. `cut(why)` is called when one is closed."""

    def __init__(
        self,
        most: int = MOST_CONNECTIONS,
        *,
        head: float = HEAD,
        idle: float = IDLE,
        stall: float = STALL,
        cut: Callable[[str], None] = lambda why: None,
    ):
        self.most = most
        self.head, self.idle, self.stall = head, idle, stall
        self.cut = cut
        self.by_address: dict[str, dict[Connection, None]] = {}
        self.count = 0

    def add(self, connection: "Connection") -> "Connection | None":
        """Add a connection and return the one to close for it, which may be itself; None if there is room."""
        self.by_address.setdefault(connection.address, {})[connection] = None
        self.count += 1
        return self.superfluous(connection) if self.count > self.most else None

    def remove(self, connection: "Connection") -> None:
        own = self.by_address.get(connection.address, {})
        if connection in own:
            del own[connection]
            self.count -= 1
        if not own:
            self.by_address.pop(connection.address, None)

    def moved(self, connection: "Connection") -> None:
        """Move a connection to the end of its address's list when its stage changes."""
        own = self.by_address.get(connection.address, {})
        if connection in own:
            del own[connection]
            own[connection] = None

    def superfluous(self, newest: "Connection") -> "Connection":
        largest = max(self.by_address.values(), key=len)
        others = [each for each in largest if each is not newest]
        for doing in (Doing.HEAD, Doing.IDLE, Doing.BODY):
            candidate = next((each for each in others if each.doing is doing), None)
            if candidate is not None:
                return candidate
        is_fair = len(largest) <= len(self.by_address[newest.address]) + 1
        return newest if is_fair or not others else others[-1]


class Connection(H11Protocol):
    """uvicorn's connection with time limits."""

    def __init__(self, *given: Any, connections: Connections, **options: Any):
        super().__init__(*given, **options)
        self.all = connections
        self.address = ""
        self.doing = Doing.HEAD
        self.ending: asyncio.TimerHandle | None = None
        self.stalling: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = address_of(self.client)
        self._wait(self.all.head, "head")
        superfluous = self.all.add(self)
        if superfluous is self:
            self._refuse(503, f"there are {self.all.most} connections already; try again when some are closed", "room")
        elif superfluous is not None:
            superfluous.end("room")

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.doing
        super().data_received(data)
        self._look()
        if before is Doing.IDLE and self.doing is Doing.IDLE:
            self._does(Doing.HEAD)
            self._wait(self.all.head, "head")

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()
        if self.doing is Doing.IDLE:
            self._wait(self.all.idle, "idle")

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stalling = self.stalling or self.loop.call_later(self.all.stall, self.end, "stall")

    def resume_writing(self) -> None:
        super().resume_writing()
        stop(self.stalling)
        self.stalling = None

    def end(self, why: str) -> None:
        """Close at once, with unsent and unread data dropped."""
        self._forget()
        self.all.cut(why)
        self.transport.abort()

    def _look(self) -> None:
        """Update the stage after data was received or sent."""
        if self.cycle is None:
            return
        if self.cycle.response_complete:
            if self.doing in (Doing.BODY, Doing.ANSWER):
                self._does(Doing.IDLE)
            return
        self._does(Doing.BODY if self.cycle.more_body else Doing.ANSWER)
        stop(self.ending)

    def _does(self, doing: Doing) -> None:
        if doing is not self.doing:
            self.doing = doing
            self.all.moved(self)

    def _wait(self, seconds: float, why: str) -> None:
        stop(self.ending)
        self.ending = self.loop.call_later(seconds, self._late, why)

    def _late(self, why: str) -> None:
        has_begun = bool(self.conn.trailing_data[0])
        if why == "head" and has_begun and not self.transport.is_closing():
            self._refuse(
                408, f"the head of the request did not arrive within {self.all.head:g} seconds; send it again", why
            )
        else:
            self.end(why)

    def _refuse(self, status: int, sentence: str, why: str) -> None:
        """Send one sentence and close. It fits into the system's buffer, so that nothing waits until it is read."""
        body = json.dumps({"error": sentence})
        head = (
            f"HTTP/1.1 {status} {PHRASES[status]}\r\ncontent-type: application/json\r\ncontent-length:"
            f" {len(body)}\r\nretry-after: 1\r\n"
        )
        self.transport.write(f"{head}connection: close\r\n\r\n{body}".encode("ascii"))
        if self.transport.get_write_buffer_size():
            return self.end(why)
        self._forget()
        self.all.cut(why)
        self.transport.close()

    def _forget(self) -> None:
        self.all.remove(self)
        stop(self.ending)
        stop(self.stalling)


def stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def address_of(client: tuple[str, int] | None) -> str:
    """The owner of a connection: an IPv4 address, or an IPv6 /64 network, all of whose addresses one household has."""
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
    """The connection limit: MOST_CONNECTIONS, or what the system allows. The limit of open files is raised if possible,
    since an idle connection costs almost nothing, while replacing one costs an accept and a close."""
    if resource is None:
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + RESERVED
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
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
