"""A file whose bytes are in memory, which a program may pass in place of a path. Opens no file by name."""

import io
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from clew.data.pictures.picture_decoding import Mode, Size, decode_picture, size_of
from clew.data.sounds.sound_files import Length, Sound, read_stream, stream_length


@dataclass(frozen=True)
class FileBytes:
    """A picture or a sound by its content; the format is detected from the first bytes. Messages and answers call it
    `name`; `boxes` are those of the objects in a picture, if known.

    It can be used as a `Picture` and as a sound. It is not hashable, so that no cache keeps what someone sent."""

    name: str
    data: bytes
    boxes: tuple[tuple[int, int, int, int], ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"FileBytes({self.name!r}, {len(self.data):,} bytes)"

    @property
    def key(self) -> str:
        return self.name

    def open(self) -> io.BytesIO:
        return io.BytesIO(self.data)

    def pixels(self, mode: Mode = "rgb") -> np.ndarray:
        """The pixels (height, width, channels), as `decode_picture` returns them."""
        return decode_picture(self.data, self.name, mode)

    def size(self) -> Size:
        """A picture's height and width, read from the header only."""
        return size_of(self.open(), self.name)

    def sound(self) -> Sound:
        return read_stream(self.open(), self.name)

    def length(self) -> Length:
        """The length of a sound, read from its header."""
        return stream_length(self.open(), self.name)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept only instances; raw bytes are converted where they are checked."""
        return core_schema.is_instance_schema(cls)


File = Annotated[str | FileBytes, WithJsonSchema({"type": "string"})]
"""A field that takes a path or, from Python, the bytes of a file."""
