"""Readers of inputs by name, and one that was kept read again."""

import json

from clew.core.errors import unknown
from clew.sources.inputs import InputReader
from clew.sources.sounds import LogMelReader

SOUNDS: dict[str, type[InputReader]] = {"log_mel": LogMelReader}
READERS: dict[str, type[InputReader]] = {**SOUNDS}


class AnyReader(InputReader):
    """A reader of whichever name, from its file."""

    @classmethod
    def from_json(cls, text: str) -> InputReader:  # type: ignore[override]
        fields = json.loads(text)
        name = fields.pop("name")
        if name not in READERS:
            raise unknown("reader of inputs", name, READERS)
        return READERS[name](**fields)
