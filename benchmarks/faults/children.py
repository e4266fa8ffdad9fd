"""Processes to do something to: forked after the imports, so that one costs milliseconds. Knows no training and no
fault. Linux only."""

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

LONGEST = 60.0
"""Seconds after which a child that has not ended is taken to hang."""

BROKEN = 70
"""The exit code of a child whose own code raised."""


class Ended(NamedTuple):
    """How a child ended: its exit code, or minus the signal that killed it, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def was_killed(self) -> bool:
        return self.status == -signal.SIGKILL

    @property
    def last(self) -> str:
        """The last line on standard error."""
        return (self.err.strip().splitlines() or [""])[-1]


class Child:
    """A process that does `do` and ends with what that gives, with a process group, a folder and output files of its
    own.

    Within the `with` of a child it may be waited for, signalled or killed; after it neither it nor what it started is
    there any more.
    """

    def __init__(self, do: Callable[[], int | None], folder: Path, environment: dict[str, str] | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        self.output = tempfile.mkdtemp(prefix="output-", dir=folder)
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of forking beside threads
            self.pid = os.fork()
        if self.pid == 0:
            _live(do, folder, Path(self.output), environment or {})
        self.handle = os.pidfd_open(self.pid)
        self.status: int | None = None

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is None:
            self.send(signal.SIGKILL)
            self.ends_within(LONGEST)
        os.close(self.handle)

    def send(self, number: int) -> None:
        if self.status is None:
            signal.pidfd_send_signal(self.handle, number)

    def ends_within(self, seconds: float) -> bool:
        """Whether it does. What it had started is killed before it is taken note of, while its number cannot be
        another's yet."""
        if self.status is None and select.select([self.handle], [], [], max(seconds, 0.0))[0]:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def wait(self, seconds: float = LONGEST) -> Ended:
        if not self.ends_within(seconds):
            raise TimeoutError(f"a process did not end within {seconds:g} s")
        assert self.status is not None
        files = [Path(self.output) / name for name in ("out", "err")]  # one that was killed at once has none
        return Ended(self.status, *(file.read_text(errors="replace") if file.exists() else "" for file in files))


def _live(do: Callable[[], int | None], folder: Path, output: Path, environment: dict[str, str]) -> None:
    status = BROKEN
    try:
        os.setpgid(0, 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(output / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        sys.stdin, sys.stdout, sys.stderr = open(os.devnull), open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        for alarm in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL):
            signal.setitimer(alarm, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        warnings.filters = [rule for rule in warnings.filters if rule[0] != "error"]  # those are a trial's, or a test's
        warnings.simplefilter("default", append=True)
        os.chdir(folder)
        os.environ.update(environment)
        torch.set_num_threads(1)
        status = do() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def done(
    do: Callable[[], int | None], folder: Path, environment: dict[str, str] | None = None, seconds: float = LONGEST
) -> Ended:
    """A child that is left alone until its end."""
    with Child(do, folder, environment) as child:
        return child.wait(seconds)


@contextmanager
def own_folder(name: str) -> Iterator[Path]:
    """A folder for as long as a kind of fault takes; in memory where the system has such a place: flushing to a disk
    takes longest."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix=f"clew-{name}-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """A process that was just killed may have had a last file to write."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
