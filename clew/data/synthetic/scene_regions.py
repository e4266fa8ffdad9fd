"""Scenes of figures, as graphs of their regions: shapes that touch or lie inside each other are parts of a figure, and
what a region is called depends on its neighbours.

    roof above wall, tail right of body, blossom above leaves, flame above candle, sail above hull; bars inside a pane

A triangle is a roof, a tail or a candle, or belongs to no figure (`loose`): its colour and its shape do not tell.
Between any two regions there is an edge each way, named by how its source stands to its target: "above", "above,
touching", "inside" and so on.
"""

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

from clew.data.examples import NamedEdges, Sentence
from clew.data.synthetic.scene_texts import relation_of
from clew.data.synthetic.scenes import COLOURS, SHAPES, Draw, Scene, Thing, shaded

REGIONS = "scene-regions"
"""The corpus by name."""
LOOSE = "loose"
SIDE = 96
CELL = 32
"""Units stand in the squares of a lattice, and so do not touch each other."""
RADIUS = 6
UNITS = (2, 5)
"""Figures and loose shapes in a scene, at least and at most."""


class Figure(NamedTuple):
    """Two shapes and what each is called, the first at `place` of the second."""

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
    """A scene, what each of its regions is called, and how many figures there are."""

    scene: Scene
    labels: tuple[str, ...]
    num_figures: int

    @property
    def graph(self) -> Sentence:
        """The regions as nodes that say their colour and shape, in an order that says nothing."""
        words = tuple(f"{thing.colour}_{thing.shape}" for thing in self.scene.things)
        return Sentence(words, self.labels, id=self.scene.name, edges=region_edges(self.scene))


def region_edges(scene: Scene) -> NamedEdges:
    things = scene.things
    return tuple(
        (source, target, region_relation(things[source], things[target]))
        for source, target in permutations(range(len(things)), 2)
    )


def region_relation(one: Thing, other: Thing) -> str:
    """How one region stands to another."""
    across, down = abs(one.x - other.x), abs(one.y - other.y)
    if max(across, down) < abs(one.radius - other.radius):
        return "inside" if one.radius < other.radius else "around"
    touching = max(across, down) == one.radius + other.radius and min(across, down) < one.radius + other.radius
    return relation_of(one, other) + (", touching" if touching else "")


def region_scenes(count: int, seed: int, part: str) -> Iterator[RegionScene]:
    """So many scenes of a part; the first ones of more are the same."""
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
    """Both of its regions."""
    inside = figure.place == "inside"
    across, down = {"above": (0, -RADIUS), "right of": (RADIUS, 0), "inside": (0, 0)}[figure.place]
    first = thing_at(draw, figure.first, x + across, y + down, RADIUS // 2 if inside else RADIUS)
    second = thing_at(draw, figure.second, x - across, y - down, 2 * RADIUS if inside else RADIUS)
    return [(second, figure.names[1]), (first, figure.names[0])]


def thing_at(draw: Draw, shape: str, x: int, y: int, radius: int) -> Thing:
    colour = draw.choice(tuple(COLOURS))
    return Thing(shape, colour, "large" if radius > RADIUS else "small", x, y, radius, shaded(draw, COLOURS[colour]))
