"""One seeded, deterministic way to draw examples, and one thread a worker, where OMP_NUM_THREADS does not ask for
more."""

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
    import torch  # the process that hands out tests does without

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the processes that a test starts too
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

os.environ["CLEW_STATE"] = tempfile.mkdtemp(prefix="clew-state-")  # the user's own list of runs is left alone


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["CLEW_STATE"], ignore_errors=True)


def pytest_collection_finish() -> None:
    """What is imported and collected stays to the end: garbage collections need not look at it again and again."""
    gc.collect()
    gc.freeze()


# A shell that starts the suite in the background has interrupts ignored, here and in all that is started from here;
# tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, where playwright and the system have one."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()
