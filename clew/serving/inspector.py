"""Runs and instruments for the page: a description of both, and the views of instruments, as JSON. Knows no server."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError, unknown
from clew.data.files.file_bytes import FileBytes
from clew.drawing.views import WRITERS, View, json_ready
from clew.inspection.heads import head_names, layers_with_heads
from clew.instruments import INSTRUMENTS
from clew.instruments.looking import find_instrument, look, look_beside
from clew.instruments.stepping import next_step
from clew.instruments.subjects.subject import Subject, subject_of
from clew.metrics.units import unit_of
from clew.runs.asking import own_verb
from clew.runs.folder.summary import summarise
from clew.runs.loaded import Run
from clew.serving.answering import limit_encoding, name_runs
from clew.serving.guard import MOST_BYTES
from clew.serving.held_files import HeldFiles
from clew.serving.page_limits import (
    LONGEST_QUICK,
    LONGEST_SLOW,
    check_answer,
    check_parts,
    check_places,
    check_text_lengths,
    check_view_memory,
    check_written_length,
)
from clew.serving.sent_files import MOST_BODY, read_sent_file
from clew.tasks.offers import languages_of, offered, reads_files

QUICK_SECONDS, SLOW_SECONDS = 30.0, 900.0
MOST_FACTS = 2000


class PageRequest(Section):
    """The fields of every request: the client (a browser tab), the place on its page, and the runs."""

    client: str = Field("", max_length=64, description="the tab")
    place: str = Field(
        "", max_length=64, description="the place on the page; a newer request for it replaces an older one"
    )
    number: int = Field(0, ge=0, description="the request's number within the tab; requests may arrive out of order")
    runs: tuple[str, ...] = Field((), max_length=8, description="names of runs")


class Column(Section):
    """A view beside another: of other runs, or with other options."""

    runs: list[str] = Field(default_factory=list, max_length=8, description="names of runs")
    options: dict[str, Any] = Field(default_factory=dict, description="the instrument's options")


class LookRequest(PageRequest):
    options: dict[str, Any] = Field(default_factory=dict, description="the instrument's options")
    beside: tuple[Column, ...] = Field((), max_length=8, description="views beside it, drawn on the same scale")


class UploadRequest(PageRequest):
    data: str = Field(description="the bytes of a file, in base64")
    name: str | None = Field(None, description="the file's name on the page")


class FileRequest(LookRequest):
    format: str = Field("html", description="the file's suffix")


class StepRequest(PageRequest):
    text: str = Field("", description="a language model's prompt, a translator's source, or the id of an uploaded file")
    chosen: tuple[int, ...] = Field((), max_length=2000, description="the ids of the tokens chosen so far")
    into: str = ""
    off: tuple[str, ...] = ()
    top: int = Field(12, ge=1, le=100, description="the number of candidates to list")
    seed: int | None = Field(None, ge=0, lt=2**53, description="draw a token from all, not only from the listed ones")


class Inspector:
    """Runs by name, and the views of instruments on them."""

    def __init__(self, runs: Sequence[Run]):
        self.runs = name_runs(runs)
        limit_encoding(self.runs.values())
        self.files = HeldFiles(
            (file, media) for run in self.runs.values() if (media := media_of(run)) for file in samples_of(run)
        )
        self.described: dict[str, Any] | None = None
        self.numbers = count(1)

    def describe(self) -> dict[str, Any]:
        """The runs and instruments; computed once, since runs do not change.

        The page makes its forms from the options' JSON schema, so a new instrument needs no line of script.
        """
        if self.described is None:
            runs = [{**described_run(name, run), **self.described_files(run)} for name, run in self.runs.items()]
            self.described = json_ready(
                {"runs": runs, "instruments": [self.described_instrument(name) for name in INSTRUMENTS]}
            )
        return self.described

    def described_files(self, run: Run) -> dict[str, Any]:
        """The kind of files that a run reads, and samples of them; `sample` is then the id of a file instead of a
        text."""
        if not (media := media_of(run)):
            return {"media": "", "samples": []}
        samples = [self.files.put(file, media) for file in samples_of(run)]
        return {"media": media, "samples": samples, "sample": samples[0]["file"]}

    @property
    def most_bytes(self) -> int:
        """The maximum size of a request; larger if a run reads files."""
        return MOST_BODY if any(map(media_of, self.runs.values())) else MOST_BYTES

    def upload(self, body: UploadRequest) -> dict[str, Any]:
        """Hold an uploaded file in memory and describe it, with its id."""
        (run,) = self.chosen(body.runs[:1])
        if not (media := media_of(run)):
            raise UserError(f"{run.folder} reads texts, not files; type a text")
        file = read_sent_file({"data": body.data, "name": body.name}, media)
        check_places(run, file, LONGEST_SLOW)
        return dict(self.files.put(file, media))

    def with_file(self, name: str, runs: Sequence[Run], options: Mapping[str, Any]) -> dict[str, Any]:
        """Options in which the id of a file is replaced by the file, if the runs read files. Only uploaded files have
        ids: a client must not choose which files of this machine are read."""
        reading = [run for run in runs if reads_files(run.task)]
        if not options.get("text") or not reading:
            return dict(options)
        if other := [run for run in runs if run not in reading]:
            raise UserError(
                f"{reading[0].folder} reads files and {other[0].folder} reads texts; look at them separately"
            )
        if (entry := self.files.get(options["text"])) is None:
            look = f"use `clew look {name} {reading[0].folder} FILE`"
            raise UserError(
                f"{reading[0].folder} reads files, and the page only uploaded ones; choose one there, or {look}"
            )
        return {**options, "text": entry[0]}

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
            "schemas": {
                run_name: instrument.schema(subjects[run_name])
                for run_name, reason in reasons.items()
                if reason is None
            },
            "reasons": {run_name: reason for run_name, reason in reasons.items() if reason is not None},
            "own_text": [run_name for run_name, subject in subjects.items() if instrument.own_text(subject)],
        }

    def seconds(self, name: str) -> float:
        """The time limit of an instrument."""
        return QUICK_SECONDS if find_instrument(name).quick else SLOW_SECONDS

    def chosen(self, names: Sequence[str]) -> list[Run]:
        if not names:
            raise UserError(f"name a run; known: {', '.join(self.runs)}")
        for name in names:
            if name not in self.runs:
                raise unknown("run", name, self.runs)
        return [self.runs[name] for name in names]

    def view(self, name: str, body: LookRequest) -> View:
        """The instrument's view; one that is too large to compute or to draw is refused."""
        if not body.beside:
            options = self.checked(name, body.runs, body.options)
            view = look(self.chosen(body.runs), name, options)
            check_parts(view.parts)
            return view
        first = self.views(name, body)[0]
        if isinstance(first, UserError):
            raise first
        return first

    def views(self, name: str, body: LookRequest) -> list[View | UserError]:
        """The view of each column, or the error that refuses it: a refused column does not affect the others."""
        columns = [(body.runs, body.options), *((column.runs, column.options) for column in body.beside)]
        results: dict[int, View | UserError] = {}
        checked: dict[int, dict[str, Any]] = {}
        for number, (runs, options) in enumerate(columns):
            try:
                checked[number] = self.checked(name, runs, options)
            except UserError as error:
                results[number] = error
        fitting = list(checked)
        seen = look_beside([(self.chosen(columns[number][0]), options) for number, options in checked.items()], name)
        for number, view in zip(fitting, seen, strict=True):
            try:
                check_parts(view.parts if isinstance(view, View) else [])
                results[number] = view
            except UserError as error:
                results[number] = error
        return [results[number] for number in range(len(columns))]

    def checked(self, name: str, runs: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """The options for an instrument, after checks of the page's limits."""
        check_text_lengths(name, options)
        options = self.with_file(name, self.chosen(runs), options)
        check_view_memory(name, self.chosen(runs), options)
        return options

    def look(self, name: str, body: LookRequest) -> dict[str, Any]:
        """The drawn view; with columns beside it, `views` of all, in which a refused one is its error."""
        if not body.beside:
            return self.drawn(self.view(name, body))
        return {"views": [self.drawn_or_refused(view) for view in self.views(name, body)]}

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
            "facts": small(json_ready(view.facts)),
        }

    def file(self, name: str, body: FileRequest) -> str:
        """The instrument's view as a file."""
        view = self.view(name, body)
        return WRITERS[f".{body.format}"](view)

    def step(self, body: StepRequest) -> dict[str, Any]:
        check_written_length(body.text, LONGEST_QUICK)
        (run,) = self.chosen(body.runs[:1])
        text = self.with_file("next", [run], {"text": body.text})["text"]
        check_view_memory("next", [run], {"text": text})
        step = next_step(run, text, body.chosen, into=body.into, off=body.off, top=body.top, seed=body.seed)
        drawn = None if step.drawn is None else step.drawn._asdict()
        return json_ready({**step._asdict(), "next": step.next._asdict(), "drawn": drawn})


