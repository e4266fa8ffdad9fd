"""What an instrument is: something that looks at a run, or at several, and gives a view. The table of them is `instruments.INSTRUMENTS`;
`clew look`, the page and notebooks use it alike."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from clew.core.config import Section
from clew.drawing.views import View
from clew.runs.loaded import Run

HeadsOff = Annotated[
    tuple[str, ...], Field(description="heads that are switched off, LAYER.HEAD from 1, such as 2.5; cross.2.5 of a decoder's")
]
"""An option of what looks while a run reads: `looking.look` sees to it."""


class TextOptions(Section):
    """What is asked of an instrument that reads a text. Others take a section of their own, with a description for every field."""

    text: str = Field("", description="what the model reads")
    target: str | None = Field(None, description="what a translator writes; what it finds itself where not given")
    into: str = Field("", description="the language to write, where a translator writes several")
    off: HeadsOff = ()


class Instrument(NamedTuple):
    """`look(runs, options) -> View`; `fits(run)` is None, or a sentence that says why the instrument has nothing to see in a run. One that
    is `quick` answers on a sentence in well under a second, and the page asks it while a text is typed; the others have a button."""

    about: str
    options: type[Section]
    look: Callable[[Sequence[Run], Any], View]
    fits: Callable[[Run], str | None]
    quick: bool = True
    several: bool = False
    """Whether it compares runs; the others are asked for each by itself."""
