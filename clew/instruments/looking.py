"""Asking an instrument by its name: its options read and checked, its view of a run or of several. What the command line, Python and the
page share."""

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
from clew.instruments.subject import Looked, Subject, subject_names, subject_of
from clew.runs.explaining import read_section
from clew.runs.values import parse_value

MOST_LISTED = 150
"""Characters of the list of instruments in a sentence that says much else."""


def look(models: Looked | Sequence[Looked], name: str, options: Mapping[str, Any], *, inputs: Any = None, tokenizer: Any = None) -> View:
    """What an instrument shows of a run or a module. Of several it shows all in one view: side by side where it compares, else one after
    the other. A module that is no task of ours reads `inputs`, tensors as it takes them, or a text by a `tokenizer`."""
    instrument = find_instrument(name)
    given = list(models) if isinstance(models, Sequence) else [models]
    if not given:
        raise UserError(f"there is no run to look at; give {named(name)} at least one")
    subjects = [subject_of(one, inputs=inputs, tokenizer=tokenizer) for one in given]
    for subject in subjects:
        check_fits(subject, name)
    asked = read_options(name, options)
    if instrument.several or len(subjects) == 1:
        return looked(instrument, subjects, asked)
    views = [looked(instrument, [subject], asked) for subject in subjects]
    return joined(list(zip(subjects, compared(instrument, [([subject], asked) for subject in subjects], views), strict=True)))


def look_beside(columns: Sequence[tuple[Sequence[Looked], Mapping[str, Any]]], name: str) -> list[View | UserError]:
    """Views that stand beside each other, of several runs or of one under several options, on one scale. A column whose options are refused
    has the sentence that says why."""
    instrument = find_instrument(name)
    found: dict[int, tuple[tuple[list[Subject], Section], View]] = {}
    refused: dict[int, UserError] = {}
    for number, (models, options) in enumerate(columns):
        try:
            subjects = [subject_of(model) for model in models]
            for subject in subjects:
                check_fits(subject, name)
            asked = read_options(name, options)
            found[number] = (subjects, asked), looked(instrument, subjects, asked)
        except UserError as error:
            refused[number] = error
    views = compared(instrument, [asked for asked, _ in found.values()], [view for _, view in found.values()])
    return [dict(zip(found, views, strict=True)).get(number) or refused[number] for number in range(len(columns))]


def compared(instrument: Instrument, asked: Sequence[tuple[Sequence[Subject], Section]], views: Sequence[View]) -> list[View]:
    """Views on one scale, each with the names that any of them has. Their facts stay those of each by itself."""
    if len(views) < 2:
        return list(views)
    drawn = list(views)
    for number, (subjects, options) in enumerate(asked):
        if (more := instrument.besides(views, options)) != options:
            drawn[number] = looked(instrument, subjects, more)
    parts = on_one_scale([view.parts for view in drawn])
    return [replace(view, parts=each) for view, each in zip(views, parts, strict=True)]


def looked(instrument: Instrument, subjects: Sequence[Subject], options: Section) -> View:
    """Its view, the heads that are named in `off` switched off in every subject, which the view says."""
    off: Sequence[str] = getattr(options, "off", ())
    with ExitStack() as stack:
        for subject in subjects:
            if off:
                if not head_names(subject.module) and shows_attention(subject.module):
                    raise UserError(f"the heads of {subject.name} can be seen, and not switched off from outside; leave off= out")
                stack.enter_context(heads_off(subject.module, off))
        view = instrument.look(subjects, options)
    silent = f"heads off: {', '.join(off)}"
    return replace(view, about=f"{view.about}; {silent}" if view.about else silent) if off else view


def joined(views: Sequence[tuple[Subject, View]]) -> View:
    """Views of several subjects below each other, each under the name of its own."""
    parts: list[Part] = []
    names = subject_names([subject for subject, _ in views])
    for name, (_, view) in zip(names, views, strict=True):
        parts += [Note(f"{name}: {view.about or view.title}"), *view.parts]
    return View(views[0][1].title, parts, "", {name: view.facts for name, (_, view) in zip(names, views, strict=True)})


def find_instrument(name: str) -> Instrument:
    if name not in INSTRUMENTS:
        raise unknown("instrument", name, INSTRUMENTS)
    return INSTRUMENTS[name]


def check_fits(model: Looked, name: str) -> None:
    """Refuses what an instrument has nothing to see in, and names those that would."""
    subject = subject_of(model)
    if (why := find_instrument(name).why_not(subject)) is not None:
        known = few_of(fitting(subject), MOST_LISTED) or "none"
        raise UserError(f"{named(name)} has nothing to see here: {why}; instruments that read it: {known}")


def fitting(subject: Subject) -> list[str]:
    """The names of those that have something to see in a subject."""
    return [name for name, instrument in INSTRUMENTS.items() if instrument.why_not(subject) is None]


def read_options(name: str, values: Mapping[str, Any]) -> Section:
    """An instrument's options from plain values, as Python or JSON has them; several names may stand in one text, commas between them."""
    section = find_instrument(name).options
    fields = section.model_json_schema().get("properties", {})
    several = {field for field in values.keys() & fields.keys() if isinstance(values[field], str) and array_in(fields[field]) is not None}
    return read_section(section, {**values, **{field: written_value(fields[field], values[field]) for field in several}}, name)


def read_assignments(name: str, assignments: Sequence[str]) -> dict[str, Any]:
    """`layer=2 off=1.1,2.3` -> {"layer": 2, "off": ["1.1", "2.3"]}: options as a person writes them. What takes a text is given it as it
    is, and several names stand with commas between them."""
    fields = find_instrument(name).options.model_json_schema().get("properties", {})
    found: dict[str, Any] = {}
    for assignment in assignments:
        field, equals, text = assignment.partition("=")
        if not equals:
            raise UserError(f"an option is name=value, such as layer=2, not {shown(assignment)}")
        if field in found:
            raise UserError(f"{named(field)} is given twice; leave one out")
        found[field] = written_value(fields.get(field, {}), text)
    return found


def written_value(schema: Mapping[str, Any], text: str) -> Any:
    if (array := array_in(schema)) is not None:
        if array_in(array.get("items", {})) is not None:
            return written_lists(text)
        items = [item.strip() for item in text.strip().removeprefix("[").removesuffix("]").split(",") if item.strip()]
        return [written_value(array.get("items", {}), each) for each in items]
    kinds = {kind.get("type") for kind in schema.get("anyOf", [schema])}
    return text if "string" in kinds and not kinds & {"integer", "number", "boolean"} else parse_value(text)


def written_lists(text: str) -> Any:
    """Lists of a list, as JSON has them; the outer brackets may be left out."""
    for written in (text, f"[{text}]"):
        with suppress(ValueError, RecursionError):
            found = json.loads(written)
            if isinstance(found, list) and all(isinstance(each, list) for each in found):
                return found
    raise UserError(f"expected lists in brackets, such as [[0,0,24,24],[8,24,40,48]], found {shown(text)}")


def array_in(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the schema of a field says of several values, where it takes them."""
    return next((kind for kind in schema.get("anyOf", [schema]) if kind.get("type") == "array"), None)
