"""Processes that start with everything imported: they are forked from a server that has only imported clew.

Signals, exit codes, locks and communication of gradients work as in any other process; only the start is faster.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from clew.cli.main import main

METHOD = "forkserver" if sys.platform == "linux" else "spawn"
CONTEXT = multiprocessing.get_context(METHOD)
if METHOD == "forkserver":
    CONTEXT.set_forkserver_preload(["tests.warm", "clew.recipes.running", "torch.distributed.fsdp"])


class Command:
    """A running `clew` with these arguments in a folder; three files there are its standard streams."""

    def __init__(self, arguments: Sequence[str], folder: Path, stdin: bytes = b""):
        self.folder = folder
        (folder / "standard-in").write_bytes(stdin)
        self.process = CONTEXT.Process(target=_run, args=(list(arguments), folder))
        self.process.start()

    def stop(self, number: signal.Signals, when: Callable[[], bool]) -> tuple[int, str, str]:
        """Send a signal as soon as `when` is true; return the exit code and the output."""
        while not when():
            assert self.process.is_alive(), self.printed("err")
            time.sleep(0.01)
        os.kill(self.process.pid, number)
        return self.wait()

    def wait(self) -> tuple[int, str, str]:
        self.process.join(timeout=60)
        return self.process.exitcode, self.printed("out"), self.printed("err")

    def printed(self, name: str) -> str:
        return (self.folder / f"standard-{name}").read_text(encoding="utf-8", errors="surrogateescape")


def has_lines(path: Path, count: int) -> bool:
    return path.exists() and len(path.read_text().splitlines()) >= count


def _run(arguments: list[str], folder: Path) -> None:
    os.chdir(folder)
    os.environ.update(CLEW_CACHE=str(folder / "cache"))
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"standard-{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    torch.set_num_threads(1)
    with open("standard-in", encoding="utf-8") as sys.stdin:
        sys.exit(main(arguments))
