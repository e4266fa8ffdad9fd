"""The places of a run whose values `clew.record` and `clew.intervene` can record and change by name: taps inside
layers, and the outputs of modules."""

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from clew.core.taps import Tap
from clew.drawing.views import Note, Part, Table, View
from clew.inspection.recording import find_places, record
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.reading import read
from clew.instruments.subjects.subject import Subject


class PlaceOptions(TextOptions):
    """The text, and the places to list."""

    pattern: str = Field(
        "", description="paths to list, with wildcards * and ?, such as *.gates.* or body.*; all taps by default"
    )


def look_at_places(subjects: Sequence[Subject], options: PlaceOptions) -> View:
    subject = subjects[0]
    places = find_places(subject.module, [options.pattern or "*"])
    if not options.pattern:
        places = {path: module for path, module in places.items() if isinstance(module, Tap)}
    values_by_path: dict[str, list[Tensor]] = {}
    if places and (options.text or subject.has_inputs):
        reading = read(subject, options.text, options.target, into=options.into)
        with record(subject.module, *places) as recording:
            reading.hidden()
        values_by_path = recording.seen
    rows = [
        (path, kind_of(module), *(describe_calls(values_by_path[path]) if values_by_path else ()))
        for path, module in places.items()
    ]
    header = ("path", "shows", *(("shape", "minimum", "mean", "maximum") if values_by_path else ()))
    parts: list[Part] = [Table(header, rows, "Places")]
    if not rows:
        parts = [Note("This model has no taps; pattern=* lists its modules, each of which shows its output.")]
    about = f"{len(rows)} places" + ("" if values_by_path else "; with a text also their shapes and values")
    facts: dict[str, Any] = {
        "places": [
            {
                "path": path,
                "shows": kind_of(module),
                "shapes": [list(each.shape) for each in values_by_path.get(path, [])],
            }
            for path, module in places.items()
        ]
    }
    return View("Places that can be watched", parts, about, facts)


def kind_of(module: torch.nn.Module) -> str:
    return "a value inside its layer" if isinstance(module, Tap) else f"the output of a {type(module).__name__}"


def describe_calls(calls: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return shape, minimum, mean and maximum of the first call."""
    if not calls:
        return "not called", "", "", ""
    values = calls[0].float()
    finite = values[values.isfinite()]
    shape = " x ".join(map(str, values.shape)) + (f", {len(calls)} times" if len(calls) > 1 else "")
    numbers = (
        [round(float(each), 4) for each in (finite.min(), finite.mean(), finite.max())] if len(finite) else ["", "", ""]
    )
    return shape, *numbers


TAPS = Instrument(
    "the places that can be recorded and changed by name, with shapes and values on a text",
    PlaceOptions,
    look_at_places,
)
