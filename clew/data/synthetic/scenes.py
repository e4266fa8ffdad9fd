"""A world of pictures whose truth is known: scenes of one to four coloured shapes, drawn by a seed, with what can be
said of them.

The same seed gives the same scenes on every machine: what is drawn are fractions of `random.Random.random`, and
geometry is in whole numbers. Some pairs of a colour and a shape are held out: training never shows them. Of the valid
and test parts every second scene (`is_novel`) has a pair that the part holds out, the others have none, so that both
kinds of generalisation can be told apart.
"""

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from clew.core.errors import UserError, unknown
from clew.data.pictures.picture_decoding import Mode, in_mode
from clew.data.synthetic.scene_drawing import coverage, painted

Part = Literal["train", "valid", "test"]
T = TypeVar("T")

SCENES = "scenes"
"""The corpus by name."""
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
"""Half of a side, in 64ths of the picture's."""
HELD_OUT: dict[str, tuple[tuple[str, str], ...]] = {
    "train": (),
    "valid": (("red", "square"), ("blue", "cross"), ("yellow", "diamond")),
    "test": (("green", "circle"), ("purple", "triangle"), ("black", "square")),
}
"""Pairs of a colour and a shape that no other part has."""
MOST_THINGS = 4
SHADE = 12
"""How far from its name's a colour may be, in either direction."""
GAP = 2
"""Pixels between things at least."""
TRIES = 60


class Thing(NamedTuple):
    """An object: its names, its centre, half of its side, all in pixels, and the colour it has."""

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
    """The pixels from left to right and from top to bottom, without the last column and row."""

    left: int
    top: int
    right: int
    bottom: int


class Scene(NamedTuple):
    """Things that do not overlap, no two with the same colour and shape, on a plain ground. It is a `Picture`."""

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
        """Whether a pair of colour and shape is there that training never shows."""
        return any(thing.pair in pairs for pairs in HELD_OUT.values() for thing in self.things)

    def pixels(self, mode: Mode = "rgb") -> np.ndarray:
        """Bytes (side, side, 3), or (side, side, 1) of grey; edges are smooth."""
        layers = [
            (coverage(thing.shape, thing.x, thing.y, thing.radius, self.side), thing.shade) for thing in self.things
        ]
        return in_mode(painted(layers, self.side, self.ground), mode)

    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.side, self.side

    def numbers(self) -> np.ndarray:
        """For each pixel (side, side) the number of its thing, from 1 in their order; 0 is the ground. A pixel is a
        thing's where that covers at least half of it."""
        found = np.zeros((self.side, self.side), np.uint8)
        for number, thing in enumerate(self.things, start=1):
            found[coverage(thing.shape, thing.x, thing.y, thing.radius, self.side) >= 8] = number
        return found

    def classes(self) -> np.ndarray:
        """For each pixel (side, side) the number of its shape, from 1 in the order of SHAPES; 0 is the ground."""
        return np.array([0, *(SHAPES.index(thing.shape) + 1 for thing in self.things)], np.uint8)[self.numbers()]

    def boxes(self) -> tuple[Box, ...]:
        """The smallest box around each thing's pixels."""
        numbers = self.numbers()
        found = []
        for number in range(1, len(self.things) + 1):
            rows, columns = np.nonzero(numbers == number)
            found.append(Box(int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1))
        return tuple(found)


class Draw:
    """Whole numbers from the one method of `random.Random` whose values no version of Python may change."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)

    def below(self, number: int) -> int:
        return int(self.random.random() * number)

    def between(self, low: int, high: int) -> int:
        """Ends counted."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


def scenes(
    count: int, seed: int, part: Part = "train", *, side: int = 64, fewest: int = 1, most: int = MOST_THINGS
) -> list[Scene]:
    """So many scenes of a part, each with between `fewest` and `most` things. The first ones of more are the same."""
    if part not in HELD_OUT:
        raise unknown("part of the scenes", part, HELD_OUT)
    if not 1 <= fewest <= most <= MOST_THINGS:
        raise UserError(
            f"a scene has from {fewest} to {most} things; the first must be 1 at least and the second {MOST_THINGS} at"
            " most"
        )
    if not 32 <= side <= 512:
        raise UserError(f"a scene's side ({side}) is 32 pixels at least and 512 at most")
    return [
        drawn_scene(f"{SCENES} {part} {seed} {number}", number, part, side, fewest, most)
        for number in range(1, count + 1)
    ]


def across(scene: Scene) -> list[int]:
    """The numbers of its things from left to right."""
    return sorted(range(len(scene.things)), key=lambda number: (scene.things[number].x, scene.things[number].y))


def boxes_across(scene: Scene) -> tuple[Box, ...]:
    """The boxes of its things from left to right."""
    boxes = scene.boxes()
    return tuple(boxes[number] for number in across(scene))


def drawn_scene(name: str, number: int, part: Part, side: int, fewest: int, most: int) -> Scene:
    draw = Draw(name)
    is_novel = part != "train" and number % 2 == 0
    count = draw.between(fewest, most)
    while True:  # a crowded scene is begun again, with other sizes
        pairs = draw.shuffled(known_pairs())[:count]
        if is_novel:
            pairs[draw.below(count)] = draw.choice(HELD_OUT[part])
        things = list(placed(draw, pairs, side))
        if len(things) == count:
            return Scene(tuple(things), side, shaded(draw, (232, 232, 228)), name)


@lru_cache(maxsize=1)
def known_pairs() -> tuple[tuple[str, str], ...]:
    """The pairs of a colour and a shape that training shows."""
    held_out = {pair for pairs in HELD_OUT.values() for pair in pairs}
    return tuple((colour, shape) for colour in COLOURS for shape in SHAPES if (colour, shape) not in held_out)


def placed(draw: Draw, pairs: Sequence[tuple[str, str]], side: int) -> Iterator[Thing]:
    """A thing for each pair, as long as there is room."""
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
    """Whether two things do not touch, and it is plain whether one is beside the other or above it."""
    across, down = abs(one.x - other.x), abs(one.y - other.y)
    return max(across, down) >= one.radius + other.radius + GAP and abs(across - down) >= side // 16


def shaded(draw: Draw, colour: tuple[int, int, int]) -> tuple[int, int, int]:
    red, green, blue = (min(255, max(0, level + draw.between(-SHADE, SHADE))) for level in colour)
    return red, green, blue
