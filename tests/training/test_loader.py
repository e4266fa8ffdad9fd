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
    found = list(islice(Loader(BATCHES, workers, pin=False).ahead(0, 2), 7))
    assert [position[:2] for position in found] == [position[:2] for position in expected]
    for (*_, there), (*_, here) in zip(expected, found, strict=True):
        assert torch.equal(there.x, here.x) and there.fresh == here.fresh


def test_a_worker_that_dies_ends_the_run_with_a_sentence() -> None:
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


def test_a_signal_to_all_processes_of_a_job_leaves_the_workers_at_work() -> None:
    """The one that trains has its own way to stop, and may want another batch before it has noticed."""
    source = Loader(Batches(lambda epoch: 100, batch_of), 2, pin=False).ahead(0, 0)
    next(source), next(source)  # one of each, so that both are at work
    for worker in multiprocessing.active_children():
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(worker.pid, number)
    assert [batch for _, batch, _ in islice(source, 30)] == list(range(2, 32))


def test_a_mistake_in_a_batch_is_told_as_it_is() -> None:
    def get(epoch: int, number: int) -> Rows:
        raise KeyError("no such row")

    with pytest.raises(KeyError, match="no such row") as told:
        next(Loader(Batches(lambda epoch: 1, get), 1, pin=False).ahead(0, 0))
    assert told.tb and not multiprocessing.active_children(), (
        "the error holds the loader, and no process is left behind"
    )
