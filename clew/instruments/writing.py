"""What the instruments on search and sampling are asked: what is written, and how much of it."""

from pydantic import Field

from clew.core.config import Section
from clew.instruments.instrument import HeadsOff, Text
from clew.instruments.subject import Subject
from clew.tasks.offers import Begun, Given
from clew.tasks.writing import DecodingConfig


class WritingOptions(Section):
    """What is written, and how much of it."""

    text: Text = Field("", description="what a language model goes on from, or a translator translates")
    into: str = Field("", description="the language to write, where a translator writes several")
    off: HeadsOff = ()
    max_new: int = Field(24, ge=1, le=500, description="tokens written at most")


def begin_writing(subject: Subject, options: WritingOptions, config: DecodingConfig) -> Begun:
    """Under the filters that a config asks for; what a model never writes is banned as it is when it writes."""
    return subject.offers.steps(Given(options.text, into=options.into), config)
