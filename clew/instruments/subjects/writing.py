"""Shared options of the instruments on search and sampling."""

from pydantic import Field

from clew.core.config import Section
from clew.instruments.instrument import HeadsOff, Text
from clew.instruments.subjects.subject import Subject
from clew.tasks.offers import Begun, ModelInput
from clew.tasks.uses.writing import DecodingConfig


class WritingOptions(Section):
    """The prompt, and how much is written."""

    text: Text = Field("", description="what a language model continues, or a translator translates")
    into: str = Field("", description="the language to write, for a translator into several")
    off: HeadsOff = ()
    max_new: int = Field(24, ge=1, le=500, description="the most tokens to write")


def begin_writing(subject: Subject, options: WritingOptions, config: DecodingConfig) -> Begun:
    """Begin writing under the filters of a config. Tokens that the model never writes are banned, as in normal
    decoding."""
    return subject.offers.steps(ModelInput(options.text, into=options.into), config)
