"""Runs and instruments as a page asks for them: what there is, and what an instrument sees, as JSON. Knows no server."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError, unknown
from clew.data.file_bytes import FileBytes
from clew.drawing.views import WRITERS, View, plain
from clew.inspection.heads import attending_layers, head_names
from clew.instruments import INSTRUMENTS
from clew.instruments.looking import find_instrument, look, look_beside
from clew.instruments.stepping import next_step
from clew.instruments.subject import Subject, subject_of
from clew.metrics.units import unit_of
from clew.runs.asking import own_verb
from clew.runs.loaded import Run
from clew.runs.summary import summarise
from clew.serving.answering import limit_encoding, named_apart
from clew.serving.guard import MOST_BYTES
from clew.serving.held_files import HeldFiles
from clew.serving.page_limits import (
    LONGEST_QUICK,
    LONGEST_SLOW,
    check_answer,
    check_length,
    check_memory,
    check_parts,
    check_places,
    check_texts,
)
from clew.serving.sent_files import MOST_BODY, file_of
from clew.tasks.offers import languages_of, offered, reads_files

QUICK_SECONDS, SLOW_SECONDS = 30.0, 900.0
MOST_FACTS = 2000


class Asked(Section):
    """What every request says: who asks (a tab of a browser), for which place of its page, and of which runs."""

    client: str = Field("", max_length=64, description="the tab")
    place: str = Field("", max_length=64, description="what is shown: a newer request for it takes an older one's place")
    number: int = Field(0, ge=0, description="of the requests of a tab, counted; they need not come in order")
    runs: tuple[str, ...] = Field((), max_length=8, description="names of runs")


class Column(Section):
    """A view that stands beside another: of other runs, or with other options."""

    runs: list[str] = Field(default_factory=list, max_length=8, description="names of runs")
    options: dict[str, Any] = Field(default_factory=dict, description="the instrument's own")


class AskedLook(Asked):
    options: dict[str, Any] = Field(default_factory=dict, description="the instrument's own")
    beside: tuple[Column, ...] = Field((), max_length=8, description="what stands beside it, drawn on one scale with it")


class AskedUpload(Asked):
    data: str = Field(description="the bytes of a file, in base64")
    name: str | None = Field(None, description="what the page calls it")


class AskedFile(AskedLook):
    format: str = Field("html", description="the file's ending")


class AskedStep(Asked):
    text: str = Field("", description="what a language model goes on from, or a translator reads; a file that was sent")
    chosen: tuple[int, ...] = Field((), max_length=2000, description="the tokens that were chosen so far, by their ids")
    into: str = ""
    off: tuple[str, ...] = ()
    top: int = Field(12, ge=1, le=100, description="candidates that are named")
    seed: int | None = Field(None, ge=0, lt=2**53, description="draws a token from all, not from those that are named alone")


class Inspector:
    """Runs by name, and what instruments see in them."""

    def __init__(self, runs: Sequence[Run]):
        self.runs = named_apart(runs)
        limit_encoding(self.runs.values())
        self.files = HeldFiles((file, media) for run in self.runs.values() if (media := media_of(run)) for file in samples_of(run))
        self.described: dict[str, Any] | None = None
        self.numbers = count(1)

    def describe(self) -> dict[str, Any]:
        """What there is to look at; a run does not change, so that this is found out once."""
        if self.described is None:
            runs = [{**described_run(name, run), **self.described_files(run)} for name, run in self.runs.items()]
            self.described = plain({"runs": runs, "instruments": [self.described_instrument(name) for name in INSTRUMENTS]})
        return self.described

    def described_files(self, run: Run) -> dict[str, Any]:
        """What files a run reads, and those to begin with; `sample` is then one of these, in the place of a text."""
        if not (media := media_of(run)):
            return {"media": "", "samples": []}
        samples = [self.files.put(file, media) for file in samples_of(run)]
        return {"media": media, "samples": samples, "sample": samples[0]["file"]}

    @property
    def most_bytes(self) -> int:
        """Of a request: more where files are sent."""
        return MOST_BODY if any(map(media_of, self.runs.values())) else MOST_BYTES

    def upload(self, asked: AskedUpload) -> dict[str, Any]:
        """A file to look at, which is held in memory and called by what is told of it."""
        (run,) = self.chosen(asked.runs[:1])
        if not (media := media_of(run)):
            raise UserError(f"{run.folder} reads texts and no files; type one")
        file = file_of({"data": asked.data, "name": asked.name}, media)
        check_places(run, file, LONGEST_SLOW)
        return dict(self.files.put(file, media))

    def with_file(self, name: str, runs: Sequence[Run], options: Mapping[str, Any]) -> dict[str, Any]:
        """Options whose text is the file that it stands for, where the runs read files. A page names only files that were sent to it:
        whoever asks must not choose what is read of this machine."""
        reading = [run for run in runs if reads_files(run.task)]
        if not options.get("text") or not reading:
            return dict(options)
        if other := [run for run in runs if run not in reading]:
            raise UserError(f"{reading[0].folder} reads files and {other[0].folder} texts; look at each by itself")
        if (found := self.files.get(options["text"])) is None:
            look = f"use `clew look {name} {reading[0].folder} FILE`"
            raise UserError(f"{reading[0].folder} reads files, and a page only those that are sent to it; choose one there, or {look}")
        return {**options, "text": found[0]}

    def described_instrument(self, name: str) -> dict[str, Any]:
        instrument = INSTRUMENTS[name]
        subjects = {run_name: subject_of(run) for run_name, run in self.runs.items()}
        reasons = {run_name: instrument.why_not(subject) for run_name, subject in subjects.items()}
        return {
            "name": name,
            "about": instrument.about,
            "quick": instrument.quick,
            "several": instrument.several,
            "schema": instrument.options.model_json_schema(),
            "schemas": {run_name: instrument.schema(subjects[run_name]) for run_name, reason in reasons.items() if reason is None},
            "reasons": {run_name: reason for run_name, reason in reasons.items() if reason is not None},
            "own_text": [run_name for run_name, subject in subjects.items() if instrument.own_text(subject)],
        }

    def seconds(self, name: str) -> float:
        """How long an instrument may look."""
        return QUICK_SECONDS if find_instrument(name).quick else SLOW_SECONDS

    def chosen(self, names: Sequence[str]) -> list[Run]:
        if not names:
            raise UserError(f"name a run; known: {', '.join(self.runs)}")
        for name in names:
            if name not in self.runs:
                raise unknown("run", name, self.runs)
        return [self.runs[name] for name in names]

    def view(self, name: str, asked: AskedLook) -> View:
        """What the instrument sees, found only where it is not too much to find and to draw."""
        if not asked.beside:
            options = self.checked(name, asked.runs, asked.options)
            view = look(self.chosen(asked.runs), name, options)
            check_parts(view.parts)
            return view
        first = self.views(name, asked)[0]
        if isinstance(first, UserError):
            raise first
        return first

    def views(self, name: str, asked: AskedLook) -> list[View | UserError]:
        """The view of each column, or the sentence that refuses it: what is too much of one keeps no other from being shown."""
        columns = [(asked.runs, asked.options), *((column.runs, column.options) for column in asked.beside)]
        found: dict[int, View | UserError] = {}
        checked: dict[int, dict[str, Any]] = {}
        for number, (runs, options) in enumerate(columns):
            try:
                checked[number] = self.checked(name, runs, options)
            except UserError as error:
                found[number] = error
        fitting = list(checked)
        seen = look_beside([(self.chosen(columns[number][0]), options) for number, options in checked.items()], name)
        for number, view in zip(fitting, seen, strict=True):
            try:
                check_parts(view.parts if isinstance(view, View) else [])
                found[number] = view
            except UserError as error:
                found[number] = error
        return [found[number] for number in range(len(columns))]

    def checked(self, name: str, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Options as an instrument takes them; what is too much for a page is refused."""
        check_texts(name, options)
        options = self.with_file(name, self.chosen(runs), options)
        check_memory(name, self.chosen(runs), options)
        return options

    def look(self, name: str, asked: AskedLook) -> dict[str, Any]:
        """What is seen; where something stands beside it, `views` of all, each of which may be the sentence that refuses it."""
        if not asked.beside:
            return self.drawn(self.view(name, asked))
        return {"views": [self.drawn_or_refused(view) for view in self.views(name, asked)]}

    def drawn_or_refused(self, view: View | UserError) -> dict[str, Any]:
        try:
            if isinstance(view, View):
                return self.drawn(view)
        except UserError as error:
            view = error
        return {"error": str(view)}

    def drawn(self, view: View) -> dict[str, Any]:
        html = view.fragment(f"view-{next(self.numbers)}")
        check_answer(len(html))
        return {
            "title": view.title,
            "about": view.about,
            "html": html,
            "facts": small(plain(view.facts)),
        }

    def file(self, name: str, asked: AskedFile) -> str:
        """What the instrument sees, as a file of its own."""
        view = self.view(name, asked)
        return WRITERS[f".{asked.format}"](view)

    def step(self, asked: AskedStep) -> dict[str, Any]:
        check_length(asked.text, LONGEST_QUICK)
        (run,) = self.chosen(asked.runs[:1])
        text = self.with_file("next", [run], {"text": asked.text})["text"]
        check_memory("next", [run], {"text": text})
        found = next_step(run, text, asked.chosen, into=asked.into, off=asked.off, top=asked.top, seed=asked.seed)
        drawn = None if found.drawn is None else found.drawn._asdict()
        return plain({**found._asdict(), "next": found.next._asdict(), "drawn": drawn})


