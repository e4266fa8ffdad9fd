"""Take the tour: run its stops in order, store each finding as soon as it is complete, and write the report."""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from clew.core.errors import unknown
from clew.core.files import write_text
from clew.tour.chapters import CHAPTERS
from clew.tour.experiment import Finding, Report, Scale
from clew.tour.experiments import EXPERIMENTS
from clew.tour.keeping import store_finding, stored_finding
from clew.tour.models import Models, train_models
from clew.tour.report import report_html


def stops() -> dict[str, str]:
    """Return the names and descriptions of all stops, those on the two models first."""
    return {name: stop.about for table in (CHAPTERS, EXPERIMENTS) for name, stop in table.items()}


def check_names(names: Iterable[str]) -> None:
    for name in names:
        if name not in stops():
            raise unknown("stop of the tour", name, stops())


def take_tour(
    folder: Path, page: Path, names: Collection[str], *, scale: Scale, seed: int, report: Report
) -> dict[str, Finding]:
    """Compute the missing findings in the order of the tour, and write a page with all findings of this scale and seed,
    new and stored."""
    check_names(names)
    folder.mkdir(parents=True, exist_ok=True)

    @cache
    def models() -> Models:
        return train_models(folder, scale, seed, report)

    findings: dict[str, Finding] = {}
    before = {
        name: finding
        for name in stops()
        if name not in names and (finding := stored_finding(folder, name, scale, seed)) is not None
    }
    chosen = [name for name in stops() if name in names]
    for number, name in enumerate(chosen, start=1):
        finding = stored_finding(folder, name, scale, seed)
        if finding is None:
            report(f"[{number}/{len(chosen)}] {name}: {stops()[name]}")
            finding = timed(lambda name=name: make(name, models, scale, seed, report))  # type: ignore[misc]
            store_finding(folder, name, scale, seed, finding)
        else:
            report(f"[{number}/{len(chosen)}] {name}: already complete")
        report(f"  {finding.measured}")
        findings[name] = finding
    reported = {**before, **findings}
    write_text(page, report_html({name: reported[name] for name in stops() if name in reported}, scale, seed))
    return findings


def make(name: str, models: Callable[[], Models], scale: Scale, seed: int, report: Report) -> Finding:
    return CHAPTERS[name].show(models()) if name in CHAPTERS else EXPERIMENTS[name].run(scale, seed, report)


def timed(find: Callable[[], Finding]) -> Finding:
    start = time.monotonic()
    finding = find()
    return replace(finding, seconds=round(time.monotonic() - start, 1))
