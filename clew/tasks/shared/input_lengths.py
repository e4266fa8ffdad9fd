"""How many places inputs that are no text may take: what tasks on pictures and sounds share."""

from typing import Any

from clew.core.errors import UserError, counted
from clew.sources.inputs import InputReader
from clew.tasks.offers import Given


def places_read(task: Any, row: Any) -> int:
    """Places that the file in a row's first field takes, by its header alone."""
    given = next(value for _, value in row)
    length: int = task.reader.measured(given).length
    return length


def file_in(given: Given, what: str) -> Any:
    """What is read; refused where there is nothing, such as no `sound`."""
    if not given.text:
        raise UserError(f"there is no {what} to read; name a file")
    return given.text


class TakesPlaces:
    """A task with a `reader`, whose encoded examples have an `input`."""

    body: Any
    config: Any
    reader: InputReader

    def lengths(self, encoded: Any) -> tuple[int]:
        """Places that an example takes in a batch."""
        return (encoded.input.length,)

    @property
    def longest(self) -> int:
        """Places of a training example at most."""
        limit: int = self.config.longest
        return min(limit, self.body.max_length or limit)

    def check_length(self, encoded: Any, place: str) -> None:
        """Refuse an input with more places than the body has positions."""
        limit = self.body.max_length
        if limit is not None and encoded.input.length > limit:
            raise UserError(
                f"{place}: it takes {counted(encoded.input.length, self.reader.unit)}, but the model can tell apart"
                f" {limit} positions; give a smaller one, or train with a larger model.max_length or another"
                " model.position"
            )
