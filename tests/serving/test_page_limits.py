"""Requests that the page rejects, before they take memory."""

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from clew.core.errors import UserError
from clew.drawing.views import Note, Table
from clew.inspection.heads import layers_with_heads
from clew.serving.inspector import Column, Inspector, LookRequest
from clew.serving.page import page_app
from clew.serving.page_limits import MOST_MEMORY, check_parts, check_view_memory, memory
from clew.serving.worker import Worker
from tests.instruments.small_runs import small_run


@pytest.fixture
def app() -> Iterator[Any]:
    worker = Worker()
    yield page_app(Inspector([small_run(name) for name in ("attentive", "heads", "lstm", "gpt")]), worker)
    assert worker.close(10.0)


def ask(app: Any, path: str, **body: Any) -> httpx.Response:
    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://localhost", timeout=60
        ) as browser:
            return await browser.post(path, content=json.dumps(body))

    return asyncio.run(answer())


@pytest.mark.parametrize(
    ("path", "body", "longest"),
    [
        ("/api/look/attention", {"runs": ["heads"], "options": {"text": "the " * 225_000}}, "20,000"),
        ("/api/save/attention", {"runs": ["heads"], "options": {"text": "the " * 225_000}, "format": "svg"}, "20,000"),
        (
            "/api/look/attention",
            {"runs": ["attentive"], "options": {"text": "the", "target": "a " * 450_000}},
            "20,000",
        ),
        ("/api/look/tokens", {"runs": ["lstm"], "options": {"text": "a" * 900_000}}, "20,000"),
        ("/api/look/track", {"runs": ["lstm"], "options": {"text": "a" * 900_000}}, "100,000"),
        ("/api/step", {"runs": ["lstm"], "text": "a" * 900_000}, "20,000"),
    ],
)
def test_too_long_a_text_is_rejected_with_the_limit_and_takes_no_memory(
    app: Any, path: str, body: dict[str, Any], longest: str
) -> None:
    tracemalloc.start()
    response = ask(app, path, **body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert response.status_code == 422
    assert (
        f"the text has 900,000 characters, but the page reads at most {longest} here; shorten it"
        ", or use `clew look` on the command line" in response.json()["error"]
    )
    assert peak < 50_000_000


def test_attention_that_would_take_gigabytes_is_rejected_before_the_model_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run("heads")
    monkeypatch.setattr(type(run.task), "forward", lambda *arguments, **options: pytest.fail("the model was run"))
    with pytest.raises(
        UserError,
        match=(
            r"attention of heads takes about .* GB for this text, but a view of the page may take at most 4 GB; shorten"
        ),
    ):
        Inspector([run]).view("attention", LookRequest(runs=("heads",), options={"text": "a " * 9_999}))


def test_the_memory_estimate_is_quadratic_for_attention_and_linear_otherwise() -> None:
    words = "the walls " * 100
    heads, lstm = small_run("heads"), small_run("lstm")
    assert memory("attention", heads, [words * 10]) / memory("attention", heads, [words]) == pytest.approx(100, rel=0.1)
    assert memory("surprisal", lstm, [words * 10]) / memory("surprisal", lstm, [words]) == pytest.approx(10, rel=0.1)
    assert memory("attention", heads, [words]) >= 4 * 200**2 * sum(
        layer.num_heads for layer in layers_with_heads(heads.task)
    )


@pytest.mark.parametrize("name", ["tokens", "surprisal", "cells"])
def test_a_long_text_is_accepted_by_cheap_views(app: Any, name: str) -> None:
    response = ask(app, f"/api/look/{name}", runs=["lstm"], options={"text": "the walls " * 200})
    assert response.status_code == 200 and response.json()["html"]


def test_a_thousand_tokens_fit_a_model_of_twelve_layers_with_twelve_heads() -> None:
    assert MOST_MEMORY > 4 * 1024**2 * 144 * 3 + 8 * 1024 * 50_257
    check_view_memory("attention", [small_run("heads")], {"text": "the walls were tall " * 250})


def test_too_large_a_picture_is_not_drawn() -> None:
    check_parts([Note("a" * 1000), Table(("word",), [("the",)] * 1000)])
    with pytest.raises(
        UserError,
        match=r"the picture has about 62 MB, but the page shows at most 32 MB; shorten the text"
        ", or ask for less of it",
    ):
        check_parts([Note("a" * 10_000_000)])


def test_one_too_large_column_is_rejected_and_the_other_is_shown() -> None:
    short, long = {"text": "the walls"}, {"text": "a " * 9_999}
    runs = [small_run("heads"), small_run("gpt")]
    request = LookRequest(runs=("gpt",), options=short, beside=(Column(runs=["heads"], options=long),))
    shown, refused = Inspector(runs).look("attention", request)["views"]
    assert shown["title"] == "Attention" and shown["html"]
    assert "attention of heads takes about" in refused["error"] and "html" not in refused
