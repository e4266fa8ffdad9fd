"""The order of rows in batches, and calls that leave the queue before they are answered."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from clew.serving.batching import Batcher, QueuedCall
from clew.serving.calls import call_of
from clew.serving.worker import Busy, Worker
from tests.instruments.small_runs import small_run
from tests.serving.asking import Blocked


def rows_of(batcher: Batcher) -> list[list[str]]:
    """The batches that would be made, without computing answers."""
    batches = []
    while parts := batcher._next():
        batches.append([row.text for part in parts for row in part.rows])
    return batches


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


def test_a_batch_has_calls_of_one_key_and_a_split_call_moves_to_the_end() -> None:
    async def work(batcher: Batcher) -> list[list[str]]:
        batcher.waiting = [waiting("a b c d e f g"), waiting("n m", seed=7), waiting("h i"), waiting("o", seed=7)]
        return rows_of(batcher)

    assert with_batcher(work, batch=5) == [["a", "b", "c", "d", "e"], ["n", "m", "o"], ["h", "i", "f", "g"]]


def test_rows_keep_their_numbers_within_their_call() -> None:
    async def work(batcher: Batcher) -> list[list[int]]:
        batcher.waiting = [waiting("a b c"), waiting("d e")]
        return [part.numbers for _ in range(3) for part in batcher._next()]

    assert with_batcher(work, batch=2) == [[1, 2], [1, 2], [3]]


def test_a_call_whose_client_leaves_is_not_answered() -> None:
    answered = []

    async def work(batcher: Batcher) -> None:
        def call(text: str) -> Coroutine[Any, Any, Any]:
            return batcher.answers(call_of(small_run("lstm"), "generate", {"text": text, "max_new": 1}))

        with Blocked(batcher.worker):
            first = asyncio.ensure_future(call("a"))
            while not batcher.running:
                await asyncio.sleep(0.001)
            leaving, staying = asyncio.ensure_future(call("b")), asyncio.ensure_future(call("e"))
            while len(batcher.waiting) < 2:
                await asyncio.sleep(0.001)
            with pytest.raises(Busy, match="2 requests are waiting already"):
                await call("d")
            leaving.cancel()
            await asyncio.wait([leaving])
            assert len(batcher.waiting) == 1
        await first
        await staying

    with_batcher(work, wait=0.0, queue=2, observe=lambda call, rows, answers: answered.extend(row.text for row in rows))
    assert answered == ["a", "e"]
