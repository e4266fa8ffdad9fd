"""Connections and how long each may be held: what comes before a request is there, and so before any rule of the guard. Knows no route.

A connection costs a file descriptor, of which a process has some thousands at most, and whoever holds them all keeps everybody out without
having sent one request. So

    a request's head is there within HEAD seconds, however its bytes come; a connection that waits for its next request has IDLE seconds;
    whoever reads nothing of an answer for STALL seconds is left alone (the guard bounds the time of a body);
    there are at most so many connections. One more takes the place of another: of the address that holds most of them, that which has
    waited longest for the head of a request, then one between two requests, then one whose body is coming.

A request that is being answered is cut only where its address holds more connections than that of the newcomer, who is otherwise told to
come back. An honest client sends its head at once, and is never the one that has waited longest for it: it gets in beside any
number of slow ones, even where these come from its own address.
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
"""File descriptors that are left for all else, and for those who were accepted and not yet counted, or cut and not yet closed."""
AT_ONCE = 16
"""Connections that are accepted before those that are there are looked at: some rounds of these have room in RESERVED."""
LONGEST_BACKLOG = 1024


class Doing(IntEnum):
    """What a connection does; those of the least value are cut first."""

    HEAD = 0
    IDLE = 1
    BODY = 2
    ANSWER = 3


class Connections:
    """All open connections, by address, the one that has been longest in its stage first. `cut(why)` is called when one is ended."""

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
        """Who has to go for it, which may be itself; None where there is room."""
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
        """It does something else from now on."""
        own = self.by_address.get(connection.address, {})
        if connection in own:
            del own[connection]
            own[connection] = None

    def superfluous(self, newest: "Connection") -> "Connection":
        largest = max(self.by_address.values(), key=len)
        others = [each for each in largest if each is not newest]
        for doing in (Doing.HEAD, Doing.IDLE, Doing.BODY):
            found = next((each for each in others if each.doing is doing), None)
            if found is not None:
                return found
        is_fair = len(largest) <= len(self.by_address[newest.address]) + 1
        return newest if is_fair or not others else others[-1]


class Connection(H11Protocol):
    """uvicorn's, with a time for everything."""

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
            self._refuse(503, f"there are {self.all.most} connections already; come again when some are closed", "room")
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
        """At once, whatever was not sent or read."""
        self._forget()
        self.all.cut(why)
        self.transport.abort()

    def _look(self) -> None:
        """What it does after something came or went."""
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
            self._refuse(408, f"the head of the request was not there within {self.all.head:g} seconds", why)
        else:
            self.end(why)

    def _refuse(self, status: int, sentence: str, why: str) -> None:
        """One sentence, which has room in the system's buffer; nobody waits until it is read."""
        body = json.dumps({"error": sentence})
        head = f"HTTP/1.1 {status} {PHRASES[status]}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nretry-after: 1\r\n"
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
    """Whose connection it is: an address, of version 6 the network of a household, which has all of its addresses."""
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
    """As many as a server of one model needs, or the system lets this process have: where it may, the process asks for more files, since a
    connection that only waits costs next to nothing, and one that takes another's place has to be accepted and closed."""
    if resource is None:
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + RESERVED
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(min(MOST_CONNECTIONS, soft - RESERVED), soft // 4)


resource: Any = None
"""Python's module of this name, where the system has such limits."""
with suppress(ImportError):
    resource = import_module("resource")
PHRASES = {408: "Request Timeout", 503: "Service Unavailable"}
