"""The learning curves of runs: the measures that each logged during training."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.drawing.comparing import NONE
from clew.drawing.curves import Curve, thinned
from clew.drawing.views import Lines, Part, Series, Table, View
from clew.instruments.instrument import Instrument
from clew.instruments.subjects.subject import Subject, subject_names
from clew.metrics.units import with_unit
from clew.runs.comparison import curve
from clew.runs.folder.records import Summary, measured_numbers
from clew.runs.folder.run_files import METRICS
from clew.runs.folder.summary import summarise

FIRST = ("train.loss", "valid.loss")
BASELINE = ".baseline_"
"""A part of the names of baselines, which depend only on the data and are equal for all runs."""
MOST_COLUMNS = 6


class CurvesOptions(Section):
    """The measures, and how they are drawn."""

    measures: tuple[str, ...] = Field(
        (), description="measures to draw, such as train.loss,gradient_norm; by default all evaluated ones"
    )
    log: bool = Field(False, description="use a logarithmic axis")


def look_at_curves(subjects: Sequence[Subject], options: CurvesOptions) -> View:
    folders = [subject.folder for subject in subjects if subject.folder is not None]
    summaries = dict(zip(subject_names(subjects), map(summarise, folders), strict=True))
    known_measures = measures_of(list(summaries.values()))
    missing = [measure for measure in options.measures if measure not in known_measures]
    if missing:
        raise UserError(f"no run has logged {missing[0]!r}; logged: {', '.join(known_measures) or 'nothing'}")
    parts: list[Part] = []
    for measure in options.measures or [name for name in known_measures if is_judged(name)] or known_measures:
        series = [series_of(name, run, measure) for name, run in summaries.items()]
        is_positive = all(value > 0 for line in series for value in line.y)
        parts.append(
            Lines(series, "step", with_unit(measure, known_measures), measure, log_y=options.log and is_positive)
        )
    parts.append(best_table(summaries))
    facts = {
        str(folder): {
            "best": each.best,
            "curves": {measure: [list(part) for part in curve(each, measure)] for measure in known_measures},
        }
        for folder, each in zip(folders, summaries.values(), strict=True)
    }
    return View(
        "Learning curves",
        parts,
        f"{len(known_measures)} measures of {len(summaries)} run{'s' if len(summaries) > 1 else ''}",
        facts,
    )


def series_of(name: str, run: Summary, measure: str) -> Series:
    """Return a run's line. A run without this measure has an empty line, so every run keeps its colour."""
    thin_curve = thinned(Curve(*curve(run, measure)))
    return Series(name if thin_curve.steps else f"{name} ({NONE})", thin_curve.steps, thin_curve.values)


def best_table(summaries: Mapping[str, Summary]) -> Table:
    """List the best evaluations: measures of all runs first, then those of some."""
    counts = Counter(measure for run in summaries.values() for measure in run.best if BASELINE not in measure)
    columns = sorted(counts, key=lambda measure: (counts[measure] < len(summaries), measure))[:MOST_COLUMNS]
    rows = [
        (
            name,
            run.state,
            run.step,
            *(round(run.best[measure], 4) if measure in run.best else NONE for measure in columns),
        )
        for name, run in summaries.items()
    ]
    return Table(
        ("run", "state", "steps", *(with_unit(measure, counts) for measure in columns)),
        rows,
        "The best evaluation of each run",
    )


def measures_of(runs: Sequence[Summary]) -> list[str]:
    """Return the measures that a run logged more than once: losses first, then other evaluated measures with those of
    training last, then the rest."""
    counts = [Counter(name for record in run.records for name in measured_numbers(record)) for run in runs]
    several = {name for count in counts for name, times in count.items() if times > 1 and name != "step"}
    return [name for name in FIRST if name in several] + sorted(
        several - set(FIRST), key=lambda name: (*rank_of(name), name)
    )


def is_judged(name: str) -> bool:
    # `_count` is the number of terms of a mean.
    return name.startswith(("train.", "valid.", "test.")) and not name.endswith("_count")


def rank_of(name: str) -> tuple[bool, bool]:
    return not is_judged(name), name.startswith("train.")


def why_no_curves(subject: Subject) -> str | None:
    if subject.folder is None:
        return f"{subject.name} is a module, not a run with a log"
    if (subject.folder / METRICS).is_file() and measures_of([summarise(subject.folder)]):
        return None
    return (
        f"{subject.name} has no curves: it was imported, or made from other runs, or trained for too few steps to log"
        " anything twice"
    )


CURVES = Instrument(
    "what a run logged during training: losses, scores, speed",
    CurvesOptions,
    look_at_curves,
    fits=why_no_curves,
    several=True,
)
