"""Pictures with known content: scenes of one to four coloured shapes, drawn by a seed.

The same seed gives the same scenes on every machine: random choices come from `random.Random.random` alone, and
geometry is in integers. Some pairs of a colour and a shape are held out of training. In the valid and test parts, every
second scene (`is_novel`) has a pair that the part holds out, and the others have none, so that both kinds of
generalisation can be measured separately.
"""

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from clew.core.errors import UserError, unknown
from clew.data.pictures.picture_decoding import Mode, in_mode
from clew.data.synthetic.scene_drawing import coverage, paint_layers

Part = Literal["train", "valid", "test"]
T = TypeVar("T")

SCENES = "scenes"
"""The name of the corpus."""
SHAPES = ("circle", "square", "triangle", "diamond", "cross")
COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 90, 214),
    "yellow": (240, 200, 30),
    "purple": (150, 60, 190),
    "black": (30, 30, 30),
}
SIZES = {"small": 6, "large": 11}
"""Half of a thing's side, in 64ths of the picture's side."""
HELD_OUT: dict[str, tuple[tuple[str, str], ...]] = {
    "train": (),
    "valid": (("red", "square"), ("blue", "cross"), ("yellow", "diamond")),
    "test": (("green", "circle"), ("purple", "triangle"), ("black", "square")),
}
"""Pairs of a colour and a shape that only this part has."""
MOST_THINGS = 4
SHADE = 12
"""How far each level of a colour may be from the named colour's, in either direction."""
GAP = 2
"""The fewest pixels between two things."""
TRIES = 60


class Thing(NamedTuple):
    """An object: its names, its centre and half of its side in pixels, and its exact colour."""

    shape: str
    colour: str
    size: str
    x: int
    y: int
    radius: int
    shade: tuple[int, int, int]

    @property
    def pair(self) -> tuple[str, str]:
        return self.colour, self.shape


class Box(NamedTuple):
    """The pixels from left to right and from top to bottom; right and bottom are exclusive."""

    left: int
    top: int
    right: int
    bottom: int


class Scene(NamedTuple):
    """Things that do not overlap, no two with the same colour and shape, on a plain background. It is a `Picture`."""

    things: tuple[Thing, ...]
    side: int
    ground: tuple[int, int, int]
    name: str = ""

    @property
    def key(self) -> str:
        return " ".join(
            f"{thing.size} {thing.colour} {thing.shape} {thing.x} {thing.y} {thing.shade}" for thing in self.things
        )

    @property
    def is_novel(self) -> bool:
        """Whether the scene has a pair of colour and shape that is held out of training."""
        return any(thing.pair in pairs for pairs in HELD_OUT.values() for thing in self.things)

    def pixels(self, mode: Mode = "rgb") -> np.ndarray:
        """Return bytes (side, side, 3), or (side, side, 1) for grey; edges are smooth."""
        layers = [
            (coverage(thing.shape, thing.x, thing.y, thing.radius, self.side), thing.shade) for thing in self.things
        ]
        return in_mode(paint_layers(layers, self.side, self.ground), mode)

    def size(self) -> tuple[int, int]:
        """Return height and width."""
        return self.side, self.side

    def numbers(self) -> np.ndarray:
        """Return for each pixel (side, side) the number of its thing, from 1 in their order; 0 is the ground. A pixel
        belongs to a thing that covers at least half of it."""
        numbers = np.zeros((self.side, self.side), np.uint8)
        for number, thing in enumerate(self.things, start=1):
            numbers[coverage(thing.shape, thing.x, thing.y, thing.radius, self.side) >= 8] = number
        return numbers

    def classes(self) -> np.ndarray:
        """Return the number of each pixel's shape (side, side), from 1 in the order of SHAPES; 0 is the ground."""
        return np.array([0, *(SHAPES.index(thing.shape) + 1 for thing in self.things)], np.uint8)[self.numbers()]

    def boxes(self) -> tuple[Box, ...]:
        """Return the smallest box around each thing's pixels."""
        numbers = self.numbers()
        boxes = []
        for number in range(1, len(self.things) + 1):
            rows, columns = np.nonzero(numbers == number)
            boxes.append(Box(int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1))
        return tuple(boxes)