def media_of(run: Run) -> str:
    """The kind of files that a run reads, such as picture or sound; empty if it reads texts."""
    return run.task.reader.media if reads_files(run.task) else ""


def samples_of(run: Run) -> Sequence[FileBytes]:
    samples: Sequence[FileBytes] = run.task.reader.samples()
    return samples


def small(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that are small enough for the page's scripts; the numbers of a picture are in the picture."""
    return {name: value for name, value in facts.items() if size(value) <= MOST_FACTS}


def size(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(size, parts))


def described_run(name: str, run: Run) -> dict[str, Any]:
    """A run and its capabilities. Scripts ask for capabilities, never for the name of a task."""
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
        "vocabularies": {
            role: f"{each.vocabulary:,} {each.unit}s"
            for role, each in run.vocabularies.items()
            if hasattr(each, "unit")
        },
        "heads": head_names(run),
        "pruned": sum(layer.num_pruned for layer in layers_with_heads(run)),
        "sample": sample_text(subject, str(getattr(config.data, "source", None))),
        "steps": summary.step,
        "scores": summary.best,
        "units": {name: unit_of(name, summary.best) for name in summary.best},
        "model": {name: value for name, value in model.items() if value is not None},
    }


def sample_text(subject: Subject, language: str) -> str:
    """A text to start with: the model's own sample, or one in the language that it reads."""
    return getattr(subject.offers, "sample", None) or SAMPLES.get(language, ENGLISH)


ENGLISH = "The ball of thread was small, and she tied one end of it to the"
SAMPLES = {
    "de": "Ein kleiner Junge spielt mit einem roten Ball im Park.",
    "fr": "Un petit garçon joue avec un ballon rouge dans le parc.",
    "cs": "Malý chlapec si hraje s červeným míčem v parku.",
    "ru": "Маленький мальчик играет с красным мячом в парке.",
    "es": "Un niño pequeño juega con una pelota roja en el parque.",
}
"""Sample texts by language code."""
