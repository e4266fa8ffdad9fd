"""Options that the instruments for search and sampling share."""

from pydantic import Field

from clew.core.config import Section
from clew.instruments.instrument import HeadsOff, Text
from clew.instruments.subjects.subject import Subject
from clew.tasks.offers import Begun, ModelInput
from clew.tasks.uses.writing import DecodingConfig


class WritingOptions(Section):
    """The prompt, and the length of the output."""

    text: Text = Field("", description="what a language model continues, or a translator translates")
    into: str = Field("", description="the language to write, for a translator into several")
    off: HeadsOff = ()
    max_new: int = Field(24, ge=1, le=500, description="the maximum number of tokens to write")


def begin_writing(subject: Subject, options: WritingOptions, config: DecodingConfig) -> Begun:
    """Begin writing with the filters of a config. Tokens that the model never writes are banned, as in normal
    decoding."""
    return subject.offers.steps(ModelInput(options.text, into=options.into), config)
