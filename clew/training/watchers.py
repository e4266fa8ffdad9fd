"""The observers of a training run: signals that request a stop, the report, and the user's callbacks."""

from dataclasses import dataclass, field

from clew.core.processes import from_first
from clew.training.callbacks import Callbacks
from clew.training.report import Report, Silence
from clew.training.signals import Request


@dataclass
class Watchers:
    request: Request = field(default_factory=Request)
    report: Report = field(default_factory=Silence)
    callbacks: Callbacks = field(default_factory=Callbacks)

    def ask_to_stop(self) -> bool:
        """Whether a signal or a callback has asked this process to stop."""
        return bool(self.request) or self.callbacks.ask_to_stop

    def stopping_callback(self) -> str:
        """Return the name of the callback that asked to stop, on every process; empty if a signal did, or if a callback
        raised an error."""
        callbacks = self.callbacks
        return from_first(
            lambda: "" if self.request or callbacks.error is not None else callbacks.stopped_by or "",
        )
