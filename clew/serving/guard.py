"""Access control: an ASGI application around another. Knows no run.

A page of another site may send requests to this machine through a user's browser, even under a host name of its own
that resolves to this machine (DNS rebinding). So a request is answered only if

    - it comes from this machine;
    - its Host is a name of this machine or an allowed one;
    - its Origin, if present, is that host or an allowed one, and no other site's page sent it (Sec-Fetch-Site);
    - if hosts were allowed, it has the cookie that the token of the printed address was exchanged for, or a program's
      key;
    - its method is GET, HEAD or POST;
    - its body is JSON of at most 1 MB (more for a server that reads files) and arrives within seconds.

The headers of every answer allow only this server's own scripts on a page, and say which sites may frame it.
"""

import asyncio
import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from clew.core.errors import UserError, shown
from clew.serving.mistakes import error_object

MOST_BYTES = 1_000_000
MOST_DRAINED = 7 * MOST_BYTES
"""How many bytes of an oversized body are read and dropped, so that its sender reads the answer."""
BODY_SECONDS = 10.0
"""The time limit for a body in seconds, plus one second for each additional megabyte allowed."""
MOST_LARGE = 8
"""The maximum number of bodies above MOST_BYTES held at once, each at its maximum size."""
METHODS = ("GET", "HEAD", "POST")
LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
NAMES = ("127.0.0.1", "localhost", "::1")


class Guard:
    """`app` behind the rules above. `hosts` are further names allowed in Host and Origin; with them, the first visit
    must bring `token`. For programs, `key` replaces the token: each request sends it in a header (Authorization: Bearer
    KEY). `anywhere` allows requests from other machines. A body has at most `most_bytes`. `on_refusal(status)` is
    called for every refused request."""

    def __init__(
        self,
        app: Any,
        *,
        hosts: Sequence[str] = (),
        port: int = 0,
        key: str | None = None,
        anywhere: bool = False,
        most_bytes: int = MOST_BYTES,
        on_refusal: Callable[[int], None] = lambda status: None,
    ):
        self.app = app
        self.hosts = tuple(host.lower() for host in hosts)
        self.key = key
        self.anywhere = anywhere
        self.most_bytes = most_bytes
        self.reserved = 0
        self.on_refusal = on_refusal
        self.token = secrets.token_urlsafe(24) if hosts and key is None else None
        self.cookie = f"clew-{port}"
        self.secrets: set[str] = set()
        self.headers = [(name.encode(), value.encode()) for name, value in page_headers(self.hosts).items()]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.other(scope, receive, send)
        fields = header_fields(scope)
        answer = Answer(send, self.headers, scope["path"])
        if refusal := self.refusal(scope, fields):
            self.on_refusal(int(refusal[0]))
            return await answer.send_error(*refusal)
        if self.token is not None and not self.is_known(fields):
            if not self.admits(scope):
                return await answer.send_error(
                    HTTPStatus.FORBIDDEN,
                    "open the address that `clew` printed; it works once, in one browser: restart clew for another",
                )
            answer.cookie = self.new_cookie()
        size = self.room_for(fields)
        if self.reserved + size > MOST_LARGE * self.most_bytes:
            return await self.refuse(answer, HTTPStatus.SERVICE_UNAVAILABLE)
        self.reserved += size
        try:
            body = await read_body(receive, fields, self.most_bytes)
            if isinstance(body, HTTPStatus):
                return await self.refuse(answer, body)
            await self.app(scope, replay(body, receive), answer)
        finally:
            self.reserved -= size

    async def refuse(self, answer: "Answer", status: HTTPStatus) -> None:
        self.on_refusal(int(status))
        await answer.send_error(status, MESSAGES[status].format(self.most_bytes, body_seconds(self.most_bytes)))

    def room_for(self, fields: dict[str, list[str]]) -> int:
        """The bytes reserved for a large body: its declared size, or the maximum; small bodies are not counted."""
        size = declared_size(fields)
        large = self.most_bytes if "transfer-encoding" in fields or size > self.most_bytes else size
        return large if large > MOST_BYTES else 0

    async def other(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse WebSockets, which are not supported."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    def refusal(self, scope: Any, fields: dict[str, list[str]]) -> tuple[HTTPStatus, str] | None:
        """Return the status and message that refuse a request; None if it is allowed."""
        client = scope.get("client")
        if client is not None and client[0] not in LOOPBACK and not self.anywhere:
            return HTTPStatus.FORBIDDEN, "this server answers requests from its own machine only"
        host = fields.get("host", [])
        if len(host) != 1 or host_name(host[0]) not in (*NAMES, *self.hosts):
            return (
                HTTPStatus.FORBIDDEN,
                "this server is not known by this host name; restart it with `--allow-host NAME` to allow the name",
            )
        if self.key is not None and not any(
            is_secret(each, f"Bearer {self.key}") for each in fields.get("authorization", [])
        ):
            return HTTPStatus.UNAUTHORIZED, "the key is missing or wrong; send it as Authorization: Bearer KEY"
        if not all(self.is_own_origin(origin, host[0]) for origin in fields.get("origin", [])) or is_foreign(fields):
            return HTTPStatus.FORBIDDEN, "a page of another site sent this request; open this server's own page"
        if scope["method"] not in METHODS:
            return HTTPStatus.METHOD_NOT_ALLOWED, f"known methods: {', '.join(METHODS)}"
        if (
            scope["method"] == "POST"
            and fields.get("content-type", [""])[0].partition(";")[0].strip().lower() != "application/json"
        ):
            return (
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "the request body must be JSON, declared with Content-Type: application/json",
            )
        return None

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Whether an origin is this server: its own address, or an allowed name of a proxy."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and (
            parts.netloc.lower() == host.lower() or host_name(parts.netloc) in self.hosts
        )

    def is_known(self, fields: dict[str, list[str]]) -> bool:
        pairs = [pair.strip().partition("=") for line in fields.get("cookie", []) for pair in line.split(";")]
        values = [value for name, _, value in pairs if name == self.cookie]
        return any(is_secret(value, secret) for value in values for secret in self.secrets)

    def admits(self, scope: Any) -> bool:
        """Whether a visit brings the token, which is valid once.

        The page itself is then the answer, without a redirect: a browser does not send a `SameSite=Strict` cookie along
        a redirect that a link on another site started.
        """
        values = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if (
            not self.token
            or scope["path"] != "/"
            or scope["method"] != "GET"
            or not any(is_secret(each, self.token) for each in values)
        ):
            return False
        self.token = ""
        return True

    def new_cookie(self) -> str:
        """A cookie without a path, so that a browser limits it to the page's own path, below any prefix that a proxy
        adds."""
        secret = secrets.token_urlsafe(24)
        self.secrets.add(secret)
        return f"{self.cookie}={secret}; HttpOnly; SameSite=Strict"


