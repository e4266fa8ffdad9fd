"""The guard with requests of a browser, of a foreign page and of a careless client."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from clew.core.errors import UserError
from clew.serving.guard import MOST_BYTES, Guard, check_host


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the body of the request."""
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body or b"{}"})


def ask(
    guard: Guard, method: str = "GET", path: str = "/api/runs", client: str = "127.0.0.1", **options: Any
) -> httpx.Response:
    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(app=guard, client=(client, 4321))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as browser:
            return await browser.request(method, path, **options)

    return asyncio.run(answer())


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost", "localhost:9000", "[::1]:8765", "LOCALHOST:1"])
def test_names_of_this_machine_are_accepted(host: str) -> None:
    assert ask(Guard(echo), headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "0.0.0.0", "", "[::2]", "127.0.0.2"],
)
def test_a_foreign_host_is_rejected(host: str) -> None:
    response = ask(Guard(echo), headers={"host": host})
    assert response.status_code == 403 and "--allow-host" in response.json()["error"]


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:3000", "https://localhost", "http://[", "file://127.0.0.1:8765"],
)
def test_a_foreign_origin_is_rejected(origin: str) -> None:
    response = ask(Guard(echo), "POST", json={}, headers={"origin": origin})
    assert response.status_code == 403 and "another site" in response.json()["error"]


def test_the_origin_of_the_page_is_accepted() -> None:
    assert ask(Guard(echo), "POST", json={"a": 1}, headers={"origin": "http://127.0.0.1:8765"}).json() == {"a": 1}


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_embedding_in_a_foreign_page_is_rejected_but_links_are_accepted(site: str) -> None:
    assert ask(Guard(echo), headers={"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}).status_code == 403
    assert ask(Guard(echo), path="/", headers={"sec-fetch-site": site, "sec-fetch-mode": "navigate"}).status_code == 200


def test_another_machine_is_rejected() -> None:
    assert ask(Guard(echo), client="10.0.0.7").status_code == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_rejected(method: str) -> None:
    assert ask(Guard(echo), method).status_code == 405


def test_only_json_is_accepted() -> None:
    assert ask(Guard(echo), "POST", content=b"a=1", headers={"content-type": "text/plain"}).status_code == 415
    assert ask(Guard(echo), "POST", content=b"a=1").status_code == 415


def test_a_long_body_is_rejected_with_and_without_chunks() -> None:
    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b" " * 100_000

    json_type = {"content-type": "application/json"}
    for content in (b" " * (MOST_BYTES + 1), pieces(11), pieces(200)):
        response = ask(Guard(echo), "POST", content=content, headers=json_type)
        assert response.status_code == 413 and "1,000,000 bytes" in response.json()["error"]
    assert ask(Guard(echo), "POST", content=b" ", headers={**json_type, "content-length": "9" * 30}).status_code == 413
    assert len(ask(Guard(echo), "POST", content=pieces(10), headers=json_type).content) == MOST_BYTES


def test_every_answer_has_security_headers() -> None:
    for guard, status in ((Guard(echo), 200), (Guard(echo), 403)):
        headers = ask(guard, headers={"host": "evil.example"} if status == 403 else {}).headers
        assert (
            "script-src 'self';" in headers["content-security-policy"]
            and "default-src 'none'" in headers["content-security-policy"]
        )
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
    framed = ask(Guard(echo, hosts=["hub.example"]), headers={"host": "hub.example"}).headers
    assert "frame-ancestors 'self' http://hub.example:* https://hub.example:*" in framed["content-security-policy"]


def test_an_allowed_host_needs_the_token_once_and_then_the_cookie() -> None:
    guard = Guard(echo, hosts=["hub.example"], port=8765)
    hub = {"host": "hub.example"}
    assert ask(guard, path="/", headers=hub).status_code == 403
    assert ask(guard, path="/?token=wrong", headers=hub).status_code == 403
    address = f"/?token={guard.token}"
    first = ask(guard, path=address, headers=hub)
    assert first.status_code == 200
    cookie, *marks = first.headers["set-cookie"].split("; ")
    assert marks == ["HttpOnly", "SameSite=Strict"] and cookie.startswith("clew-8765=")
    assert ask(guard, path=address, headers=hub).status_code == 403
    assert ask(guard, path="/?token=", headers=hub).status_code == 403
    assert ask(guard, headers={**hub, "cookie": f"other=1; {cookie}"}).status_code == 200
    assert ask(guard, headers={"cookie": cookie}).status_code == 200
    assert ask(guard, headers={**hub, "cookie": "clew-8765=guess"}).status_code == 403


def test_a_page_behind_a_proxy_may_post_with_any_forwarded_host() -> None:
    guard = Guard(echo, hosts=["hub.example"], port=1)
    cookie = ask(guard, path=f"/?token={guard.token}").headers["set-cookie"].split(";")[0]
    for host in ("hub.example", "127.0.0.1:8765"):
        headers = {"host": host, "origin": "https://hub.example", "cookie": cookie}
        assert ask(guard, "POST", json={}, headers=headers).status_code == 200
    assert (
        ask(guard, "POST", json={}, headers={"origin": "https://hub.example.evil", "cookie": cookie}).status_code == 403
    )


@pytest.mark.parametrize("name", ["http://hub", "hub:80", "*", "", "hub..example", "a b", "hub/", "hübsch"])
def test_invalid_host_names_are_rejected(name: str) -> None:
    with pytest.raises(UserError, match="--allow-host takes a name such as hub.example.org"):
        check_host(name)


def test_web_sockets_are_closed() -> None:
    sent = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    asyncio.run(Guard(echo)({"type": "websocket", "path": "/", "headers": []}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_a_program_sends_a_key_instead_of_a_cookie() -> None:
    statuses: list[int] = []
    guard = Guard(echo, hosts=["models.example"], key="a-key", anywhere=True, on_refusal=statuses.append)
    authorised = {"host": "models.example", "authorization": "Bearer a-key"}
    assert guard.token is None
    assert ask(guard, "POST", json={"a": 1}, client="10.0.0.7", headers=authorised).json() == {"a": 1}
    for wrong in (
        {"host": "models.example"},
        {**authorised, "authorization": "Bearer other"},
        {**authorised, "authorization": "a-key"},
    ):
        response = ask(guard, "POST", json={}, headers=wrong)
        assert response.status_code == 401 and "Authorization: Bearer KEY" in response.json()["error"]
    assert ask(guard, "POST", json={}, headers={**authorised, "host": "other.example"}).status_code == 403
    assert statuses == [401, 401, 401, 403]
