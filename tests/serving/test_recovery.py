"""A request that breaks the worker is answered, and so is the next one."""

import asyncio
import gc
import logging
import threading
import time
import weakref
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import httpx
import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers
from torch import nn

from clew.serving import worker as worker_module
from clew.serving.inspector import Inspector
from clew.serving.page import page_app
from clew.serving.service import Service
from clew.serving.worker import Failed, Worker
from clew.tasks.classification import Classifier
from tests.instruments.small_runs import small_run
from tests.serving.asking import BACKTRACKING, run_with_pattern

ATTACK = "a" * 40 + "b"


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker()
    yield started
    assert started.close(10.0)


def ask_all(app: Any, requests: list[tuple[str, Any]]) -> list[httpx.Response]:
    """Send requests one after the other."""

    async def everyone() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
            return [
                await (client.get(path) if body is None else client.post(path, json=body)) for path, body in requests
            ]

    return asyncio.run(everyone())


def panic() -> Any:
    """Raise the panic of the tokenizers library, as a pattern of an imported tokenizer can."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(BACKTRACKING), "isolated")
    return tokenizer.encode(ATTACK)


def test_a_panic_of_a_library_is_answered(worker: Worker) -> None:
    for _ in range(2):
        with pytest.raises(Failed, match="PanicException"):
            asyncio.run(worker.do(panic))
        assert worker.is_ready and asyncio.run(worker.do(lambda: 6 * 7)) == 42


def test_a_worker_continues_after_a_hundred_panics(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service, original = Service([small_run("classifier")], worker, wait=0.0), Classifier.classify

    class Panic(BaseException):
        pass

    panics = cycle((Panic, SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError))

    def attacked(self: Classifier, texts: Any, *arguments: Any, **options: Any) -> Any:
        if "attack" in str(texts):
            raise next(panics)
        return original(self, texts, *arguments, **options)

    (before,) = ask_all(service.app(), [("/classify", {"text": "a red fox"})])
    monkeypatch.setattr(Classifier, "classify", attacked)
    with caplog.at_level(logging.ERROR, logger="clew"):
        responses = ask_all(service.app(), [("/classify", {"text": "attack"}), ("/health", None)] * 100)
    assert [response.status_code for response in responses] == [500, 200] * 100
    assert all(
        "ended the work on this request" in answer.json()["error"] or "MemoryError" in answer.json()["error"]
        for answer in responses[::2]
    )
    logged = [record.message for record in caplog.records]
    # A MemoryError is an Exception, and answered as such.
    for kind in (
        Panic,
        SystemExit,
        KeyboardInterrupt,
        GeneratorExit,
    ):
        assert logged.count(f"the worker met {kind.__name__}, and continues") == 20
    assert "red fox" not in caplog.text
    (after,) = ask_all(service.app(), [("/classify", {"text": "a red fox"})])
    assert after.status_code == 200 and after.json() == before.json()


def test_a_panicking_request_does_not_affect_others_in_its_batch(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, original = Service([small_run("classifier")], worker, wait=0.05), Classifier.classify

    def attacked(self: Classifier, texts: Any, *arguments: Any, **options: Any) -> Any:
        if "attack" in str(texts):
            raise SystemExit
        return original(self, texts, *arguments, **options)

    monkeypatch.setattr(Classifier, "classify", attacked)

    async def together() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=service.app()), base_url="http://localhost"
        ) as client:
            texts = ["a red fox", "attack", "she went in"]
            return list(await asyncio.gather(*(client.post("/classify", json={"text": text}) for text in texts)))

    assert [response.status_code for response in asyncio.run(together())] == [200, 500, 200]


def test_a_backtracking_pattern_is_stopped_and_the_server_stays_responsive(worker: Worker) -> None:
    service = Service([run_with_pattern(BACKTRACKING)], worker, wait=0.0)
    slow_text = ("a" * 20 + "b") * 400
    health_checks: list[float] = []

    async def attack() -> tuple[httpx.Response, float]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=service.app()), base_url="http://localhost", timeout=60
        ) as client:
            began = time.monotonic()
            request = asyncio.ensure_future(client.post("/generate", json={"text": slow_text, "max_new": 2}))
            while not request.done():
                assert (await client.get("/health")).status_code == 200
                health_checks.append(time.monotonic())
                await asyncio.sleep(0.05)
            return await request, time.monotonic() - began

    response, seconds = asyncio.run(attack())
    assert response.status_code == 500 and "takes longer than 2 seconds on this text" in response.json()["error"]
    assert BACKTRACKING in response.json()["error"] and seconds < 20 and len(health_checks) > 10
    panicked, good, streamed = ask_all(
        service.app(),
        [
            ("/generate", {"text": text, "max_new": 2, "stream": stream})
            for text, stream in ((ATTACK, False), ("the", False), (ATTACK, True))
        ],
    )
    assert panicked.status_code == streamed.status_code == 500 and "gives up on this text" in panicked.json()["error"]
    (alone,) = run_with_pattern(BACKTRACKING).ask("generate", ["the"], max_new=2)
    assert good.json()["answers"][0]["text"] == alone[0].text


def test_the_page_survives_a_panic(worker: Worker) -> None:
    app = page_app(Inspector([run_with_pattern(BACKTRACKING)]), worker)
    body = {"runs": ["imported"], "options": {"text": ATTACK}}
    attacked, good = ask_all(
        app, [("/api/look/tokens", body), ("/api/look/tokens", {**body, "options": {"text": "the"}})]
    )
    assert attacked.status_code == 422 and "gives up on this text" in attacked.json()["error"]
    assert good.status_code == 200


def test_health_fails_without_a_worker_until_the_next_job_starts_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker()
    service = Service([small_run("classifier")], worker, wait=0.0)
    worker.close(10.0)
    assert ask_all(service.app(), [("/health", None)])[0].status_code == 503
    other = Worker()
    service = Service([small_run("classifier")], other, wait=0.0)
    monkeypatch.setattr(other, "_next", lambda: None)  # existing lanes end, as if they had been killed
    other.submit(lambda: None)
    for lane in other.lanes:
        lane.join(10)
    monkeypatch.undo()
    (health,) = ask_all(service.app(), [("/health", None)])
    assert health.status_code == 503 and health.json()["ready"] is False
    answer, health = ask_all(service.app(), [("/classify", {"text": "a red fox"}), ("/health", None)])
    assert answer.status_code == health.status_code == 200
    assert other.close(10.0)


def test_health_fails_while_overdue_work_blocks_the_worker(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "STUCK", 0.05)
    released = threading.Event()
    job = worker.submit(released.wait, seconds=0.05)
    while worker.is_ready:
        time.sleep(0.001)
    released.set()
    job.result.result(10)
    assert asyncio.run(worker.do(lambda: worker.is_ready))


def test_a_smaller_job_overtakes_a_larger_one_which_then_continues(worker: Worker) -> None:
    order: list[str] = []
    module, started = nn.Linear(1, 1), threading.Event()

    def large() -> float:
        x = torch.ones(1, 1)
        for _ in range(4):
            for _ in range(100):
                x = module(x).detach()
                started.set()
                time.sleep(0.0005)
            order.append("large")
        return float(x)

    with torch.no_grad():
        expected = torch.ones(1, 1)
        for _ in range(400):
            expected = module(expected)
    first = worker.submit(large, size=100)
    assert started.wait(10)
    assert worker.submit(lambda: order.append("small"), size=1).result.result(10) is None
    assert not first.result.done()
    assert first.result.result(20) == float(expected) and order[-1] == "large" and "small" in order


def test_jobs_of_one_size_are_never_interleaved(worker: Worker) -> None:
    order: list[int] = []
    module = nn.Linear(1, 1)

    def work(number: int) -> Any:
        def steps() -> None:
            for _ in range(60):
                module(torch.zeros(1, 1))
                order.append(number)
                time.sleep(0.001)

        return steps

    for job in [worker.submit(work(number)) for number in range(3)]:
        job.result.result(20)
    assert order == sorted(order) and len(order) == 180


def test_small_jobs_slow_down_a_large_one_but_never_stop_it(worker: Worker) -> None:
    module, is_done = nn.Linear(1, 1), threading.Event()

    def steps(count: int) -> Any:
        def work() -> None:
            for _ in range(count):
                module(torch.zeros(1, 1))
                time.sleep(0.001)

        return work

    def many() -> int:
        count = 0
        while not is_done.is_set():
            worker.submit(steps(30), size=1).result.result(10)
            count += 1
        return count

    async def both() -> int:
        small = asyncio.get_running_loop().run_in_executor(None, many)
        other = asyncio.get_running_loop().run_in_executor(None, many)
        await worker.do(steps(300), size=100)
        is_done.set()
        return await small + await other

    assert asyncio.run(asyncio.wait_for(both(), 60)) > 3


def test_an_idle_lane_keeps_no_reference_to_its_last_result(worker: Worker) -> None:
    class Answer:
        pass

    async def ask() -> weakref.ref[Answer]:
        return weakref.ref(await worker.do(Answer))

    reference = asyncio.run(ask())
    until = time.monotonic() + 10
    while reference() is not None and time.monotonic() < until:
        gc.collect()
        time.sleep(0.01)
    assert reference() is None
