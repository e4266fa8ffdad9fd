"""Trials in separate processes, which read JSON lines from standard input and write JSON lines to standard output.

A worker receives a trial, and then an answer to each evaluation. It sends evaluations and an outcome. When its input
ends, it finishes the current step, saves and exits; this also happens if the search itself is killed.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from clew.core.errors import UserError
from clew.studies.trials import Decide, Evaluated, Outcome, TrialSpec, train_trial
from clew.training.checkpoints import DiskError
from clew.training.report import Silence
from clew.training.signals import Interrupted


class WorkerExited(Exception):
    """A worker process has exited; `code` is its exit code."""

    def __init__(self, code: int):
        super().__init__(f"exit code {code}")
        self.code = code


class Worker:
    """A process that trains one trial after another."""

    def __init__(self, command: list[str], jobs: int):
        environment = dict(os.environ)
        here = str(Path(__file__).parents[2])
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (here, environment.get("PYTHONPATH"))))
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
        # In a new session, so that Ctrl-C reaches only the search, which tells its workers to stop.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment,
            start_new_session=True,
        )

    def train(self, spec: TrialSpec, decide: Decide) -> Outcome | None:
        """Train a trial and return its outcome; None if the worker was told to stop and has saved the trial."""
        self.send({**asdict(spec), "folder": str(spec.folder), "code": spec.code and str(spec.code)})
        while True:
            message = self.receive()
            if "evaluated" in message:
                self.send({"end": decide(Evaluated(**message["evaluated"]))})
            elif "outcome" in message:
                return Outcome(**message["outcome"])
            elif "refused" in message:
                raise DiskError(message["refused"])
            elif "stopped" in message:
                return None

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):  # if the worker has exited, `receive` raises WorkerExited
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise WorkerExited(self.process.wait())
        message: dict[str, Any] = json.loads(line)
        return message

    def stop(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()

    def leave(self) -> None:
        """Stop the worker, and wait until it has exited."""
        assert self.process.stdout is not None
        self.stop()
        self.process.wait()
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()


def work(load_code: Callable[[Path], Any]) -> int:
    """Run a worker: train the trials from its input until the input ends."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the output of a user's code file must not mix with messages
    incoming: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def send(**message: Any) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    def listen() -> None:
        for line in sys.stdin:
            incoming.put(json.loads(line))
        incoming.put(None)
        signal.raise_signal(signal.SIGTERM)

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    def decide(last: Evaluated) -> bool:
        send(evaluated=asdict(last))
        answer = incoming.get()
        return answer is not None and bool(answer["end"])

    signal.signal(signal.SIGTERM, leave)
    try:
        threading.Thread(target=listen, daemon=True).start()
        while (message := incoming.get()) is not None:
            code = None if message["code"] is None else Path(message["code"])
            if code is not None:
                load_code(code)
            spec = TrialSpec(
                message["number"], message["recipe"], tuple(message["assignments"]), Path(message["folder"]), code
            )
            try:
                outcome = train_trial(spec, decide, Silence())
            except Interrupted:
                send(stopped=True)
                return 0
            except (OSError, DiskError) as error:
                send(
                    refused=str(error)
                    if isinstance(error, UserError)
                    else f"{error.filename or spec.folder}: {error.strerror or error}"
                )
                continue
            send(outcome=outcome.to_json())
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    return 0
