"""The routes of the page without a browser: their answers and their errors."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest

from clew.core.config import Section
from clew.core.errors import UserError
from clew.drawing.views import Note, View
from clew.instruments import INSTRUMENTS
from clew.instruments.instrument import Instrument
from clew.runs.loaded import load_run
from clew.serving.inspector import Inspector, StepRequest
from clew.serving.page import page_app
from clew.serving.worker import Worker


@pytest.fixture(scope="module")
def inspector(folders: dict[str, Path]) -> Inspector:
    return Inspector([load_run(folder, device="cpu") for folder in folders.values()])


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker()
    yield started
    assert started.close(10.0)


@pytest.fixture
def app(inspector: Inspector, worker: Worker) -> Any:
    return page_app(inspector, worker)


def ask(app: Any, path: str, **body: Any) -> httpx.Response:
    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as browser:
            return await (browser.post(path, content=json.dumps(body)) if body else browser.get(path))

    return asyncio.run(answer())


def test_the_page_loads_nothing_from_other_hosts(app: Any) -> None:
    index = ask(app, "/")
    assert index.headers["content-type"].startswith("text/html")
    assert "http://" not in index.text and "https://" not in index.text
    scripts = ["main.js", "panel.js", "view.js", "style.css", "view.css", "thread.svg"]
    for name in scripts:
        response = ask(app, f"/static/{name}")
        assert response.status_code == 200 and not response.headers["content-type"].startswith("text/html")
    assert 'from "http' not in "".join(ask(app, f"/static/{name}").text for name in scripts)


@pytest.mark.parametrize(
    "path",
    ["/static/nothing.js", "/static/../page.py", "/static/%2e%2e%2fpage.py", "/nothing", "/api/nothing", "/static/"],
)
def test_only_files_of_the_page_are_served(app: Any, path: str) -> None:
    response = ask(app, path)
    assert response.status_code == 404 and set(response.json()) == {"error"}


def test_an_unknown_run_is_rejected(inspector: Inspector) -> None:
    with pytest.raises(UserError, match="unknown run 'lsmt'; did you mean 'lstm'"):
        inspector.step(StepRequest(runs=("lsmt",), text="the thread was small"))


def test_runs_are_described_with_the_instruments_that_fit(app: Any, inspector: Inspector) -> None:
    description = ask(app, "/api/runs").json()
    runs = {run["name"]: run for run in description["runs"]}
    assert list(runs) == ["lstm", "gpt", "attentive", "transformer", "heads", "bytes"]
    assert runs["gpt"]["heads"] == ["1.1", "1.2", "2.1", "2.2"] and runs["lstm"]["heads"] == []
    assert runs["attentive"]["use"] == "translate" and runs["attentive"]["writes"] and runs["attentive"]["targets"]
    assert runs["heads"]["labels"] and not runs["heads"]["writes"] and runs["lstm"]["text"] == "text"
    assert runs["lstm"]["parameters"] == sum(p.numel() for p in inspector.runs["lstm"].task.parameters())
    instruments = {each["name"]: each for each in description["instruments"]}
    assert list(instruments) == list(INSTRUMENTS)
    assert (
        "no attention" in instruments["attention"]["reasons"]["lstm"]
        and "gpt" not in instruments["attention"]["reasons"]
    )
    assert instruments["next"]["schema"]["properties"]["top"]["description"]
    assert instruments["gradients"]["own_text"] == ["lstm", "gpt", "bytes"] and instruments["next"]["own_text"] == []


def test_the_description_of_a_run_lists_what_it_offers(odd_folders: dict[str, Path]) -> None:
    runs = {
        run["name"]: run
        for run in Inspector([load_run(folder, device="cpu") for folder in odd_folders.values()]).describe()["runs"]
    }
    fields = ("use", "writes", "targets", "labels", "pairs", "text")
    assert {name: tuple(run[field] for field in fields) for name, run in runs.items()} == {
        "languages": ("translate", True, True, False, False, "source"),
        "pruned": ("generate", True, False, False, False, "text"),
        "pairs": ("classify", False, False, True, True, "text"),
        "tagger": ("tag", False, False, True, False, "text"),
        "parser": ("parse", True, True, False, False, "sentence"),
        "bert": ("fill", False, False, False, False, "text with [MASK]"),
        "elmo": ("evaluate", False, False, False, False, "text"),
        "answerer": ("answer", False, False, False, False, "text"),
    }
    assert runs["languages"]["languages"] == ["de", "en", "fr"] and runs["parser"]["languages"] == []
    assert runs["bert"]["sample"] == "The [MASK] sat on the mat." and "predicts" in runs["elmo"]["offers"]
    assert runs["answerer"]["offers"] == ["reads", "vectors"]


def test_a_parser_can_be_stepped_through_and_proposes_only_valid_trees(odd_folders: dict[str, Path]) -> None:
    inspector = Inspector([load_run(odd_folders["parser"], device="cpu")])
    first = inspector.step(StepRequest(runs=("parser",), text="the thread was small"))
    likely = [
        token for token, share in zip(first["next"]["tokens"], first["next"]["probabilities"], strict=True) if share
    ]
    assert first["before"] == "" and likely and all(token.startswith("(") for token in likely)
    with pytest.raises(
        UserError,
        match="answerer does not generate text token by token; use a model that continues a text or writes a target",
    ):
        Inspector([load_run(odd_folders["answerer"], device="cpu")]).step(
            StepRequest(runs=("answerer",), text="the thread")
        )


def test_look_returns_a_picture_and_its_facts(app: Any) -> None:
    view = ask(app, "/api/look/tokens", runs=["lstm"], options={"text": "the ball"}).json()
    assert view["title"] and view["html"].startswith("<section") and view["seconds"] < 10
    assert "<script" not in view["html"]


def test_two_pictures_share_no_ids(app: Any) -> None:
    pictures = [
        ask(app, "/api/look/attention", runs=["gpt"], options={"text": "the ball"}).json()["html"] for _ in range(2)
    ]
    ids = [{part.split('"')[0] for part in html.split('id="')[1:]} for html in pictures]
    assert ids[0] and not ids[0] & ids[1]


@pytest.mark.parametrize(
    "path, body, sentence",
    [
        ("/api/look/atention", {"runs": ["gpt"]}, "did you mean 'attention'"),
        ("/api/look/attention", {"runs": ["gtp"]}, "did you mean 'gpt'"),
        ("/api/look/attention", {"options": {}}, "name a run; known: lstm, gpt, attentive, transformer, heads, bytes"),
        ("/api/look/attention", {"runs": ["lstm"]}, "no attention"),
        ("/api/look/next", {"runs": ["lstm"], "options": {"top": "many"}}, "top"),
        ("/api/look/next", {"runs": ["lstm"], "options": {"topp": 3}}, "did you mean 'top'"),
        ("/api/look/next", {"runs": ["lstm"], "options": 3}, "options"),
        ("/api/look/next", {"runs": "lstm"}, "runs"),
        ("/api/look/next", {"runs": ["lstm"], "more": 1}, "unknown field 'more'"),
        ("/api/look/tokens", {"runs": ["lstm"], "options": {"text": "half \ud800"}}, "half a character"),
        ("/api/look/surprisal", {"runs": ["gpt"], "options": {"text": "the " * 40}}, "32 positions"),
        ("/api/look/surprisal", {"runs": ["gpt"], "options": {"text": "the", "off": ["7.7"]}}, "unknown head '7.7'"),
        ("/api/save/tokens", {"runs": ["lstm"], "format": "exe"}, "known: html, json, svg"),
        ("/api/step", {"runs": ["lstm"], "chosen": [10**9]}, "there is no token"),
        ("/api/step", {"runs": ["attentive"], "text": " "}, "there is no text"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(app: Any, path: str, body: dict[str, Any], sentence: str) -> None:
    response = ask(app, path, **body)
    assert response.status_code == HTTPStatus.UNPROCESSABLE_ENTITY
    assert sentence in response.json()["error"] and "\n" not in response.json()["error"]


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"[" * 100_000, b'"text"', b"\xff\xfe", b"NaN"])
def test_a_body_that_is_not_an_object_is_rejected(app: Any, content: bytes) -> None:
    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as browser:
            return await browser.post("/api/step", content=content)

    response = asyncio.run(answer())
    assert response.status_code == HTTPStatus.UNPROCESSABLE_ENTITY and len(response.json()["error"]) < 200


def test_a_view_is_saved_as_a_standalone_file(app: Any) -> None:
    body = {"runs": ["lstm"], "options": {"text": "the ball"}}
    assert ask(app, "/api/save/next", **body, format="svg").text.startswith("<svg")
    page = ask(app, "/api/save/next", **body, format="html")
    assert page.text.startswith("<!doctype html>") and 'filename="next.html"' in page.headers["content-disposition"]
    assert json.loads(ask(app, "/api/save/next", **body, format="json").text)["title"]


def test_a_newer_request_for_a_view_supersedes_the_older(app: Any, worker: Worker) -> None:
    released = threading.Event()
    worker.submit(lambda: released.wait(10))
    body = {"runs": ["lstm"], "client": "tab", "place": "next-0"}

    async def both() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as browser:
            requests = [
                asyncio.ensure_future(browser.post("/api/look/tokens", json={**body, **more}))
                for more in (
                    {"options": {"text": "old"}},
                    {"options": {"text": "other"}, "client": "another"},
                    {"options": {"text": "new"}},
                )
            ]
            while len(worker.waiting) < 2:
                await asyncio.sleep(0.001)
            await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
            released.set()
            return list(await asyncio.gather(*requests))

    old, other, new = asyncio.run(both())
    assert old.status_code == HTTPStatus.CONFLICT and old.json()["superseded"]
    assert other.status_code == new.status_code == 200


def test_fifty_quick_requests_of_two_tabs_neither_stall_nor_mix(app: Any, inspector: Inspector) -> None:
    texts = {tab: [f"{tab} the ball {'x' * number}" for number in range(25)] for tab in ("a", "b")}

    async def ask_everything() -> dict[str, list[httpx.Response]]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://localhost", timeout=60
        ) as browser:
            requests = {
                tab: [
                    browser.post(
                        "/api/look/surprisal",
                        json={"runs": ["lstm"], "client": tab, "place": f"v{number % 3}", "options": {"text": text}},
                    )
                    for number, text in enumerate(tab_texts)
                ]
                for tab, tab_texts in texts.items()
            }
            return {tab: list(await asyncio.gather(*each)) for tab, each in requests.items()}

    answers_by_tab = asyncio.run(ask_everything())
    for tab, answers in answers_by_tab.items():
        good = [
            (text, answer.json()) for text, answer in zip(texts[tab], answers, strict=True) if answer.status_code == 200
        ]
        assert {answer.status_code for answer in answers} <= {200, 409}
        assert {text for text, _ in good} >= set(texts[tab][-3:])
        for text, answer in good:
            assert "".join(answer["facts"]["tokens"]) == text


def test_a_disconnected_request_is_dropped(app: Any, worker: Worker) -> None:
    released = threading.Event()
    blocking = worker.submit(lambda: released.wait(10))
    while worker.running is not blocking:
        pass
    body = json.dumps({"runs": ["lstm"], "options": {"text": "the ball"}}).encode()
    messages = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/look/tokens",
        "headers": [],
        "query_string": b"",
        "http_version": "1.1",
    }
    sent = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert not worker.waiting
    released.set()
    assert sent[0]["status"] == HTTPStatus.SERVICE_UNAVAILABLE


class Nothing(Section):
    """A section without options."""


@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_is_reported_in_one_line_and_logged_only_with_debug(
    inspector: Inspector, worker: Worker, debug: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(runs: Any, options: Any) -> View:
        raise KeyError("some\nthing")

    monkeypatch.setitem(INSTRUMENTS, "broken", Instrument("fails", Nothing, fail))
    with caplog.at_level(logging.ERROR):
        response = ask(page_app(inspector, worker, debug=debug), "/api/look/broken", runs=["lstm"])
    assert response.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert (
        response.json()["error"].startswith("this is a bug in clew: KeyError") and "\n" not in response.json()["error"]
    )
    assert ("Traceback" in caplog.text) is debug


def test_non_finite_numbers_become_null(inspector: Inspector, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    view = View(
        "odd", [Note("a < b & \ud800")], facts={"a": float("nan"), "b": [float("inf"), 1.5], "long": [0.0] * 5000}
    )
    monkeypatch.setitem(INSTRUMENTS, "odd", Instrument("odd", Nothing, lambda subjects, options: view))
    response = ask(page_app(inspector, worker), "/api/look/odd", runs=["lstm"])
    assert response.json()["facts"] == {"a": None, "b": [None, 1.5]}
    assert "a &lt; b &amp;" in response.json()["html"]


def test_runs_with_the_same_name_are_named_by_their_folders(folders: dict[str, Path], inspector: Inspector) -> None:
    lstm = inspector.runs["lstm"]
    other = type(lstm)(Path("elsewhere/lstm"), lstm.config, lstm.vocabularies, lstm.task)
    assert list(Inspector([lstm, other]).runs) == [str(folders["lstm"]), "elsewhere/lstm"]
