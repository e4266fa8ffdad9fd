"""Kernels for a GPU that agree with their equations on the CPU and have not run on a GPU yet. CLEW_TRIAL_KERNELS=1 asks for them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# A global, since compiled code is made anew where one has changed, and not where the environment has.
_asked: bool | None = None


def are_asked_for() -> bool:
    return os.environ.get("CLEW_TRIAL_KERNELS") == "1" if _asked is None else _asked


@contextmanager
def asking(wanted: bool = True) -> Iterator[None]:
    """Within this context they are asked for, or not, whatever the environment says."""
    global _asked
    before, _asked = _asked, wanted
    try:
        yield
    finally:
        _asked = before
