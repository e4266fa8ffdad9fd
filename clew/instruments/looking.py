"""Asking an instrument by its name: its options read and checked, its view of a run or of several. What the command line, Python and the
page share."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from clew.core.config import Section
from clew.core.errors import UserError, named, shown, unknown
from clew.drawing.views import Note, Part, View
from clew.inspection.heads import heads_off
from clew.instruments import INSTRUMENTS
from clew.instruments.instrument import Instrument
from clew.runs.explaining import read_section
from clew.runs.loaded import Run
from clew.runs.names import run_names
from clew.runs.values import parse_value


def look(runs: Run | Sequence[Run], name: str, options: Mapping[str, Any]) -> View:
    """What an instrument shows of a run. Of several it shows all in one view: side by side where it compares, else one after the other."""
    instrument = find_instrument(name)
    given = [runs] if isinstance(runs, Run) else list(runs)
    if not given:
        raise UserError(f"there is no run to look at; give {named(name)} at least one")
    for run in given:
        check_fits(run, name)
    asked = read_options(name, options)
    if instrument.several or len(given) == 1:
        return looked(instrument, given, asked)
    return joined([(run, looked(instrument, [run], asked)) for run in given])


def looked(instrument: Instrument, runs: Sequence[Run], options: Section) -> View:
    """Its view, the heads that are named in `off` switched off in every run."""
    with ExitStack() as stack:
        for run in runs:
            if off := getattr(options, "off", ()):
                stack.enter_context(heads_off(run, off))
        return instrument.look(runs, options)


def joined(views: Sequence[tuple[Run, View]]) -> View:
    """Views of several runs below each other, each under the name of its run."""
    parts: list[Part] = []
    names = run_names([run for run, _ in views])
    for name, (_, view) in zip(names, views, strict=True):
        parts += [Note(f"{name}: {view.about or view.title}"), *view.parts]
    return View(views[0][1].title, parts, "", {name: view.facts for name, (_, view) in zip(names, views, strict=True)})


def find_instrument(name: str) -> Instrument:
    if name not in INSTRUMENTS:
        raise unknown("instrument", name, INSTRUMENTS)
    return INSTRUMENTS[name]


def check_fits(run: Run, name: str) -> None:
    if (why := find_instrument(name).fits(run)) is not None:
        raise UserError(f"{named(name)} has nothing to see here: {why}")


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
        items = [item.strip() for item in text.strip().removeprefix("[").removesuffix("]").split(",") if item.strip()]
        return [written_value(array.get("items", {}), each) for each in items]
    kinds = {kind.get("type") for kind in schema.get("anyOf", [schema])}
    return text if "string" in kinds and not kinds & {"integer", "number", "boolean"} else parse_value(text)


def array_in(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the schema of a field says of several values, where it takes them."""
    return next((kind for kind in schema.get("anyOf", [schema]) if kind.get("type") == "array"), None)
