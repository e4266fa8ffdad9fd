"""Requests whose rows are generated in one running batch: shares, streams, and requests that leave or fail."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from clew.serving import writing
from clew.serving.calls import Call, call_of
from clew.serving.service import Service
from clew.serving.worker import Busy, Worker
from clew.serving.writing import Writer
from tests.instruments.small_runs import small_run
from tests.serving.asking import run_with_pattern


def call(text: str, name: str = "lstm", **options: Any) -> Call:
    return call_of(small_run(name), "generate", {"text": text, **options})


def with_writer(work: Any, name: str = "lstm", **options: Any) -> Any:
    async def run() -> Any:
        worker = Worker()
        joins = small_run(name).uses["generate"].joins
        assert joins is not None
        try:
            return await work(Writer(worker, small_run(name).task, joins, **options))
        finally:
            worker.close(10.0)

    return asyncio.run(run())


def alone(text: str, name: str = "lstm", **options: Any) -> list[str]:
    return [one.text for row in small_run(name).ask("generate", [text], **options) for one in row]


async def collected(pieces: Any) -> str:
    return "".join([piece async for piece in pieces])


async def settled(writer: Writer) -> None:
    while writer.submitting is not None and not writer.submitting.done():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("name", ["lstm", "gpt", "llama", "bytes"])
def test_requests_with_different_options_are_generated_together_like_single_ones(name: str) -> None:
    bodies = [
        {"text": "the walls", "max_new": 30, "seed": 3},
        {"text": "she", "max_new": 4, "method": "greedy"},
        {"text": "", "max_new": 40, "temperature": 0.5},
        {"text": "a", "max_new": 9, "top_k": 2, "samples": 5},
        {"text": "the thread was small", "max_new": 12, "top_p": 0.6},
    ]

    async def work(writer: Writer) -> Any:
        calls = [call_of(small_run(name), "generate", body) for body in bodies]
        streamed = [collected(writer.stream(each)) for each in calls if len(each.rows) == 1]
        results = await asyncio.gather(*(writer.answers(each) for each in calls), *streamed)
        await settled(writer)
        assert writer.batch.is_idle and writer.owners == {} and writer.active == [] and writer.open == []
        return results

    *answers, first, second, third, last = with_writer(work, name, rows=4)
    expected = [alone(name=name, **body) for body in bodies]
    assert [[one.text for row in each for one in row] for each in answers] == expected
    assert [[first], [second], [third], [last]] == [expected[0], expected[1], expected[2], expected[4]]


def test_a_request_with_many_rows_gets_only_its_share() -> None:
    async def work(writer: Writer) -> tuple[bool, list[int]]:
        many = asyncio.ensure_future(writer.answers(call("the", max_new=300, samples=40)))
        while not writer.owners:
            await asyncio.sleep(0.001)
        shares = []
        for _ in range(3):
            await writer.answers(call("she", max_new=3))
            shares.append(max(len(request.rows) for request in writer.active) if writer.active else 0)
        is_under_way = not many.done()
        many.cancel()
        await asyncio.wait([many])
        await settled(writer)
        assert writer.batch.is_idle
        return is_under_way, shares

    is_under_way, shares = with_writer(work, rows=8)
    assert is_under_way and all(share <= 8 for share in shares)


def test_closing_a_stream_removes_its_row_from_the_batch() -> None:
    async def work(writer: Writer) -> int:
        pieces = writer.stream(call("the", max_new=4000))
        await anext(pieces)
        await pieces.aclose()  # type: ignore[attr-defined]
        await settled(writer)
        assert writer.batch.is_idle and writer.streams == 0
        return writer.batch.steps

    assert with_writer(work) < 4000


def test_a_batch_without_requests_releases_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "REST", 0.02)

    async def work(writer: Writer) -> tuple[bool, bool]:
        first = await writer.answers(call("she", max_new=3))
        is_held = writer.batch.running is not None
        while writer.batch.running is not None:
            await asyncio.sleep(0.001)
        assert await writer.answers(call("she", max_new=3)) == first
        return is_held, writer.batch.running is not None

    assert with_writer(work) == (True, True)


def test_a_batch_is_released_later_if_the_worker_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "REST", 0.02)

    async def work(writer: Writer) -> int:
        await writer.answers(call("she", max_new=3))
        refused = []
        submit = writer.worker.submit

        def refuse_once(work: Any, *more: Any, **options: Any) -> Any:
            if work == writer._rest and not refused:
                refused.append(work)
                raise Busy("the queue is full")
            return submit(work, *more, **options)

        monkeypatch.setattr(writer.worker, "submit", refuse_once)
        while writer.batch.running is not None:
            await asyncio.sleep(0.001)
        return len(refused)

    assert with_writer(work) == 1


def test_a_rejected_request_names_its_text_and_does_not_affect_others() -> None:
    async def work(writer: Writer) -> list[Any]:
        texts = call_of(small_run("lstm"), "generate", {"texts": ["the", "she Ж", "a"], "max_new": 5})
        requests = [writer.answers(texts), writer.answers(call("she Ж")), writer.answers(call("she", max_new=5))]
        results = await asyncio.gather(*requests, return_exceptions=True)
        await settled(writer)
        assert writer.batch.is_idle and writer.owners == {}
        return results

    several, one, good = with_writer(work)
    assert str(several).startswith("text 2: the prompt has characters") and str(one).startswith(
        "the prompt has characters"
    )
    assert [each.text for each in good[0]] == alone("she", max_new=5)


def test_an_error_in_the_batch_fails_all_its_requests_and_the_next_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(writer: Writer) -> list[Any]:
        advance, calls = writer.batch.advance, []

        def fails_once() -> Any:
            calls.append(1)
            if len(calls) == 3:
                raise RuntimeError("out of memory")
            return advance()

        monkeypatch.setattr(writer.batch, "advance", fails_once)
        lost = await asyncio.gather(
            *(writer.answers(call(text, max_new=20)) for text in ("the", "she")), return_exceptions=True
        )
        return [*lost, await writer.answers(call("the", max_new=5))]

    first, second, results = with_writer(work)
    assert isinstance(first, RuntimeError) and isinstance(second, RuntimeError)
    assert [each.text for each in results[0]] == alone("the", max_new=5)


def test_a_batch_ends_with_its_worker() -> None:
    async def work(writer: Writer) -> Any:
        request = asyncio.ensure_future(writer.answers(call("the", max_new=4000)))
        while not writer.owners:
            await asyncio.sleep(0.001)
        writer.worker.close(5.0)
        await asyncio.wait([request], timeout=5.0)
        return request.exception()

    assert "the server is shutting down" in str(with_writer(work))


@pytest.mark.parametrize(
    "options",
    [{"method": "beam"}, {"repetition_penalty": 1.2}, {"no_repeat_ngram": 3}, {"forced_end": True, "stop": ["a"]}],
)
def test_options_of_other_algorithms_do_not_join_the_batch(options: dict[str, Any]) -> None:
    request = call("the", max_new=5, **options)
    assert not request.joins and call("the", max_new=5).joins
    worker = Worker()
    try:
        service = Service([small_run("lstm")], worker)
        assert service.answerer(request) is service.batcher
        assert isinstance(service.answerer(call_of(service.runs["lstm"], "generate", {"text": "the"})), Writer)
    finally:
        worker.close(10.0)


def received_pieces(
    app: Any, path: str, body: dict[str, Any], stop_after: int
) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """The pieces and headers that a client receives which disconnects after some pieces."""

    async def run() -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
        parts: list[bytes] = []
        headers: list[tuple[bytes, bytes]] = []
        gone = asyncio.Event()
        messages = [{"type": "http.request", "body": json.dumps(body).encode()}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers.extend(message["headers"])
            elif message.get("body"):
                parts.append(message["body"])
                if len(parts) == stop_after:
                    gone.set()

        fields = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "headers": fields,
            "query_string": b"",
            "root_path": "",
        }
        await app(scope, receive, send)
        return parts, headers

    return asyncio.run(run())


def test_server_sent_events_end_with_the_full_text_or_with_the_connection() -> None:
    worker = Worker()
    try:
        service = Service([small_run("lstm")], worker)
        body = {"text": "the", "max_new": 12, "stream": True}
        parts, headers = received_pieces(service.app(), "/generate", body, 1000)
        events = [json.loads(part.decode().removeprefix("data: ")) for part in parts]
        assert (b"content-type", b"text/event-stream; charset=utf-8") in headers
        [text] = alone("the", max_new=12)
        assert events[-1] == {"done": True, "prompt": "the", "text": text} and len(events) > 3
        assert "".join(event["text"] for event in events[:-1]) == text
        parts, _ = received_pieces(service.app(), "/generate", {**body, "max_new": 4000}, 3)
        assert 3 <= len(parts) < 4000
        writer = service.answerer(call_of(service.runs["lstm"], "generate", {"text": "the"}))
        assert isinstance(writer, Writer) and writer.open == [] and writer.streams == 0
    finally:
        worker.close(10.0)


def test_texts_that_take_too_long_to_split_are_rejected_one_by_one() -> None:
    run = run_with_pattern(r"(a+)+$")
    joins = run.uses["generate"].joins
    assert joins is not None

    async def work() -> list[Any]:
        worker = Worker()
        run.vocabularies["tokenizer"].limit_time(0.3)
        writer = Writer(worker, run.task, joins)
        texts = ["a" * 40 + "!", "the"]
        try:
            calls: list[Coroutine[Any, Any, Any]] = [
                writer.answers(call_of(run, "generate", {"text": text, "max_new": 4})) for text in texts
            ]
            return await asyncio.gather(*calls, return_exceptions=True)
        finally:
            worker.close(10.0)

    lost, results = asyncio.run(work())
    assert isinstance(lost, Exception) and len(results[0]) == 1
