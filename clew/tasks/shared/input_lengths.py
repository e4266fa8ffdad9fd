"""Lengths of inputs that are not text, shared by tasks on pictures and sounds."""

from typing import Any

from clew.core.errors import UserError, counted
from clew.sources.inputs import InputReader
from clew.tasks.offers import ModelInput


def places_read(task: Any, row: Any) -> int:
    """Return the number of places of the file in a row's first field, from its header alone."""
    value = next(value for _, value in row)
    length: int = task.reader.measured(value).length
    return length


def file_in(model_input: ModelInput, what: str) -> Any:
    """Return the file to read; raise an error if there is none, named by its kind, such as `sound`."""
    if not model_input.text:
        raise UserError(f"there is no {what} to read; name a file")
    return model_input.text


class TakesPlaces:
    """A task with a `reader`, whose encoded examples have an `input`."""

    body: Any
    config: Any
    reader: InputReader

    def lengths(self, encoded: Any) -> tuple[int]:
        """Return the number of places of an example in a batch."""
        return (encoded.input.length,)

    @property
    def longest(self) -> int:
        """The maximum number of places of a training example."""
        limit: int = self.config.longest
        return min(limit, self.body.max_length or limit)

    def check_length(self, encoded: Any, place: str) -> None:
        """Refuse an input with more places than the body has positions."""
        limit = self.body.max_length
        if limit is not None and encoded.input.length > limit:
            raise UserError(
                f"{place}: it has {counted(encoded.input.length, self.reader.unit)}, but the model has only {limit}"
                " positions; give a smaller one, or train with a larger model.max_length or another model.position"
            )
