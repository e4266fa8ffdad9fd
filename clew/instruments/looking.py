"""Run an instrument by name: read and check its options, and return its view of one or several runs. The command line,
Python and the page share this file."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from clew.core.config import Section
from clew.core.errors import UserError, few_of, named, shown, unknown
from clew.drawing.comparing import on_one_scale
from clew.drawing.views import Note, Part, View
from clew.inspection.attention_weights import shows_attention
from clew.inspection.heads import head_names, heads_off
from clew.instruments import INSTRUMENTS
from clew.instruments.instrument import Instrument
from clew.instruments.subjects.subject import Looked, Subject, subject_names, subject_of
from clew.runs.settings.explaining import read_section
from clew.runs.settings.values import parse_value

MOST_LISTED = 150
"""The maximum length in characters of a list of instruments in a message."""


def look(
    models: Looked | Sequence[Looked],
    name: str,
    options: Mapping[str, Any],
    *,
    inputs: Any = None,
    tokenizer: Any = None,
) -> View:
    """Return an instrument's view of a run or module, or one view of several. An instrument that does not compare shows
    them one below the other.

    A foreign module reads `inputs`, in the form that it takes, or a text with a `tokenizer`.
    """
    instrument = find_instrument(name)
    model_list = list(models) if isinstance(models, Sequence) else [models]
    if not model_list:
        raise UserError(f"there is no run to look at; pass at least one to {named(name)}")
    subjects = [subject_of(model, inputs=inputs, tokenizer=tokenizer) for model in model_list]
    for subject in subjects:
        check_instrument(subject, name)
    parsed = read_options(name, options)
    if instrument.several or len(subjects) == 1:
        return run_instrument(instrument, subjects, parsed)
    views = [run_instrument(instrument, [subject], parsed) for subject in subjects]
    return join_views(
        list(zip(subjects, align_views(instrument, [([subject], parsed) for subject in subjects], views), strict=True))
    )


def look_beside(columns: Sequence[tuple[Sequence[Looked], Mapping[str, Any]]], name: str) -> list[View | UserError]:
    """Return the views of columns that are shown side by side, for several runs or several options, on one scale. A
    column whose options are invalid has the error instead."""
    instrument = find_instrument(name)
    drawn: dict[int, tuple[tuple[list[Subject], Section], View]] = {}
    refused: dict[int, UserError] = {}
    for number, (models, options) in enumerate(columns):
        try:
            subjects = [subject_of(model) for model in models]
            for subject in subjects:
                check_instrument(subject, name)
            parsed = read_options(name, options)
            drawn[number] = (subjects, parsed), run_instrument(instrument, subjects, parsed)
        except UserError as error:
            refused[number] = error
    views = align_views(instrument, [parsed for parsed, _ in drawn.values()], [view for _, view in drawn.values()])
    return [dict(zip(drawn, views, strict=True)).get(number) or refused[number] for number in range(len(columns))]


def align_views(
    instrument: Instrument, requests: Sequence[tuple[Sequence[Subject], Section]], views: Sequence[View]
) -> list[View]:
    """Put views on one scale, each with the names that any of them shows. Every view keeps its own facts."""
    if len(views) < 2:
        return list(views)
    drawn = list(views)
    for number, (subjects, options) in enumerate(requests):
        if (more := instrument.besides(views, options)) != options:
            drawn[number] = run_instrument(instrument, subjects, more)
    parts = on_one_scale([view.parts for view in drawn])
    return [replace(view, parts=each) for view, each in zip(views, parts, strict=True)]


def run_instrument(instrument: Instrument, subjects: Sequence[Subject], options: Section) -> View:
    """Return the instrument's view with the heads named in `off` switched off in every subject; the view says so."""
    off: Sequence[str] = getattr(options, "off", ())
    with ExitStack() as stack:
        for subject in subjects:
            if off:
                if not head_names(subject.module) and shows_attention(subject.module):
                    raise UserError(
                        f"the heads of {subject.name} can be watched, but not switched off from outside; leave off= out"
                    )
                stack.enter_context(heads_off(subject.module, off))
        view = instrument.look(subjects, options)
    silent = f"heads off: {', '.join(off)}"
    return replace(view, about=f"{view.about}; {silent}" if view.about else silent) if off else view


