"""Inputs other than text: sounds and pictures, from files or arrays. A run saves how they are read, like its
vocabularies.

A reader knows the length of an input without decoding it. Inputs are decoded when a batch is collated, by the process
that collates it. Knows no task.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

from torch import Tensor

from clew.core.errors import UserError
from clew.core.layouts import Layout
from clew.core.types import Source
from clew.data.files.file_bytes import FileBytes
from clew.data.synthetic.sample_files import sample_scenes
from clew.sources.canvases import Canvas
from clew.text.json_value import JsonValue


class Input(NamedTuple):
    """The origin of an input (a path, a member of an archive, an array), and its number of places in a batch."""

    example: Any
    length: int


@dataclass(frozen=True)
class InputReader(JsonValue):
    """Turns inputs into what a body reads. The fields of a subclass are its options, and what was measured on the
    training part."""

    what: ClassVar[str] = "a reader of inputs"
    name: ClassVar[str]
    unit: ClassVar[str]
    """The name of a place: a frame, a patch."""
    media: ClassVar[Literal["picture", "sound"]] = "picture"
    """The kind of files that it reads."""
    reads_boxes: ClassVar[bool] = False
    """Whether a picture must come with the boxes of its regions."""
    end: ClassVar[None] = None
    frame: ClassVar[None] = None
    added: ClassVar[tuple[str, ...]] = ()
    """Options that were added later. They are left out of the JSON at their default, so that the hashes of earlier runs
    stay valid."""

    def check_between(self, **limits: tuple[float, float]) -> None:
        """Refuse options outside their limits, which bound time and memory."""
        for option, (low, high) in limits.items():
            value = getattr(self, option)
            if not low <= value <= high:
                raise UserError(f"task.input.{option} ({value:g}) must be between {low:g} and {high:g}")

    def source(self) -> Source:
        """The source from which a body is built."""
        raise NotImplementedError

    def measured(self, example: Any) -> Input:
        """An input with its length, read from its header alone. Refuses inputs that cannot be read, by name."""
        raise NotImplementedError

    def fitted(self, example: Any) -> Self:
        """The reader, with options set from the first training input."""
        return self

    def read(self, example: Any) -> Tensor:
        """Decode one input."""
        raise NotImplementedError

    def collated(self, examples: Sequence[Tensor]) -> tuple[Any, Tensor | None]:
        """Collate decoded inputs for the body."""
        return self.source().collate(examples)

    def samples(self) -> tuple[FileBytes, ...]:
        """Sample files, for a first try."""
        return sample_scenes()

    def places(self, example: Any, length: int) -> list[str]:
        """A name for each place."""
        return [f"{self.unit} {number}" for number in range(1, length + 1)]

    def layout(self, example: Any, length: int) -> Layout:
        """The names of the places, and their arrangement."""
        return Layout(tuple(self.places(example, length)), self.unit, axis=self.unit, at=tuple(range(1, length + 1)))

    def canvas(self, example: Any) -> Canvas:
        """An input as an image, for drawing maps over it."""
        raise NotImplementedError

    @property
    def vocabulary(self) -> int:
        """The number of features at each place."""
        return self.source().width

    def collate(self, inputs: Sequence[Input], decoded: "Decoded | None" = None) -> tuple[Any, Tensor | None]:
        read = self.read if decoded is None else lambda example: decoded.get(example, self.read)
        return self.collated([read(each.example) for each in inputs])

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        defaults = {field.name: field.default for field in fields(self)}
        kept = {
            name: value for name, value in asdict(self).items() if name not in self.added or value != defaults[name]
        }
        return json.dumps({"name": self.name, **kept}, indent=2) + "\n"


class Decoded:
    """A cache of decoded inputs: the most recently used, up to `capacity` bytes."""

    def __init__(self, capacity: int = 2**29):
        self.capacity = capacity
        self.size = 0
        self.kept: OrderedDict[Any, Tensor] = OrderedDict()

    def get(self, example: Any, read: Callable[[Any], Tensor]) -> Tensor:
        try:
            cached = self.kept.get(example)
        except TypeError:  # arrays have no hash; they need no decoding
            return read(example)
        if cached is not None:
            self.kept.move_to_end(example)
            return cached
        decoded = read(example)
        self.kept[example] = decoded
        self.size += decoded.nbytes
        while self.size > self.capacity and len(self.kept) > 1:
            self.size -= self.kept.popitem(last=False)[1].nbytes
        return decoded
