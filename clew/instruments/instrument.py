"""What an instrument is: something that looks at a subject, or at several, and gives a view. The table of them is
`instruments.INSTRUMENTS`; `clew look`, the page and notebooks use it alike."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from clew.core.config import Section
from clew.data.file_bytes import File
from clew.drawing.views import View
from clew.inspection.heads import head_names
from clew.instruments.subject import Subject

HeadsOff = Annotated[
    tuple[str, ...], Field(description="heads that are switched off, LAYER.HEAD from 1, such as 2.5; cross.2.5 of a decoder's")
]
"""An option of what looks while a model reads: `looking.look` sees to it."""


Text = File
"""An option: what a model reads, a text or a file."""


class TextOptions(Section):
    """What is asked of an instrument that reads a text. Others take a section of their own, with a description for every field."""

    text: Text = Field("", description="what the model reads")
    target: str | None = Field(None, description="what a translator writes; what it finds itself where not given")
    into: str = Field("", description="the language to write, where a translator writes several")
    off: HeadsOff = ()


def nothing_else(subject: Subject) -> str | None:
    return None


def never(subject: Subject) -> bool:
    return False


def limit(schema: dict[str, Any], values: list[Any]) -> None:
    """Lets a field take these values alone, besides what it takes where nothing is chosen."""
    (kind, *_) = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    if kind.get("type") == "array":
        kind["items"]["enum"] = values
    else:
        kind["enum"] = ["", *values] if schema.get("default") == "" else values


class Choices(NamedTuple):
    """What may be chosen of a subject: rows of values that go together, by the names of options, such as a layer and one of its heads.
    `names` are what rows are called, where they can be switched off; `defaults` what an option stands for where it is not given."""

    options: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    names: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = {}


def anything(subject: Subject) -> Choices:
    return Choices()


def as_asked(views: Sequence[View], options: Any) -> Any:
    return options


class Instrument(NamedTuple):
    """`look(subjects, options) -> View`. `needs` names capabilities that a subject must have; `fits(subject)` is None, or a sentence that
    says why there is nothing to see in one that has them."""

    about: str
    options: type[Section]
    look: Callable[[Sequence[Subject], Any], View]
    needs: tuple[str, ...] = ()
    fits: Callable[[Subject], str | None] = nothing_else
    quick: bool = True
    """It answers on a sentence in well under a second, and the page asks it while a text is typed; the others have a button."""
    several: bool = False
    """Whether it compares subjects; the others are asked for each by itself."""
    besides: Callable[[Sequence[View], Any], Any] = as_asked
    """Beside other views, the options that each is asked with once more, so that it shows what any of them shows."""
    choices: Callable[[Subject], Choices] = anything
    """What may be chosen of a subject, where that is a list: its layers, its heads."""
    own_text: Callable[[Subject], bool] = never
    """Whether it finds a text of its own in a subject where none is given; the others are given one, or have nothing to read."""

    def schema(self, subject: Subject) -> dict[str, Any]:
        """Its options as JSON schema, with what may be chosen of this subject: `enum` of each, and `choices` of those that go together."""
        schema = self.options.model_json_schema()
        found = self.choices(subject)
        for place, name in enumerate(found.options if found.rows else ()):
            limit(schema["properties"][name], list(dict.fromkeys(row[place] for row in found.rows)))
        for name, value in found.defaults.items():
            schema["properties"][name]["default"] = value
        if len(found.options) > 1 and found.rows:
            schema["choices"] = {"options": list(found.options), "rows": [list(row) for row in found.rows], "names": list(found.names)}
        if (heads := head_names(subject.module)) and "off" in schema["properties"]:
            limit(schema["properties"]["off"], heads)
        return schema

    def why_not(self, subject: Subject) -> str | None:
        """The sentence that says why it has nothing to see in a subject; None where it has."""
        return subject.lacks(*self.needs) or self.fits(subject)
