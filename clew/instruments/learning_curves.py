"""The learning curves of runs side by side: what each logged while it trained, measure by measure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.drawing.comparing import NONE
from clew.drawing.curves import Curve, thinned
from clew.drawing.views import Lines, Part, Series, Table, View
from clew.instruments.instrument import Instrument
from clew.instruments.subject import Subject, subject_names
from clew.metrics.units import with_unit
from clew.runs.comparison import curve
from clew.runs.directory import METRICS
from clew.runs.summary import Summary, numbers, summarise

FIRST = ("train.loss", "valid.loss")
BASELINE = ".baseline_"
"""In the names of what is known of the data alone, and the same for every run."""
MOST_COLUMNS = 6


class CurvesOptions(Section):
    """Which of them."""

    measures: tuple[str, ...] = Field(
        (), description="what is drawn, such as train.loss,gradient_norm; all that was judged where not given"
    )
    log: bool = Field(False, description="a logarithmic axis")


def look_at_curves(subjects: Sequence[Subject], options: CurvesOptions) -> View:
    folders = [subject.folder for subject in subjects if subject.folder is not None]
    found = dict(zip(subject_names(subjects), map(summarise, folders), strict=True))
    known = measures_of(list(found.values()))
    missing = [measure for measure in options.measures if measure not in known]
    if missing:
        raise UserError(f"no run has logged {missing[0]!r}; logged: {', '.join(known) or 'nothing'}")
    parts: list[Part] = []
    for measure in options.measures or [name for name in known if is_judged(name)] or known:
        series = [series_of(name, run, measure) for name, run in found.items()]
        is_positive = all(value > 0 for one in series for value in one.y)
        parts.append(Lines(series, "step", with_unit(measure, known), measure, log_y=options.log and is_positive))
    parts.append(best_table(found))
    facts = {
        str(folder): {"best": each.best, "curves": {measure: [list(part) for part in curve(each, measure)] for measure in known}}
        for folder, each in zip(folders, found.values(), strict=True)
    }
    return View("Learning curves", parts, f"{len(known)} measures of {len(found)} run{'s' if len(found) > 1 else ''}", facts)


def series_of(name: str, run: Summary, measure: str) -> Series:
    """A run keeps its colour in every picture, also where it logged nothing of what others did."""
    drawn = thinned(Curve(*curve(run, measure)))
    return Series(name if drawn.steps else f"{name} ({NONE})", drawn.steps, drawn.values)


def best_table(found: Mapping[str, Summary]) -> Table:
    """What all runs measured first, then what only some did."""
    judged = Counter(measure for run in found.values() for measure in run.best if BASELINE not in measure)
    shown = sorted(judged, key=lambda measure: (judged[measure] < len(found), measure))[:MOST_COLUMNS]
    rows = [
        (name, run.state, run.step, *(round(run.best[measure], 4) if measure in run.best else NONE for measure in shown))
        for name, run in found.items()
    ]
    return Table(("run", "state", "steps", *(with_unit(measure, judged) for measure in shown)), rows, "The best evaluation of each")


def measures_of(runs: Sequence[Summary]) -> list[str]:
    """What any of the runs logged more than once: the losses first, then what else was judged, in training last, then all that was
    only noted."""
    counts = [Counter(name for record in run.records for name in numbers(record)) for run in runs]
    several = {name for count in counts for name, times in count.items() if times > 1 and name != "step"}
    return [name for name in FIRST if name in several] + sorted(several - set(FIRST), key=lambda name: (*rank_of(name), name))


def is_judged(name: str) -> bool:
    return name.startswith(("train.", "valid.", "test.")) and not name.endswith("_count")  # how many something is the mean of


def rank_of(name: str) -> tuple[bool, bool]:
    return not is_judged(name), name.startswith("train.")


def why_no_curves(subject: Subject) -> str | None:
    if subject.folder is None:
        return f"{subject.name} is a module, and no run that logged anything"
    if (subject.folder / METRICS).is_file() and measures_of([summarise(subject.folder)]):
        return None
    return f"{subject.name} has no curves: it was imported or made of others, or trained for too few steps to log anything twice"


CURVES = Instrument("what was logged in training: losses, scores, speed", CurvesOptions, look_at_curves, fits=why_no_curves, several=True)
