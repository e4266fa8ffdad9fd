"""Runs and instruments as a page asks for them: what there is, and what an instrument sees, as JSON. Knows no server."""

import json
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError

from clew.core.config import Section
from clew.core.errors import UserError, unknown
from clew.inspection.heads import head_names
from clew.inspection.instrument import Instrument
from clew.inspection.stepping import next_step
from clew.inspection.views import View
from clew.runs.config import explain
from clew.runs.loaded import Run
from clew.runs.summary import summarise

QUICK_SECONDS, SLOW_SECONDS = 30.0, 900.0


class Asked(Section):
    """What every request says: who asks (a tab of a browser), for which place of its page, and of which runs."""

    client: str = Field("", max_length=64, description="the tab")
    place: str = Field("", max_length=64, description="what is shown: a newer request for it takes an older one's place")
    runs: tuple[str, ...] = Field((), max_length=8, description="names of runs")


class AskedLook(Asked):
    options: dict[str, Any] = Field(default_factory=dict, description="the instrument's own")


class AskedFile(AskedLook):
    format: str = Field("html", description="the file's ending")


class AskedStep(Asked):
    text: str = Field("", description="what a language model goes on from, or a translator reads")
    written: tuple[int, ...] = Field((), max_length=2000, description="the tokens that were chosen so far, by their ids")
    into: str = ""
    off: tuple[str, ...] = ()
    top: int = Field(12, ge=1, le=100, description="candidates that are named")


class Inspector:
    """Runs by name, and the table of instruments."""

    def __init__(self, runs: Sequence[Run], instruments: Mapping[str, Instrument]):
        self.runs = named_apart(runs)
        self.instruments = instruments
        self.described: dict[str, Any] | None = None
        self.lock = threading.Lock()

    def describe(self) -> dict[str, Any]:
        """What there is to look at; a run does not change, so that this is found out once."""
        with self.lock:
            if self.described is None:
                self.described = plain(
                    {
                        "runs": [described_run(name, run) for name, run in self.runs.items()],
                        "instruments": [self.described_instrument(name) for name in self.instruments],
                    }
                )
            return self.described

    def described_instrument(self, name: str) -> dict[str, Any]:
        instrument = self.instruments[name]
        return {
            "name": name,
            "about": instrument.about,
            "quick": instrument.quick,
            "several": instrument.several,
            "schema": instrument.options.model_json_schema(),
            "reasons": {run_name: reason for run_name, run in self.runs.items() if (reason := instrument.fits(run)) is not None},
        }

    def instrument(self, name: str) -> Instrument:
        if name not in self.instruments:
            raise unknown("instrument", name, self.instruments)
        return self.instruments[name]

    def seconds(self, name: str) -> float:
        """How long an instrument may look."""
        return QUICK_SECONDS if self.instrument(name).quick else SLOW_SECONDS

    def chosen(self, names: Sequence[str]) -> list[Run]:
        if not names:
            raise UserError(f"name a run; known: {', '.join(self.runs)}")
        for name in names:
            if name not in self.runs:
                raise unknown("run", name, self.runs)
        return [self.runs[name] for name in names]

    def view(self, name: str, asked: AskedLook) -> View:
        instrument, runs = self.instrument(name), self.chosen(asked.runs)
        if len(runs) > 1 and not instrument.several:
            raise UserError(f"'{name}' looks at one run at a time; ask for each by itself")
        for run in runs:
            if (reason := instrument.fits(run)) is not None:
                raise UserError(reason)
        return instrument.look(runs, parsed(instrument.options, asked.options))

    def look(self, name: str, asked: AskedLook) -> dict[str, Any]:
        view = self.view(name, asked)
        return {"title": view.title, "about": view.about, "html": view.fragment(), "facts": plain(view.facts)}

    def file(self, name: str, asked: AskedFile) -> str:
        """What the instrument sees as a file of its own."""
        view = self.view(name, asked)
        if asked.format == "json":
            return json.dumps({"title": view.title, "about": view.about, **plain(view.facts)}, indent=1)
        return view.svg() if asked.format == "svg" else view.html()

    def step(self, asked: AskedStep) -> dict[str, Any]:
        (run,) = self.chosen(asked.runs[:1])
        return plain(next_step(run, asked.text, asked.written, into=asked.into, off=asked.off, top=asked.top)._asdict())


def named_apart(runs: Sequence[Run]) -> dict[str, Run]:
    """By the last part of their folders' names; the whole where that is another's too."""
    last = [run.folder.resolve().name for run in runs]
    found: dict[str, Run] = {}
    for name, run in zip(last, runs, strict=True):
        found[name if last.count(name) == 1 else str(run.folder)] = run
    return found


def described_run(name: str, run: Run) -> dict[str, Any]:
    config = run.config
    model = config.model.model_dump(mode="json")
    summary = summarise(run.folder)
    return {
        "name": name,
        "folder": str(run.folder),
        "recipe": config.recipe,
        "family": model.pop("family"),
        "task": config.task.name,  # type: ignore[attr-defined]
        "verb": run.verb,
        "writes": run.verb in ("generate", "translate", "parse"),
        "parameters": sum(p.numel() for p in run.task.parameters()),
        "vocabularies": {role: f"{each.vocabulary:,} {each.unit}s" for role, each in run.vocabularies.items() if hasattr(each, "unit")},
        "languages": list(getattr(run.task, "languages", ())),
        "heads": head_names(run),
        "steps": summary.step,
        "scores": summary.best,
        "model": {name: value for name, value in model.items() if value is not None},
    }


def parsed(kind: type[Section], fields: Any) -> Any:
    """A section of what JSON says; a mistake is one sentence."""
    try:
        return kind.model_validate_json(json.dumps(fields))  # where a list is a tuple too, and a text no number
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            raise UserError("a text holds half a character (a lone surrogate), which nothing can read; remove it") from None
        raise UserError(explain(error, kind)) from None


def plain(value: Any) -> Any:
    """What JSON has words for: a number that is none is null."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return (
        value if value is None or isinstance(value, (bool, int, str)) else plain(value.tolist()) if hasattr(value, "tolist") else str(value)
    )