class Draw:
    """Random integers from the one method of `random.Random` whose values are the same in every version of Python."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)

    def below(self, number: int) -> int:
        return int(self.random.random() * number)

    def between(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


def scenes(
    count: int, seed: int, part: Part = "train", *, side: int = 64, fewest: int = 1, most: int = MOST_THINGS
) -> list[Scene]:
    """Draw `count` scenes of a part, each of `fewest` to `most` things. A larger `count` only adds scenes."""
    if part not in HELD_OUT:
        raise unknown("part of the scenes", part, HELD_OUT)
    if not 1 <= fewest <= most <= MOST_THINGS:
        raise UserError(
            f"a scene has from {fewest} to {most} things; the first must be at least 1, and the second at most"
            f" {MOST_THINGS} and not below the first"
        )
    if not 32 <= side <= 512:
        raise UserError(f"a scene's side ({side}) must be 32 to 512 pixels")
    return [
        drawn_scene(f"{SCENES} {part} {seed} {number}", number, part, side, fewest, most)
        for number in range(1, count + 1)
    ]


def across(scene: Scene) -> list[int]:
    """Return the numbers of a scene's things from left to right."""
    return sorted(range(len(scene.things)), key=lambda number: (scene.things[number].x, scene.things[number].y))


def boxes_across(scene: Scene) -> tuple[Box, ...]:
    """Return the boxes of a scene's things from left to right."""
    boxes = scene.boxes()
    return tuple(boxes[number] for number in across(scene))


def drawn_scene(name: str, number: int, part: Part, side: int, fewest: int, most: int) -> Scene:
    draw = Draw(name)
    is_novel = part != "train" and number % 2 == 0
    count = draw.between(fewest, most)
    while True:  # a crowded scene is drawn again, with other sizes
        pairs = draw.shuffled(known_pairs())[:count]
        if is_novel:
            pairs[draw.below(count)] = draw.choice(HELD_OUT[part])
        things = list(placed(draw, pairs, side))
        if len(things) == count:
            return Scene(tuple(things), side, shaded(draw, (232, 232, 228)), name)


@lru_cache(maxsize=1)
def known_pairs() -> tuple[tuple[str, str], ...]:
    """Return the pairs of a colour and a shape that training has."""
    held_out = {pair for pairs in HELD_OUT.values() for pair in pairs}
    return tuple((colour, shape) for colour in COLOURS for shape in SHAPES if (colour, shape) not in held_out)


def placed(draw: Draw, pairs: Sequence[tuple[str, str]], side: int) -> Iterator[Thing]:
    """Yield a thing for each pair, as long as there is room."""
    before: list[Thing] = []
    for colour, shape in pairs:
        size = draw.choice(tuple(SIZES))
        radius = SIZES[size] * side // 64
        shade = shaded(draw, COLOURS[colour])
        for _ in range(TRIES):
            x, y = (draw.between(radius + 1, side - radius - 1) for _ in "xy")
            thing = Thing(shape, colour, size, x, y, radius, shade)
            if all(is_apart(thing, other, side) for other in before):
                before.append(thing)
                yield thing
                break
        else:
            return


def is_apart(one: Thing, other: Thing, side: int) -> bool:
    """Whether two things do not touch, and are clearly either side by side or one above the other."""
    across, down = abs(one.x - other.x), abs(one.y - other.y)
    return max(across, down) >= one.radius + other.radius + GAP and abs(across - down) >= side // 16


def shaded(draw: Draw, colour: tuple[int, int, int]) -> tuple[int, int, int]:
    red, green, blue = (min(255, max(0, level + draw.between(-SHADE, SHADE))) for level in colour)
    return red, green, blue
