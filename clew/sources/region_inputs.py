"""Regions of pictures as inputs of a run: the contents and the places of given boxes. Nothing here detects boxes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.data.examples import Regions
from clew.data.pictures.picture_files import read_picture
from clew.data.pictures.resizing import bounded, resized
from clew.data.synthetic.scenes import Scene, boxes_across
from clew.sources.inputs import Input, InputReader
from clew.sources.vectors import Vectors


@dataclass(frozen=True, kw_only=True)
class RegionsReader(InputReader):
    """Each box of a picture is a place, in the given order: its pixels resized to `side` x `side` and scaled to [-1,
    1], followed by its centre, width and height relative to the picture, also scaled to [-1, 1]. The boxes of a drawn
    scene are known, from left to right."""

    name: ClassVar[str] = "regions"
    unit: ClassVar[str] = "region"
    reads_boxes: ClassVar[bool] = True
    side: int = 12
    grey: bool = False

    def __post_init__(self) -> None:
        self.check_between(side=(1, 256))

    @cached_property
    def vectors(self) -> Vectors:
        return Vectors(self.side * self.side * (1 if self.grey else 3) + 4)

    def source(self) -> Vectors:
        return self.vectors

    def measured(self, example: Any) -> Input:
        return Input(example, len(boxes_of(example)))

    def read(self, example: Any) -> Tensor:
        pixels = read_picture(
            example.picture if isinstance(example, Regions) else example, mode="grey" if self.grey else "rgb"
        )
        height, width = pixels.shape[:2]
        rows = []
        for left, top, right, bottom in boxes_of(example):
            if right > width or bottom > height:
                raise UserError(
                    f"{example.key}: the box {[left, top, right, bottom]} leaves the picture, which is {width} pixels"
                    f" wide and {height} high; give [left, top, right, bottom] inside it"
                )
            inside = resized(pixels[top:bottom, left:right], self.side, self.side).flatten() / 127.5 - 1
            place = [
                (left + right) / width,
                (top + bottom) / height,
                2 * (right - left) / width,
                2 * (bottom - top) / height,
            ]
            rows.append(torch.cat([inside, torch.tensor(place) - 1]))
        return torch.stack(rows)


def small_picture(example: Any, longest: int) -> tuple[Tensor, list[tuple[float, float, float, float]]]:
    """The pixels (height, width, 3) of a picture with sides of at most `longest`, and its boxes in these pixels."""
    pixels = read_picture(example.picture if isinstance(example, Regions) else example)
    small_pixels = bounded(pixels, longest)
    down, across = (small / side for small, side in zip(small_pixels.shape[:2], pixels.shape[:2], strict=True))
    return small_pixels, [
        (left * across, top * down, right * across, bottom * down) for left, top, right, bottom in boxes_of(example)
    ]


def boxes_of(example: Any) -> tuple[tuple[int, int, int, int], ...]:
    if isinstance(example, Regions):
        return example.boxes
    if isinstance(example, Scene):
        return boxes_across(example)
    raise UserError(
        f"{getattr(example, 'key', example)}: this model reads the regions of a picture, but it has no boxes;"
        ' give them as "boxes": [[left, top, right, bottom], ...] on a JSON line, or train with task.input=convolved'
    )
