"""Findings for tests, made without any training."""

from clew.drawing.views import Note, View
from clew.tour.experiment import Experiment, Finding, Report, Scale
from tests.instruments.samples import every_part


def finding(text: str = "text", seconds: float = 2.0) -> Finding:
    return Finding(
        text,
        f"{text} is claimed",
        f"{text} is found",
        View(text, every_part(text), text),
        [(text, "claimed", "measured")],
        seconds,
    )


class Counting:
    """An experiment that records its calls; an interrupted one raises KeyboardInterrupt."""

    def __init__(self, *, interrupted: bool = False):
        self.calls: list[tuple[Scale, int]] = []
        self.interrupted = interrupted

    def __call__(self, scale: Scale, seed: int, report: Report) -> Finding:
        self.calls.append((scale, seed))
        report("counting")
        if self.interrupted:
            raise KeyboardInterrupt
        return Finding(
            "Counted", "one is one", f"seed {seed}", View("v", [Note("n")]), [("one", "1", str(len(self.calls)))]
        )

    @property
    def experiment(self) -> Experiment:
        return Experiment("counts", self)
