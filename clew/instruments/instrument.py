"""The Instrument type: it looks at one or several subjects and returns a view. The table of instruments, for `clew
look`, the page and notebooks, is `instruments.INSTRUMENTS`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from clew.core.config import Section
from clew.data.files.file_bytes import File
from clew.drawing.views import View
from clew.inspection.heads import head_names
from clew.instruments.subjects.subject import Subject

HeadsOff = Annotated[
    tuple[str, ...], Field(description="heads to switch off, LAYER.HEAD from 1, such as 2.5; cross.2.5 for a decoder")
]
"""An option of instruments that look while a model reads. `looking.look` applies it, so instruments do not have to."""


Text = File
"""An option: the model's input, a text or a file."""


class TextOptions(Section):
    """Options of an instrument that reads a text. Other instruments have their own section, in which every field has a
    description."""

    text: Text = Field("", description="what the model reads")
    target: str | None = Field(None, description="a translator's output; by default its own translation")
    into: str = Field("", description="the language to write, for a translator into several")
    off: HeadsOff = ()


def nothing_else(subject: Subject) -> str | None:
    return None


def never(subject: Subject) -> bool:
    return False


def limit(schema: dict[str, Any], values: list[Any]) -> None:
    """Restrict a field to these values and its default."""
    (kind, *_) = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    if kind.get("type") == "array":
        kind["items"]["enum"] = values
    else:
        kind["enum"] = ["", *values] if schema.get("default") == "" else values


class Choices(NamedTuple):
    """The choices that a subject offers: rows of values for `options` that belong together, such as a layer and one of
    its heads.

    `names` are the names of rows that can be switched off; `defaults` are the values of options that are not set.
    """

    options: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    names: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}


def anything(subject: Subject) -> Choices:
    return Choices()


def as_asked(views: Sequence[View], options: Any) -> Any:
    return options


class Instrument(NamedTuple):
    """`look(subjects, options) -> View`. `needs` names capabilities that a subject must have; `fits(subject)` is None,
    or the reason why a subject that has them cannot be shown."""

    about: str
    options: type[Section]
    look: Callable[[Sequence[Subject], Any], View]
    needs: tuple[str, ...] = ()
    fits: Callable[[Subject], str | None] = nothing_else
    quick: bool = True
    """Whether it answers for a sentence in well under a second, so the page runs it while a text is typed. Others have
    a button."""
    several: bool = False
    """Whether it compares subjects; others look at each separately."""
    besides: Callable[[Sequence[View], Any], Any] = as_asked
    """Returns the options for a second look next to other views, so that each view shows the names that any of them
    shows."""
    choices: Callable[[Subject], Choices] = anything
    """The values that a subject offers for options: its layers, its heads."""
    own_text: Callable[[Subject], bool] = never
    """Whether it takes a text from the subject if the user gives none; others need a text or read none."""

    def schema(self, subject: Subject) -> dict[str, Any]:
        """Return its options as a JSON schema with the choices of this subject: `enum` for each, and `choices` for
        those that belong together."""
        schema = self.options.model_json_schema()
        offered = self.choices(subject)
        for place, name in enumerate(offered.options if offered.rows else ()):
            limit(schema["properties"][name], list(dict.fromkeys(row[place] for row in offered.rows)))
        for name, value in offered.defaults.items():
            schema["properties"][name]["default"] = value
        if len(offered.options) > 1 and offered.rows:
            schema["choices"] = {
                "options": list(offered.options),
                "rows": [list(row) for row in offered.rows],
                "names": list(offered.names),
            }
        if (heads := head_names(subject.module)) and "off" in schema["properties"]:
            limit(schema["properties"]["off"], heads)
        return schema

    def why_not(self, subject: Subject) -> str | None:
        """Return why it cannot look at a subject, or None if it can."""
        return subject.lacks(*self.needs) or self.fits(subject)
