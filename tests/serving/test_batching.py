"""The order of rows, and who leaves the queue: calls that a worker never gets to."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from clew.serving.batching import Batcher, QueuedCall
from clew.serving.calls import call_of
from clew.serving.worker import Busy, Worker
from tests.instruments.small_runs import small_run
from tests.serving.asking import Held


def rows_of(batcher: Batcher) -> list[list[str]]:
    """The batches that would be made, without the answers."""
    found = []
    while parts := batcher._next():
        found.append([row.text for part in parts for row in part.rows])
    return found


def with_batcher(work: Any, **options: Any) -> Any:
    async def run() -> Any:
        worker = Worker()
        try:
            return await work(Batcher(worker, **options))
        finally:
            worker.close(10.0)

    return asyncio.run(run())


def waiting(texts: str, **options: Any) -> QueuedCall:
    return QueuedCall(call_of(small_run("lstm"), "generate", {"texts": texts.split(), **options}))


def test_a_batch_takes_calls_of_the_first_ones_key_and_a_call_that_is_cut_goes_to_the_end() -> None:
    async def work(batcher: Batcher) -> list[list[str]]:
        batcher.waiting = [waiting("a b c d e f g"), waiting("n m", seed=7), waiting("h i"), waiting("o", seed=7)]
        return rows_of(batcher)

    assert with_batcher(work, batch=5) == [["a", "b", "c", "d", "e"], ["n", "m", "o"], ["h", "i", "f", "g"]]


def test_rows_keep_their_numbers_in_their_own_call() -> None:
    async def work(batcher: Batcher) -> list[list[int]]:
        batcher.waiting = [waiting("a b c"), waiting("d e")]
        return [part.numbers for _ in range(3) for part in batcher._next()]

    assert with_batcher(work, batch=2) == [[1, 2], [1, 2], [3]]


def test_a_call_whose_asker_leaves_is_not_answered() -> None:
    seen = []

    async def work(batcher: Batcher) -> None:
        def call(text: str) -> Coroutine[Any, Any, Any]:
            return batcher.answers(call_of(small_run("lstm"), "generate", {"text": text, "max_new": 1}))

        with Held(batcher.worker):
            first = asyncio.ensure_future(call("a"))
            while not batcher.running:
                await asyncio.sleep(0.001)
            gone, stays = asyncio.ensure_future(call("b")), asyncio.ensure_future(call("e"))
            while len(batcher.waiting) < 2:
                await asyncio.sleep(0.001)
            with pytest.raises(Busy, match="2 requests are waiting already"):
                await call("d")
            gone.cancel()
            await asyncio.wait([gone])
            assert len(batcher.waiting) == 1
        await first
        await stays

    with_batcher(work, wait=0.0, queue=2, observe=lambda call, rows, answers: seen.extend(row.text for row in rows))
    assert seen == ["a", "e"]
