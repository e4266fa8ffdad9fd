"""A run's records as TensorBoard events, beside metrics.jsonl, where the package `tensorboard` is installed; else
nothing.

`tensorboard --logdir runs` then shows every run below runs/ by its folder's name.
"""

import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def numbers_of(record: Mapping[str, Any]) -> tuple[int, dict[str, float]] | None:
    """A record's step and its numbers, None where it has no step, or nothing else."""
    step = record.get("step")
    if not isinstance(step, int):
        return None
    found = {
        name: each
        for name, each in record.items()
        if isinstance(each, (int, float)) and not isinstance(each, bool) and name != "step"
    }
    return (step, found) if found else None


class Events:
    """Writes records as scalars into the run's folder: `train.loss` is shown as train/loss.

    A run that goes on passes the step it goes on from as `after`; what was written beyond that step before is no longer
    shown.
    """

    def __init__(self, folder: Path, *, after: int | None = None):
        self.writer: Any = None
        try:
            self.proto = import_module("tensorboard.compat.proto.event_pb2")
            self.summary = import_module("tensorboard.compat.proto.summary_pb2").Summary
            writer = import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter
        except ImportError:
            return
        self.writer = writer(str(folder))
        if after is not None:
            started = self.proto.SessionLog(status=self.proto.SessionLog.START)
            self.writer.add_event(self.proto.Event(wall_time=time.time(), step=after + 1, session_log=started))
            self.writer.flush()

    def add(self, record: Mapping[str, Any]) -> None:
        """A record of metrics.jsonl: its numbers at its step. What is no number, or has no step, is left out."""
        found = numbers_of(record)
        if self.writer is None or found is None:
            return
        step, numbers = found
        values = [
            self.summary.Value(tag=name.replace(".", "/", 1), simple_value=value) for name, value in numbers.items()
        ]
        self.writer.add_event(self.proto.Event(wall_time=time.time(), step=step, summary=self.summary(value=values)))
        self.writer.flush()

    def close(self) -> None:
        """Closes the file; a second time does nothing."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
