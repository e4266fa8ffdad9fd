"""One thread runs one job at a time: jobs are dropped, ended, and never mixed."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from clew.core.taps import Tap, watching
from clew.serving.worker import Busy, Ended, Late, Superseded, Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker(longest_queue=8)
    yield started
    assert started.close(5.0)


def until(event: threading.Event, model: nn.Module) -> Any:
    """Work that calls a module repeatedly, as decoding does, until the event is set."""

    def work() -> str:
        while not event.wait(0.001):
            model(torch.zeros(1, 1))
        return "done"

    return work


def test_a_job_returns_the_result_of_its_work_or_raises(worker: Worker) -> None:
    def fail() -> None:
        raise ZeroDivisionError("by nothing")

    assert asyncio.run(worker.do(lambda: 6 * 7)) == 42
    with pytest.raises(ZeroDivisionError, match="by nothing"):
        asyncio.run(worker.do(fail))
    assert asyncio.run(worker.do(lambda: threading.current_thread().name)) == "clew-worker"


def test_a_newer_job_of_a_key_ends_the_running_one_and_drops_the_waiting_one(worker: Worker) -> None:
    released = threading.Event()
    ran: list[str] = []
    running = worker.submit(until(released, nn.Linear(1, 1)), key=("tab", "attention"))
    waiting = worker.submit(lambda: ran.append("waiting"), key=("tab", "attention"))
    other = worker.submit(lambda: "other tab", key=("other", "attention"))
    newest = worker.submit(lambda: "newest", key=("tab", "attention"))
    for job in (running, waiting):
        with pytest.raises(Superseded, match="a newer request"):
            job.result.result(5)
    assert newest.result.result(5) == "newest" and other.result.result(5) == "other tab"
    assert ran == [] and not released.is_set()


def test_a_late_request_does_not_supersede_a_newer_one() -> None:
    worker, started, released = Worker(), threading.Event(), threading.Event()
    busy = worker.submit(lambda: started.set() or released.wait(10))
    assert started.wait(10)
    newer = worker.submit(lambda: "newer", "tab", number=2)
    with pytest.raises(Superseded, match="a newer request for this view arrived before it"):
        worker.submit(lambda: "older", "tab", number=1)
    released.set()
    assert newer.result.result(10) == "newer" and busy.result.result(10)
    worker.close()


def test_work_over_the_time_limit_is_ended_and_the_next_job_runs(worker: Worker) -> None:
    late = worker.submit(until(threading.Event(), nn.Linear(1, 1)), seconds=0.02)
    after = worker.submit(lambda: "after")
    with pytest.raises(Late, match=r"longer than 0.02 seconds"):
        late.result.result(5)
    assert after.result.result(5) == "after"


def test_the_length_of_the_queue_is_limited() -> None:
    worker, released = Worker(longest_queue=2), threading.Event()
    running = worker.submit(until(released, nn.Linear(1, 1)))
    while worker.running is not running:
        pass
    for _ in range(2):
        worker.submit(lambda: None)
    with pytest.raises(Busy, match="2 requests are waiting already"):
        worker.submit(lambda: None)
    released.set()
    assert worker.close(5.0)
    with pytest.raises(Busy, match="shutting down"):
        worker.submit(lambda: None)


def test_work_that_nobody_waits_for_is_ended(worker: Worker) -> None:
    never = threading.Event()

    async def leave() -> None:
        task = asyncio.ensure_future(worker.do(until(never, nn.Linear(1, 1))))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    assert asyncio.run(worker.do(lambda: "next")) == "next"


def test_taps_of_one_job_are_not_seen_by_others(worker: Worker) -> None:
    tap = Tap()
    values_by_job: dict[int, list[float]] = {number: [] for number in range(16)}

    def work(number: int) -> Any:
        def look() -> None:
            with watching({tap: lambda x: values_by_job[number].append(float(x))}):
                tap(torch.tensor(float(number)))
            tap(torch.tensor(-1.0))

        return look

    def forgetful(number: int) -> Any:
        def look() -> None:
            context = watching({tap: lambda x: values_by_job[number].append(float(x))})
            context.__enter__()  # and never exited
            tap(torch.tensor(float(number)))

        return look

    async def everyone() -> None:
        await asyncio.gather(
            *(worker.do((forgetful if number % 5 == 0 else work)(number)) for number in values_by_job if number < 8)
        )
        await asyncio.gather(*(worker.do(work(number)) for number in values_by_job if number >= 8))

    asyncio.run(everyone())
    assert values_by_job == {number: [float(number)] for number in values_by_job}


def test_closing_ends_running_and_waiting_jobs() -> None:
    worker = Worker()
    jobs = [worker.submit(until(threading.Event(), nn.Linear(1, 1))) for _ in range(3)]
    assert worker.close(5.0)
    for job in jobs:
        with pytest.raises(Ended, match="shutting down"):
            job.result.result(1)


def test_modules_in_other_threads_are_not_interrupted(worker: Worker) -> None:
    running = worker.submit(until(threading.Event(), nn.Linear(1, 1)), key="a")
    worker.submit(lambda: None, key="a")
    assert nn.Linear(1, 1)(torch.ones(1, 1)).shape == (1, 1)
    with pytest.raises(Superseded):
        running.result.result(5)
