import multiprocessing
import os
import signal
from itertools import islice

import pytest
import torch

from clew.core.batches import Batches
from clew.core.errors import UserError
from clew.training.loader import Loader
from tests.training.tasks import Rows


def batch_of(epoch: int, number: int) -> Rows:
    return Rows(torch.full((2, 3), 100.0 * epoch + number), fresh=number == 0)


BATCHES = Batches(lambda epoch: 3 + epoch, batch_of)


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_any_number_of_workers_gives_the_same_batches_in_the_same_order(workers: int) -> None:
    expected = [(e, b, batch_of(e, b)) for e, b in [(0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1)]]
    actual = list(islice(Loader(BATCHES, workers, pin=False).ahead(0, 2), 7))
    assert [position[:2] for position in actual] == [position[:2] for position in expected]
    for (*_, expected_batch), (*_, actual_batch) in zip(expected, actual, strict=True):
        assert torch.equal(expected_batch.x, actual_batch.x) and expected_batch.fresh == actual_batch.fresh


def test_a_dying_worker_ends_the_run_with_a_message() -> None:
    def get(epoch: int, number: int) -> Rows:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch_of(epoch, number)

    source = Loader(Batches(lambda epoch: 100, get), 1, pin=False).ahead(0, 0)
    with pytest.raises(
        UserError,
        match="a worker process that makes batches died .* resume with resume=True, and with training.workers=0 if it",
    ):
        list(source)


def test_workers_ignore_signals_to_the_whole_job() -> None:
    """The training process handles the signal itself, and may need more batches before it stops."""
    source = Loader(Batches(lambda epoch: 100, batch_of), 2, pin=False).ahead(0, 0)
    next(source), next(source)  # one batch of each worker, so that both are running
    for worker in multiprocessing.active_children():
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(worker.pid, number)
    assert [batch for _, batch, _ in islice(source, 30)] == list(range(2, 32))


def test_an_error_in_a_batch_is_raised_unchanged() -> None:
    def get(epoch: int, number: int) -> Rows:
        raise KeyError("no such row")

    with pytest.raises(KeyError, match="no such row") as caught:
        next(Loader(Batches(lambda epoch: 1, get), 1, pin=False).ahead(0, 0))
    assert caught.tb and not multiprocessing.active_children(), (
        "the error holds the loader, and no process is left behind"
    )
