"""A text as a subject reads it: one row, with the names of its places. All instruments that look at a text share this
file.

    reading = read(run, "the cat sat")
    with clew.record(run, "*.attention.weights") as seen:
        reading.hidden()

A model that reads and writes, such as a translator or a parser, also has a target: one from the user, or its own
output.
"""

from clew.core.errors import UserError
from clew.instruments.instrument import Text
from clew.instruments.subjects.subject import Looked, subject_of
from clew.tasks.offers import ModelInput, Reading


def read(model: Looked, text: Text, target: str | None = None, *, into: str = "", any_length: bool = False) -> Reading:
    """Read a text, and the target for a model that writes, as one row of ids, for a subject, run or module.

    Raises a UserError if the text is empty, or longer than the model's positions. With `any_length`, for use if the
    model is not run, the length is not checked.
    """
    subject = subject_of(model)
    if (why := subject.lacks("reads")) is not None:
        raise UserError(why)
    model_input = ModelInput(text, target, into)
    if subject.has("own_target"):
        if target is None:
            model_input = model_input._replace(target=subject.offers.own_target(model_input, subject.decoding))
    elif target is not None:
        raise UserError(f"{subject.name} reads a text and writes none; leave target= out")
    return subject.offers.reads(model_input, any_length=any_length)
