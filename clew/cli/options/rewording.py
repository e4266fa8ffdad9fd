"""Errors of Python functions in terms of command-line options."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def reworded(options: Mapping[str, str]) -> Iterator[None]:
    """Replace patterns, which are Python arguments, by options in errors within this context."""
    from clew.core.errors import UserError

    try:
        yield
    except UserError as error:
        if error.is_of_user_code:
            raise
        sentence = str(error)
        for argument, option in options.items():
            sentence = re.sub(argument, option, sentence)
        raise UserError(sentence) from None