def join_views(views: Sequence[tuple[Subject, View]]) -> View:
    """Join views of several subjects one below the other, each under its subject's name."""
    parts: list[Part] = []
    names = subject_names([subject for subject, _ in views])
    for name, (_, view) in zip(names, views, strict=True):
        parts += [Note(f"{name}: {view.about or view.title}"), *view.parts]
    return View(views[0][1].title, parts, "", {name: view.facts for name, (_, view) in zip(names, views, strict=True)})


def find_instrument(name: str) -> Instrument:
    if name not in INSTRUMENTS:
        raise unknown("instrument", name, INSTRUMENTS)
    return INSTRUMENTS[name]


def check_instrument(model: Looked, name: str) -> None:
    """Raise a UserError if an instrument cannot look at a model, naming those that can."""
    subject = subject_of(model)
    if (why := find_instrument(name).why_not(subject)) is not None:
        fitting_names = few_of(fitting(subject), MOST_LISTED) or "none"
        raise UserError(f"{named(name)} cannot look at this: {why}; instruments that can: {fitting_names}")


def fitting(subject: Subject) -> list[str]:
    """Return the names of the instruments that can look at a subject."""
    return [name for name, instrument in INSTRUMENTS.items() if instrument.why_not(subject) is None]


def read_options(name: str, values: Mapping[str, Any]) -> Section:
    """Read an instrument's options from Python or JSON values; a list may also be a text with commas."""
    section = find_instrument(name).options
    fields = section.model_json_schema().get("properties", {})
    several = {
        field
        for field in values.keys() & fields.keys()
        if isinstance(values[field], str) and array_in(fields[field]) is not None
    }
    return read_section(
        section, {**values, **{field: written_value(fields[field], values[field]) for field in several}}, name
    )


def read_assignments(name: str, assignments: Sequence[str]) -> dict[str, Any]:
    """Parse options as typed: `layer=2 off=1.1,2.3` -> {"layer": 2, "off": ["1.1", "2.3"]}. Text fields are kept as
    they are, and lists are separated by commas."""
    fields = find_instrument(name).options.model_json_schema().get("properties", {})
    values: dict[str, Any] = {}
    for assignment in assignments:
        field, equals, text = assignment.partition("=")
        if not equals:
            raise UserError(f"an option is name=value, such as layer=2, not {shown(assignment)}")
        if field in values:
            raise UserError(f"{named(field)} is given twice; leave one out")
        values[field] = written_value(fields.get(field, {}), text)
    return values


def written_value(schema: Mapping[str, Any], text: str) -> Any:
    if (array := array_in(schema)) is not None:
        if array_in(array.get("items", {})) is not None:
            return written_lists(text)
        items = [item.strip() for item in text.strip().removeprefix("[").removesuffix("]").split(",") if item.strip()]
        return [written_value(array.get("items", {}), each) for each in items]
    kinds = {kind.get("type") for kind in schema.get("anyOf", [schema])}
    return text if "string" in kinds and not kinds & {"integer", "number", "boolean"} else parse_value(text)


def written_lists(text: str) -> Any:
    """Parse a list of lists as JSON; the outer brackets may be omitted."""
    for written in (text, f"[{text}]"):
        with suppress(ValueError, RecursionError):
            lists = json.loads(written)
            if isinstance(lists, list) and all(isinstance(each, list) for each in lists):
                return lists
    raise UserError(f"expected lists in brackets, such as [[0,0,24,24],[8,24,40,48]], found {shown(text)}")


def array_in(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the array schema of a field, or None if it takes no list."""
    return next((kind for kind in schema.get("anyOf", [schema]) if kind.get("type") == "array"), None)
