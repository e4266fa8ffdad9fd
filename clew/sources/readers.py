"""Readers of inputs by name, and loading a saved reader."""

import json

from clew.core.errors import unknown
from clew.sources.inputs import InputReader
from clew.sources.lines import ColumnsReader
from clew.sources.picture_inputs import CellsReader, ConvolvedReader, PatchesReader, PixelsReader, RowsReader
from clew.sources.region_inputs import RegionsReader
from clew.sources.sounds import LogMelReader

LINES: dict[str, type[InputReader]] = {"columns": ColumnsReader}
SOUNDS: dict[str, type[InputReader]] = {"log_mel": LogMelReader}
PICTURES: dict[str, type[InputReader]] = {
    "convolved": ConvolvedReader,
    "patches": PatchesReader,
    "pixels": PixelsReader,
    "rows": RowsReader,
    "cells": CellsReader,
    "regions": RegionsReader,
}
SPELLED: dict[str, type[InputReader]] = {**SOUNDS, **LINES}
"""Readers of inputs that spell out a text from beginning to end."""


class AnyReader(InputReader):
    """Loads a reader of any name."""

    @classmethod
    def from_json(cls, text: str) -> InputReader:  # type: ignore[override]
        fields = json.loads(text)
        name, readers = fields.pop("name"), {**SOUNDS, **LINES, **PICTURES}
        if name not in readers:
            raise unknown("reader of inputs", name, readers)
        return readers[name](**fields)