def media_of(run: Run) -> str:
    """What the files are that a run reads: pictures, sounds; nothing where it reads texts."""
    return run.task.reader.media if reads_files(run.task) else ""


def samples_of(run: Run) -> Sequence[FileBytes]:
    found: Sequence[FileBytes] = run.task.reader.samples()
    return found


def small(facts: dict[str, Any]) -> dict[str, Any]:
    """What the page's scripts may ask; the numbers of a picture are in the picture."""
    return {name: value for name, value in facts.items() if size(value) <= MOST_FACTS}


def size(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(size, parts))


def described_run(name: str, run: Run) -> dict[str, Any]:
    """A run and what it offers; scripts ask for that, and for nothing by the name of a task."""
    config, subject = run.config, subject_of(run)
    model = config.model.model_dump(mode="json")
    summary = summarise(run.folder)
    return {
        "name": name,
        "folder": str(run.folder),
        "recipe": config.recipe,
        "family": model.pop("family"),
        "task": config.task.name,
        "use": own_verb(run.config),
        "offers": offered(subject.offers),
        "writes": subject.has("steps"),
        "targets": subject.has("own_target"),
        "labels": subject.has("judges"),
        "pairs": bool(subject.pairs),
        "languages": languages_of(subject.offers),
        "text": getattr(subject.offers, "text_name", "text"),
        "parameters": sum(p.numel() for p in run.task.parameters()),
        "vocabularies": {role: f"{each.vocabulary:,} {each.unit}s" for role, each in run.vocabularies.items() if hasattr(each, "unit")},
        "heads": head_names(run),
        "pruned": sum(layer.num_pruned for layer in attending_layers(run)),
        "sample": sample_text(subject, str(getattr(config.data, "source", None))),
        "steps": summary.step,
        "scores": summary.best,
        "units": {name: unit_of(name, summary.best) for name in summary.best},
        "model": {name: value for name, value in model.items() if value is not None},
    }


def sample_text(subject: Subject, language: str) -> str:
    """Something to begin with: the model's own, or in the language that it reads."""
    return getattr(subject.offers, "sample", None) or SAMPLES.get(language, ENGLISH)


ENGLISH = "The ball of thread was small, and she tied one end of it to the"
SAMPLES = {
    "de": "Ein kleiner Junge spielt mit einem roten Ball im Park.",
    "fr": "Un petit garçon joue avec un ballon rouge dans le parc.",
    "cs": "Malý chlapec si hraje s červeným míčem v parku.",
    "ru": "Маленький мальчик играет с красным мячом в парке.",
    "es": "Un niño pequeño juega con una pelota roja en el parque.",
}
"""By the name of a language."""
