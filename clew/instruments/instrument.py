"""What an instrument is: something that looks at a subject, or at several, and gives a view. The table of them is
`instruments.INSTRUMENTS`; `clew look`, the page and notebooks use it alike."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from clew.core.config import Section
from clew.drawing.views import View
from clew.instruments.subject import Subject

HeadsOff = Annotated[
    tuple[str, ...], Field(description="heads that are switched off, LAYER.HEAD from 1, such as 2.5; cross.2.5 of a decoder's")
]
"""An option of what looks while a model reads: `looking.look` sees to it."""


class TextOptions(Section):
    """What is asked of an instrument that reads a text. Others take a section of their own, with a description for every field."""

    text: str = Field("", description="what the model reads")
    target: str | None = Field(None, description="what a translator writes; what it finds itself where not given")
    into: str = Field("", description="the language to write, where a translator writes several")
    off: HeadsOff = ()


def nothing_else(subject: Subject) -> str | None:
    return None


def never(subject: Subject) -> bool:
    return False


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
    own_text: Callable[[Subject], bool] = never
    """Whether it finds a text of its own in a subject where none is given; the others are given one, or have nothing to read."""

    def why_not(self, subject: Subject) -> str | None:
        """The sentence that says why it has nothing to see in a subject; None where it has."""
        return subject.lacks(*self.needs) or self.fits(subject)
