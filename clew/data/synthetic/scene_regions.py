"""Scenes of figures as graphs of their regions. Shapes that touch, or lie inside each other, are parts of a figure, and
the name of a region depends on its neighbours.

    roof above wall, tail right of body, blossom above leaves, flame above candle, sail above hull; bars inside a pane

A triangle may be a roof, a tail or a candle, or belong to no figure (`loose`): its colour and shape do not decide.
Between any two regions there is an edge in each direction, named by the position of its source relative to its target:
"above", "above, touching", "inside" and so on.
"""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

from clew.data.examples import NamedEdges, Sentence
from clew.data.synthetic.scene_texts import relation_of
from clew.data.synthetic.scenes import COLOURS, SHAPES, Draw, Scene, Thing, shaded

REGIONS = "scene-regions"
"""The name of the corpus."""
LOOSE = "loose"
SIDE = 96
CELL = 32
"""Units are placed in the squares of a grid, so they do not touch each other."""
RADIUS = 6
UNITS = (2, 5)
"""The smallest and largest number of figures and loose shapes in a scene."""


class Figure(NamedTuple):
    """Two shapes and their names; the first is at `place` relative to the second."""

    first: str
    second: str
    names: tuple[str, str]
    place: str


FIGURES = (
    Figure("triangle", "square", ("roof", "wall"), "above"),
    Figure("triangle", "circle", ("tail", "body"), "right of"),
    Figure("circle", "cross", ("blossom", "leaves"), "above"),
    Figure("diamond", "triangle", ("flame", "candle"), "above"),
    Figure("diamond", "square", ("sail", "hull"), "above"),
    Figure("cross", "square", ("bars", "pane"), "inside"),
)


class RegionScene(NamedTuple):
    """A scene, the names of its regions, and its number of figures."""

    scene: Scene
    labels: tuple[str, ...]
    num_figures: int

    @property
    def graph(self) -> Sentence:
        """The regions as nodes with their colour and shape, in random order."""
        words = tuple(f"{thing.colour}_{thing.shape}" for thing in self.scene.things)
        return Sentence(words, self.labels, id=self.scene.name, edges=region_edges(self.scene))


def region_edges(scene: Scene) -> NamedEdges:
    things = scene.things
    return tuple(
        (source, target, region_relation(things[source], things[target]))
        for source, target in permutations(range(len(things)), 2)
    )


def region_relation(one: Thing, other: Thing) -> str:
    """Return the position of one region relative to another."""
    across, down = abs(one.x - other.x), abs(one.y - other.y)
    if max(across, down) < abs(one.radius - other.radius):
        return "inside" if one.radius < other.radius else "around"
    touching = max(across, down) == one.radius + other.radius and min(across, down) < one.radius + other.radius
    return relation_of(one, other) + (", touching" if touching else "")


def region_scenes(count: int, seed: int, part: str) -> Iterator[RegionScene]:
    """Draw `count` scenes of a part; a larger `count` only adds scenes."""
    return (region_scene(f"{REGIONS} {part} {seed} {number}") for number in range(1, count + 1))


def region_scene(name: str) -> RegionScene:
    draw = Draw(name)
    cells = draw.shuffled([(column, row) for column in range(SIDE // CELL) for row in range(SIDE // CELL)])
    regions: list[tuple[Thing, str]] = []
    num_figures = 0
    for column, row in cells[: draw.between(*UNITS)]:
        x, y = (CELL * place + CELL // 2 + draw.between(-2, 2) for place in (column, row))
        if draw.below(2):
            regions += figure_at(draw, draw.choice(FIGURES), x, y)
            num_figures += 1
        else:
            radius = draw.choice((RADIUS // 2, RADIUS, 2 * RADIUS))
            regions.append((thing_at(draw, draw.choice(SHAPES), x, y, radius), LOOSE))
    things, labels = zip(*draw.shuffled(regions), strict=True)
    return RegionScene(Scene(tuple(things), SIDE, shaded(draw, (232, 232, 228)), name), tuple(labels), num_figures)


def figure_at(draw: Draw, figure: Figure, x: int, y: int) -> list[tuple[Thing, str]]:
    """Return both regions of a figure."""
    inside = figure.place == "inside"
    across, down = {"above": (0, -RADIUS), "right of": (RADIUS, 0), "inside": (0, 0)}[figure.place]
    first = thing_at(draw, figure.first, x + across, y + down, RADIUS // 2 if inside else RADIUS)
    second = thing_at(draw, figure.second, x - across, y - down, 2 * RADIUS if inside else RADIUS)
    return [(second, figure.names[1]), (first, figure.names[0])]


def thing_at(draw: Draw, shape: str, x: int, y: int, radius: int) -> Thing:
    colour = draw.choice(tuple(COLOURS))
    return Thing(shape, colour, "large" if radius > RADIUS else "small", x, y, radius, shaded(draw, COLOURS[colour]))
