"""Child processes for fault injection. They are forked after the imports, so that starting one takes milliseconds. This
file knows no training and no fault, and works only on Linux."""

import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import torch

TIMEOUT = 60.0
"""Seconds after which a child that has not ended is considered to hang."""

RAISED = 70
"""The exit status of a child whose function raised."""


class CompletedProcess(NamedTuple):
    """The exit status of a child, or minus the number of the signal that killed it, and its output."""

    status: int
    out: str
    err: str

    @property
    def was_killed(self) -> bool:
        return self.status == -signal.SIGKILL

    @property
    def last_line(self) -> str:
        """The last line of standard error."""
        return (self.err.strip().splitlines() or [""])[-1]


class Child:
    """A process that runs `function` and exits with its result. It has its own process group, folder and output files.

    A child is a context manager. On exit, the child and all processes that it started are killed.
    """

    def __init__(self, function: Callable[[], int | None], folder: Path, environment: dict[str, str] | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        self.output = tempfile.mkdtemp(prefix="output-", dir=folder)
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warning about forking a process with threads
            self.pid = os.fork()
        if self.pid == 0:
            _run(function, folder, Path(self.output), environment or {})
        self.handle = os.pidfd_open(self.pid)
        self.status: int | None = None

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is None:
            self.send(signal.SIGKILL)
            self.ends_within(TIMEOUT)
        os.close(self.handle)

    def send(self, number: int) -> None:
        if self.status is None:
            signal.pidfd_send_signal(self.handle, number)

    def ends_within(self, seconds: float) -> bool:
        """Wait for at most `seconds`, and return whether the child has ended.

        Its process group is killed before the child is reaped, because its id cannot be reused before that.
        """
        if self.status is None and select.select([self.handle], [], [], max(seconds, 0.0))[0]:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def wait(self, seconds: float = TIMEOUT) -> CompletedProcess:
        if not self.ends_within(seconds):
            raise TimeoutError(f"a process did not end within {seconds:g} s")
        assert self.status is not None
        files = [Path(self.output) / name for name in ("out", "err")]  # missing if the child was killed at once
        return CompletedProcess(
            self.status, *(file.read_text(errors="replace") if file.exists() else "" for file in files)
        )


def _run(function: Callable[[], int | None], folder: Path, output: Path, environment: dict[str, str]) -> None:
    status = RAISED
    try:
        os.setpgid(0, 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        sys.stdin = open(os.devnull)  # noqa: SIM115
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        for alarm in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL):
            signal.setitimer(alarm, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        warnings.filters = [rule for rule in warnings.filters if rule[0] != "error"]  # set by a trial or a test
        warnings.simplefilter("default", append=True)
        os.chdir(folder)
        os.environ.update(environment)
        torch.set_num_threads(1)
        status = function() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run_child(
    function: Callable[[], int | None],
    folder: Path,
    environment: dict[str, str] | None = None,
    seconds: float = TIMEOUT,
) -> CompletedProcess:
    """Run a function in a child process and wait for its end."""
    with Child(function, folder, environment) as child:
        return child.wait(seconds)


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Create a temporary folder for one kind of fault, in memory if possible, because flushing to a disk is slow."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix=f"clew-{name}-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder. Repeated, because a process that was just killed may still write a file."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