class Answer:
    """Sends the application's messages with the headers that every answer has."""

    def __init__(self, send: Any, headers: list[tuple[bytes, bytes]], path: str):
        self.send = send
        self.path = path
        is_data = path.startswith("/api/")
        self.headers = headers + ([(b"cache-control", b"no-store")] if is_data else [(b"cache-control", b"no-cache")])
        self.cookie: str | None = None

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            own_headers = [pair for pair in message.get("headers", []) if pair[0].lower() != b"server"]
            cookie = [] if self.cookie is None else [(b"set-cookie", self.cookie.encode())]
            message = {**message, "headers": [*own_headers, *self.headers, *cookie]}
        await self.send(message)

    async def send_error(self, status: HTTPStatus, sentence: str) -> None:
        body = json.dumps(error_object(self.path, int(status), sentence)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": int(status), "headers": headers})
        await self({"type": "http.response.body", "body": body})


def check_host(name: str) -> None:
    """Refuse a name that cannot be a Host: no URL, no pattern, no port."""
    if (
        not name
        or len(name) > 253
        or not all(part and all(c.isascii() and (c.isalnum() or c in "-_") for c in part) for part in name.split("."))
    ):
        raise UserError(
            f"--allow-host takes a name such as hub.example.org, without http:// and without a port, not {shown(name)}"
        )


def page_headers(hosts: Sequence[str]) -> dict[str, str]:
    framing = (
        " ".join(["'self'", *(f"{scheme}://{host}:*" for host in hosts for scheme in ("http", "https"))])
        if hosts
        else "'none'"
    )
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "media-src": "blob:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": framing,
    }
    return {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        **({} if hosts else {"x-frame-options": "DENY", "cross-origin-opener-policy": "same-origin"}),
    }


def header_fields(scope: Any) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        fields.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return fields


def host_name(host: str) -> str:
    """The name in `name:port`; an IPv6 address is in brackets."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


def is_foreign(fields: dict[str, list[str]]) -> bool:
    """Whether a browser says that another site's page sent the request; following a link from there is harmless."""
    return fields.get("sec-fetch-site", ["none"])[0] in ("cross-site", "same-site") and fields.get(
        "sec-fetch-mode"
    ) != ["navigate"]


def is_secret(value: str, secret: str) -> bool:
    """Compare in constant time, so that response times reveal nothing about the secret."""
    return hmac.compare_digest(value.encode("utf-8", "replace"), secret.encode())


def declared_size(fields: dict[str, list[str]]) -> int:
    """The declared size of a body in bytes."""
    value = fields.get("content-length", ["0"])[0]
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 16 else 2**62


def body_seconds(most_bytes: int) -> float:
    return BODY_SECONDS + (most_bytes - MOST_BYTES) / 1e6


async def read_body(receive: Any, fields: dict[str, list[str]], most_bytes: int) -> bytes | HTTPStatus:
    """The whole body, chunked or not, or the status that refuses it."""
    if declared_size(fields) > most_bytes + MOST_DRAINED:
        return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    parts, count = [], 0
    try:
        async with asyncio.timeout(body_seconds(most_bytes)):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return HTTPStatus.REQUEST_TIMEOUT
                part = message.get("body", b"")
                count += len(part)
                if count <= most_bytes:
                    parts.append(part)
                if count > most_bytes + MOST_DRAINED or not message.get("more_body"):
                    break
    except TimeoutError:
        return HTTPStatus.REQUEST_TIMEOUT
    return HTTPStatus.REQUEST_ENTITY_TOO_LARGE if count > most_bytes else b"".join(parts)


def replay(body: bytes, receive: Any) -> Any:
    """A `receive` that first gives the body that was already read, then what follows."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return waiting.pop() if waiting else await receive()

    return again


MESSAGES = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "a request must have at most {0:,} bytes; send less, or several requests",
    HTTPStatus.REQUEST_TIMEOUT: "the request did not arrive within {1:g} seconds; send it again",
    HTTPStatus.SERVICE_UNAVAILABLE: "too many files are being sent at once; try again in a second",
}
