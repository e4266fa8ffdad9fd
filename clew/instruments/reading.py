"""A text as a subject reads it: one row, with what is shown of every place. What the instruments that look at a text have in common.

    reading = read(run, "the cat sat")
    with clew.record(run, "*.attention.weights") as seen:
        reading.hidden()

A model that reads and writes (a translator, a parser) reads a text and writes a target: one that is given, or what it finds itself.
"""

from clew.core.errors import UserError
from clew.instruments.instrument import Text
from clew.instruments.subject import Looked, subject_of
from clew.tasks.offers import Given, Reading


def read(model: Looked, text: Text, target: str | None = None, *, into: str = "", any_length: bool = False) -> Reading:
    """A text, and for a model that writes its target, as one row of ids, of a subject, a run or a module. Refused where it is empty, or
    longer than what the model's positions can tell apart, unless the model is not to be run."""
    subject = subject_of(model)
    if (why := subject.lacks("reads")) is not None:
        raise UserError(why)
    given = Given(text, target, into)
    if subject.has("own_target"):
        if target is None:
            given = given._replace(target=subject.offers.own_target(given, subject.decoding))
    elif target is not None:
        raise UserError(f"{subject.name} reads one text and writes none; leave the target out")
    return subject.offers.reads(given, any_length=any_length)
