"""Draws directed acyclic graphs from top to bottom, in layers by longest path, ordered so that few lines cross
(Sugiyama et al. 1981).

A line that passes a layer has a slot in it, so that it goes around the boxes there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from clew.drawing.branches import spread
from clew.drawing.letters import shortened_name, text_width, visible
from clew.drawing.parts import Network, Node
from clew.drawing.shapes import Box, Label, Picture, Place, Shape, Stroke

LONGEST_TEXT, LONGEST_EDGE = 34, 20
NAME, LINE = 17, 15
PADDING, GAP, BETWEEN, MARGIN = 10, 22, 50, 6
EDGE_SIZE = 10.5
SWEEPS = 8
THREAD = 8.0
"""The width of a line's slot in a layer that it passes."""


@dataclass
class Slot:
    """A node, or a passing line, in its layer."""

    layer: int
    width: float
    height: float
    x: float = 0.0
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)


def layers_of(count: int, edges: Sequence[tuple[int, int, str]]) -> list[int]:
    """The layer of each node: the length of the longest path to it. A node without predecessors is just above the first
    that needs it."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for start, end, _ in edges:
        if not (0 <= start < count and 0 <= end < count):
            raise ValueError(f"an edge leads from {start} to {end}, but there are {count} nodes")
        before[end].append(start)
        after[start].append(end)
    waiting = [len(each) for each in before]
    order = [node for node in range(count) if not waiting[node]]
    layers = [0] * count
    for node in order:  # the list grows during the loop
        for end in after[node]:
            layers[end] = max(layers[end], layers[node] + 1)
            waiting[end] -= 1
            if not waiting[end]:
                order.append(end)
    if len(order) < count:
        raise ValueError("the graph has a cycle")
    for node in range(count):
        if not before[node] and after[node]:
            layers[node] = min(layers[end] for end in after[node]) - 1
    return layers


def size_of(node: Node) -> tuple[float, float]:
    widths = [text_width(shortened_name(visible(node.name), LONGEST_TEXT), 12.5 * 1.1)]
    widths += [text_width(shortened_name(visible(line), LONGEST_TEXT), 11) for line in node.lines]
    return max(widths) + 2 * PADDING, NAME + LINE * len(node.lines) + 10


def lay_out(part: Network) -> tuple[list[Slot], list[list[int]], list[list[int]]]:
    """Slots (the nodes first), the slots of each layer from left to right, and the slots that each edge passes
    through."""
    slots = [
        Slot(layer, *size_of(node))
        for node, layer in zip(part.nodes, layers_of(len(part.nodes), part.edges), strict=True)
    ]
    paths = []
    for start, end, _ in part.edges:
        path = [start]
        for layer in range(slots[start].layer + 1, slots[end].layer):
            slots.append(Slot(layer, THREAD, 0.0))
            path.append(len(slots) - 1)
        path.append(end)
        for above, below in zip(path, path[1:], strict=False):
            slots[above].after.append(below)
            slots[below].before.append(above)
        paths.append(path)
    layers: list[list[int]] = [[] for _ in range(max((slot.layer for slot in slots), default=-1) + 1)]
    for number, slot in enumerate(slots):
        layers[slot.layer].append(number)
    order(slots, layers)
    return slots, layers, paths


def order(slots: list[Slot], layers: list[list[int]]) -> None:
    """Moves each slot towards the centre of its neighbours, in alternating sweeps down and up: first the order in a
    layer, then the places."""
    for layer in layers:
        put_side_by_side(slots, layer)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            layer.sort(key=lambda number: centre(slots, number, downwards))
            put_side_by_side(slots, layer)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            move(slots, layer, [centre(slots, number, downwards) for number in layer])
    left = min((slot.x - slot.width / 2 for slot in slots), default=0.0)
    for slot in slots:
        slot.x += MARGIN - left


def centre(slots: list[Slot], number: int, downwards: bool) -> float:
    near = slots[number].before if downwards else slots[number].after
    return sum(slots[other].x for other in near) / len(near) if near else slots[number].x


def put_side_by_side(slots: list[Slot], layer: list[int]) -> None:
    """Places a layer's slots from left to right, centred at 0."""
    total = sum(slots[number].width + GAP for number in layer) - GAP
    x = -total / 2
    for number in layer:
        slots[number].x = x + slots[number].width / 2
        x += slots[number].width + GAP


