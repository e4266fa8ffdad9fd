"""Lines of writing as inputs of a body: the columns of a picture, from left to right."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from clew.data.files.file_bytes import FileBytes
from clew.data.pictures.picture_files import picture_size, read_picture
from clew.data.synthetic.sample_files import sample_lines
from clew.sources.canvases import Canvas
from clew.sources.frames import Frames
from clew.sources.inputs import Input, InputReader


@dataclass(frozen=True, kw_only=True)
class ColumnsReader(InputReader):
    """A picture of a line, resized to `height` pixels with its proportions kept, and read as columns, `stack` of them
    per place. Dark is 1, white is 0. `convolve` is the number of channels of two convolutions over the pixels, below
    the body."""

    added: ClassVar[tuple[str, ...]] = ("convolve",)
    name: ClassVar[str] = "columns"
    unit: ClassVar[str] = "column"
    height: int = 32
    stack: int = 3
    convolve: int = 0

    def __post_init__(self) -> None:
        self.check_between(height=(8, 512), stack=(1, 100), convolve=(0, 1024))

    @cached_property
    def frames(self) -> Frames:
        return Frames(self.height, "none", stack=self.stack, convolve=self.convolve)

    def source(self) -> Frames:
        return self.frames

    def measured(self, example: Any) -> Input:
        height, width = picture_size(example)
        return Input(example, self.frames.num_positions(self.scaled(height, width)))

    def scaled(self, height: int, width: int) -> int:
        """The width of a line after resizing."""
        return max(round(width * self.height / height), 1)

    def ink(self, example: Any) -> Tensor:
        """The darkness of each pixel (height, width), from 0 to 1."""
        pixels = read_picture(example, mode="grey")
        shape = (self.height, self.scaled(*pixels.shape[:2]))
        pixels = pixels if pixels.shape[:2] == shape else read_picture(example, shape=shape, mode="grey")
        return 1 - pixels[..., 0].float() / 255

    def read(self, example: Any) -> Tensor:
        return self.frames.read(self.ink(example).mT)

    def collated(self, examples: Any) -> Any:
        return self.frames.collate_read(examples)

    def places(self, example: Any, length: int) -> list[str]:
        return [f"column {number * self.stack + 1}" for number in range(length)]

    def samples(self) -> tuple[FileBytes, ...]:
        return sample_lines()

    def canvas(self, example: Any) -> Canvas:
        """The resized line."""
        ink = self.ink(example)
        places = self.frames.num_positions(ink.shape[1])
        return Canvas(
            ((1 - ink) * 255).round().to(torch.uint8)[..., None].expand(-1, -1, 3).numpy(),
            spread=lambda entries: entries.reshape(-1, self.height)[: ink.shape[1]].mT,
            cells=torch.arange(places),
            grid=(1, places),
            length=float(ink.shape[1]),
            unit="pixels",
            name="line",
        )
