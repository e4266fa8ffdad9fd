"""A run's records as TensorBoard events, in addition to metrics.jsonl. Without the package `tensorboard`, nothing is
written.

`tensorboard --logdir runs` shows every run in runs/ by the name of its folder.
"""

import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def step_numbers(record: Mapping[str, Any]) -> tuple[int, dict[str, float]] | None:
    """Return a record's step and its numbers; None if it has no step or no numbers."""
    step = record.get("step")
    if not isinstance(step, int):
        return None
    numbers = {
        name: value
        for name, value in record.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name != "step"
    }
    return (step, numbers) if numbers else None


class Events:
    """Writes records as scalars to a folder: `train.loss` is shown as train/loss.

    A resumed run passes its step as `after`; TensorBoard then hides earlier events of later steps.
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
            start = self.proto.SessionLog(status=self.proto.SessionLog.START)
            self.writer.add_event(self.proto.Event(wall_time=time.time(), step=after + 1, session_log=start))
            self.writer.flush()

    def add(self, record: Mapping[str, Any]) -> None:
        """Write the numbers of a record at its step. Other values, and records without a step, are skipped."""
        point = step_numbers(record)
        if self.writer is None or point is None:
            return
        step, numbers = point
        values = [
            self.summary.Value(tag=name.replace(".", "/", 1), simple_value=value) for name, value in numbers.items()
        ]
        self.writer.add_event(self.proto.Event(wall_time=time.time(), step=step, summary=self.summary(value=values)))
        self.writer.flush()

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self.writer is not None:
            self.writer.close()
            self.writer = None
