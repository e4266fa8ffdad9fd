"""What the page refuses to look at, and that it does so before it has taken the memory."""

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
def test_a_text_that_is_too_long_is_refused_with_the_limit_and_takes_no_memory(
    app: Any, path: str, body: dict[str, Any], longest: str
) -> None:
    tracemalloc.start()
    found = ask(app, path, **body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.status_code == 422
    assert (
        f"the text has 900,000 characters, but the page reads at most {longest} here; shorten it"
        in found.json()["error"]
    )
    assert peak < 50_000_000


def test_attention_that_would_take_gigabytes_is_refused_before_the_model_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run("heads")
    monkeypatch.setattr(type(run.task), "forward", lambda *given, **options: pytest.fail("the model was run"))
    with pytest.raises(
        UserError,
        match=(
            r"attention of heads takes about .* GB for this text, but a view of the page may take at most 4 GB; shorten"
        ),
    ):
        Inspector([run]).view("attention", LookRequest(runs=("heads",), options={"text": "a " * 9_999}))


def test_the_estimate_grows_with_the_square_of_the_text_where_a_model_attends_and_with_the_text_where_not() -> None:
    words = "the walls " * 100
    heads, lstm = small_run("heads"), small_run("lstm")
    assert memory("attention", heads, [words * 10]) / memory("attention", heads, [words]) == pytest.approx(100, rel=0.1)
    assert memory("surprisal", lstm, [words * 10]) / memory("surprisal", lstm, [words]) == pytest.approx(10, rel=0.1)
    assert memory("attention", heads, [words]) >= 4 * 200**2 * sum(
        layer.num_heads for layer in layers_with_heads(heads.task)
    )


@pytest.mark.parametrize("name", ["tokens", "surprisal", "cells"])
def test_a_long_text_is_shown_where_that_costs_little(app: Any, name: str) -> None:
    found = ask(app, f"/api/look/{name}", runs=["lstm"], options={"text": "the walls " * 200})
    assert found.status_code == 200 and found.json()["html"]


def test_a_text_of_a_thousand_tokens_is_within_the_limits_of_a_model_of_twelve_layers_with_twelve_heads() -> None:
    assert MOST_MEMORY > 4 * 1024**2 * 144 * 3 + 8 * 1024 * 50_257
    check_view_memory("attention", [small_run("heads")], {"text": "the walls were tall " * 250})


def test_a_picture_that_would_stop_a_browser_is_not_drawn() -> None:
    check_parts([Note("a" * 1000), Table(("word",), [("the",)] * 1000)])
    with pytest.raises(
        UserError, match=r"the picture has about 62 MB, but the page shows at most 32 MB; shorten the text"
    ):
        check_parts([Note("a" * 10_000_000)])


def test_a_column_that_would_take_too_much_is_refused_and_the_one_beside_it_is_shown() -> None:
    short, long = {"text": "the walls"}, {"text": "a " * 9_999}
    runs = [small_run("heads"), small_run("gpt")]
    asked = LookRequest(runs=("gpt",), options=short, beside=(Column(runs=["heads"], options=long),))
    shown, refused = Inspector(runs).look("attention", asked)["views"]
    assert shown["title"] == "Attention" and shown["html"]
    assert "attention of heads takes about" in refused["error"] and "html" not in refused