def move(slots: list[Slot], layer: list[int], targets: list[float]) -> None:
    """Moves slots as close to their targets as their widths allow, without changing their order."""
    offsets, reach = [], 0.0
    for place, number in enumerate(layer):
        if place:
            reach += (slots[layer[place - 1]].width + slots[number].width) / 2 + GAP
        offsets.append(reach)
    apart = spread([target - offset for target, offset in zip(targets, offsets, strict=True)], 0.0)
    for number, base, offset in zip(layer, apart, offsets, strict=True):
        slots[number].x = base + offset


def network(part: Network) -> Picture:
    slots, layers, paths = lay_out(part)
    tops, y = [], float(MARGIN)
    for layer in layers:
        tops.append(y)
        y += max(slots[number].height for number in layer) + BETWEEN
    tall = [max(slots[number].height for number in layer) for layer in layers]
    shapes: list[Shape] = []
    labels: dict[int, list[Label]] = {}
    for path, (_, _, text) in zip(paths, part.edges, strict=True):
        points = curve(slots, path, tops, tall, len(part.nodes))
        shapes.append(Stroke(points, "edge", curved=True))
        shapes.append(arrow(points[-1]))
        if text:
            layer_labels = labels.setdefault(slots[path[0]].layer, [])
            layer_labels.append(beside(points[:4], shortened_name(visible(text), LONGEST_EDGE), layer_labels))
    for slot, node in zip(slots, part.nodes, strict=False):
        shapes += box(slot, node, tops[slot.layer] + (tall[slot.layer] - slot.height) / 2)
    width = max((slot.x + slot.width / 2 for slot in slots), default=0.0) + MARGIN
    about = f"{part.title or 'graph'}: {len(part.nodes)} nodes, {len(part.edges)} edges"
    return Picture(
        width, y - BETWEEN + MARGIN if layers else MARGIN, [*shapes, *chain.from_iterable(labels.values())], about
    )


def curve(slots: list[Slot], path: list[int], tops: list[float], tall: list[float], nodes: int) -> list[Place]:
    """A curve from the bottom of one box to the top of another, vertical in the slots between."""
    places: list[Place] = []
    for number in path:
        slot, top, height = slots[number], tops[slots[number].layer], tall[slots[number].layer]
        is_node = number < nodes
        upper = top + (height - slot.height) / 2 if is_node else top
        lower = top + (height + slot.height) / 2 if is_node else top + height
        places += [(slot.x, upper), (slot.x, lower)]
    places = places[1:-1]  # from the bottom of the first to the top of the last
    points = [places[0]]
    for (x, y), (next_x, next_y) in zip(places, places[1:], strict=False):
        bend = (next_y - y) / 2
        points += [(x, y + bend), (next_x, next_y - bend), (next_x, next_y)]
    return points


def beside(points: Sequence[Place], text: str, placed: Sequence[Label]) -> Label:
    """A label on the first piece of a line, at a place where it covers no other label; in the middle if there is
    none."""
    candidates = []
    for share in (0.5, 0.34, 0.66, 0.22, 0.78):
        weights = ((1 - share) ** 3, 3 * share * (1 - share) ** 2, 3 * share**2 * (1 - share), share**3)
        x, y = (sum(weight * point[axis] for weight, point in zip(weights, points, strict=True)) for axis in (0, 1))
        candidates.append(Label(x, y + 3.5, text, "edge-text"))
        reach = [(text_width(text, EDGE_SIZE) + text_width(label.text, EDGE_SIZE)) / 2 for label in placed]
        if all(
            abs(x - label.x) >= far or abs(y + 3.5 - label.y) >= EDGE_SIZE
            for label, far in zip(placed, reach, strict=True)
        ):
            return candidates[-1]
    return candidates[0]


def arrow(tip: Place) -> Shape:
    x, y = tip
    return Stroke([(x - 3.5, y - 7), (x + 3.5, y - 7), (x, y)], "arrow", closed=True)


def box(slot: Slot, node: Node, top: float) -> list[Shape]:
    about = "; ".join([node.name, *node.lines])
    shapes: list[Shape] = [Box(slot.x - slot.width / 2, top, slot.width, slot.height, node.kind, about, round=7)]
    shapes.append(Label(slot.x, top + NAME, shortened_name(visible(node.name), LONGEST_TEXT), "box-name"))
    for number, line in enumerate(node.lines):
        shapes.append(
            Label(slot.x, top + NAME + LINE * (number + 1), shortened_name(visible(line), LONGEST_TEXT), "box-line")
        )
    return shapes
