"""Deterministic hypothesis examples, one thread per worker unless OMP_NUM_THREADS sets more, and a browser."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("clew", derandomize=True, deadline=None, max_examples=25, print_blob=False)
settings.load_profile("clew")

if "PYTEST_XDIST_WORKER" in os.environ:
    import torch  # not needed in the process that distributes tests

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # also for processes that a test starts
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

os.environ["CLEW_STATE"] = tempfile.mkdtemp(prefix="clew-state-")  # so that the user's list of runs is not changed


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["CLEW_STATE"], ignore_errors=True)


def pytest_collection_finish() -> None:
    """Imported modules and collected tests live to the end, so garbage collection can skip them."""
    gc.collect()
    gc.freeze()


# A shell that starts the suite in the background ignores interrupts, here and in child processes; tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, if playwright and a browser are installed."""
    playwright = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()
