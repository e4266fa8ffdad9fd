"""A text as a subject reads it: one row, with the names of its places. Shared by the instruments that look at a text.

    reading = read(run, "the cat sat")
    with clew.record(run, "*.attention.weights") as seen:
        reading.hidden()

A model that reads and writes (a translator, a parser) reads a text and writes a target: a given one, or its own output.
"""

from clew.core.errors import UserError
from clew.instruments.instrument import Text
from clew.instruments.subjects.subject import Looked, subject_of
from clew.tasks.offers import ModelInput, Reading


def read(model: Looked, text: Text, target: str | None = None, *, into: str = "", any_length: bool = False) -> Reading:
    """Read a text, and the target for a model that writes, as one row of ids, by a subject, run or module.

    Refused if it is empty, or longer than the positions of the model, unless `any_length` says that the model is not
    run.
    """
    subject = subject_of(model)
    if (why := subject.lacks("reads")) is not None:
        raise UserError(why)
    given = ModelInput(text, target, into)
    if subject.has("own_target"):
        if target is None:
            given = given._replace(target=subject.offers.own_target(given, subject.decoding))
    elif target is not None:
        raise UserError(f"{subject.name} reads one text and writes none; leave target= out")
    return subject.offers.reads(given, any_length=any_length)
