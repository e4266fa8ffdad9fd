"""Inputs that are no text: sounds and pictures, from files or arrays. How they are read is kept with a run, as its vocabularies are.

A reader says how many places an input takes without decoding it; what it holds is decoded when a batch is made, by whichever process makes
that batch. Knows no task.
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
from clew.data.file_bytes import FileBytes
from clew.data.sample_files import sample_scenes
from clew.sources.canvases import Canvas
from clew.text.kept import Kept


class Input(NamedTuple):
    """Where an input is read from (a path, a member of an archive, an array), and how many places it takes in a batch."""

    given: Any
    length: int


@dataclass(frozen=True)
class InputReader(Kept):
    """How inputs become what a body reads. The fields of a member are its options, and what was measured on the training part."""

    what: ClassVar[str] = "a reader of inputs"
    name: ClassVar[str]
    unit: ClassVar[str]
    """What stands at a place: a frame, a patch."""
    media: ClassVar[Literal["picture", "sound"]] = "picture"
    """What the files are that it reads."""
    reads_boxes: ClassVar[bool] = False
    """Whether a picture has to come with the boxes of its regions."""
    end: ClassVar[None] = None
    frame: ClassVar[None] = None
    added: ClassVar[tuple[str, ...]] = ()
    """Options that came later. One that holds its default is not kept, so that the hash of an earlier run's reader stays what it was."""

    def check_between(self, **limits: tuple[float, float]) -> None:
        """Refuses an option outside of its limits, so that none asks for more than a machine has."""
        for option, (low, high) in limits.items():
            value = getattr(self, option)
            if not low <= value <= high:
                raise UserError(f"task.input.{option} ({value:g}) must be between {low:g} and {high:g}")

    def source(self) -> Source:
        """What a body is built from."""
        raise NotImplementedError

    def measured(self, given: Any) -> Input:
        """An input with its length, from its header alone; one that cannot be read is refused by name."""
        raise NotImplementedError

    def fitted(self, given: Any) -> Self:
        """The same with what it takes from the first training input."""
        return self

    def read(self, given: Any) -> Tensor:
        """One input decoded."""
        raise NotImplementedError

    def collated(self, examples: Sequence[Tensor]) -> tuple[Any, Tensor | None]:
        """Decoded inputs side by side, as the body reads them."""
        return self.source().collate(examples)

    def samples(self) -> tuple[FileBytes, ...]:
        """Files to begin with."""
        return sample_scenes()

    def places(self, given: Any, length: int) -> list[str]:
        """What a person calls each place."""
        return [f"{self.unit} {number}" for number in range(1, length + 1)]

    def layout(self, given: Any, length: int) -> Layout:
        """What a person calls each place, and how places lie."""
        return Layout(tuple(self.places(given, length)), self.unit, axis=self.unit, at=tuple(range(1, length + 1)))

    def canvas(self, given: Any) -> Canvas:
        """An input as a person looks at it, and what a map over it is drawn on."""
        raise NotImplementedError

    @property
    def vocabulary(self) -> int:
        """Features of what stands at a place."""
        return self.source().width

    def collate(self, inputs: Sequence[Input], decoded: "Decoded | None" = None) -> tuple[Any, Tensor | None]:
        read = self.read if decoded is None else lambda given: decoded.get(given, self.read)
        return self.collated([read(each.given) for each in inputs])

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        defaults = {field.name: field.default for field in fields(self)}
        kept = {name: value for name, value in asdict(self).items() if name not in self.added or value != defaults[name]}
        return json.dumps({"name": self.name, **kept}, indent=2) + "\n"


class Decoded:
    """Inputs that were decoded before, the ones asked for last, up to so many bytes together."""

    def __init__(self, capacity: int = 2**29):
        self.capacity = capacity
        self.size = 0
        self.kept: OrderedDict[Any, Tensor] = OrderedDict()

    def get(self, given: Any, read: Callable[[Any], Tensor]) -> Tensor:
        try:
            known = self.kept.get(given)
        except TypeError:  # an array has no hash; it is read already
            return read(given)
        if known is not None:
            self.kept.move_to_end(given)
            return known
        found = read(given)
        self.kept[given] = found
        self.size += found.nbytes
        while self.size > self.capacity and len(self.kept) > 1:
            self.size -= self.kept.popitem(last=False)[1].nbytes
        return found
