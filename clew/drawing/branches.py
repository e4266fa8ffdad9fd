"""Draws a search from left to right, one column per step: kept hypotheses solid, dropped ones faint, the best path
bold."""

from dataclasses import dataclass
from typing import Literal

from clew.drawing.letters import shortened_name, text_width, visible
from clew.drawing.parts import Branch, Branches
from clew.drawing.scales import short_number
from clew.drawing.shapes import Box, Label, Picture, Shape, Stroke

LONGEST_TEXT = 18
SIZE, SCORE_SIZE = 12.5, 11.5
BOX, ROW, GAP, PADDING, MARGIN = 22, 28, 46, 8, 4


@dataclass(frozen=True)
class Placed:
    """The box of a node: its left edge, its vertical centre, its width, and its text and score."""

    x: float
    y: float
    width: float
    text: str
    score: str


def depths(nodes: list[Branch]) -> list[int]:
    """The depth of each node; parents come before their children."""
    depth_of: list[int] = []
    for number, node in enumerate(nodes):
        if node.parent is not None and not 0 <= node.parent < number:
            raise ValueError(f"node {number} has the parent {node.parent}; parents come before their children")
        depth_of.append(0 if node.parent is None else depth_of[node.parent] + 1)
    return depth_of


def lay_out(nodes: list[Branch]) -> list[Placed]:
    """Places nodes in columns by step. In a column, nodes are in the order of their parents, the likeliest first, so
    that no lines cross. Nodes are as close to their parents as possible, in a band as high as the longest column."""
    steps = depths(nodes)
    columns: list[list[int]] = [[] for _ in range(max(steps, default=-1) + 1)]
    for number, step in enumerate(steps):
        columns[step].append(number)
    texts = [shortened_name(visible(node.text), LONGEST_TEXT) for node in nodes]
    scores = [short_number(node.score) for node in nodes]
    sizes = [
        text_width(text, SIZE * 1.08) + 8 + text_width(score, SCORE_SIZE) + 2 * PADDING
        for text, score in zip(texts, scores, strict=True)
    ]
    rank, middle, x = [0] * len(nodes), [0.0] * len(nodes), float(MARGIN)
    placed: dict[int, Placed] = {}
    reach = ROW * (max(map(len, columns), default=0) - 1) / 2
    for column in columns:
        column.sort(key=lambda number: (above(rank, nodes[number].parent), -nodes[number].score))
        targets = [middle[parent] if (parent := nodes[number].parent) is not None else 0.0 for number in column]
        for place, (number, y) in enumerate(zip(column, within(spread(targets, ROW), ROW, reach), strict=True)):
            rank[number], middle[number] = place, y
        width = max(sizes[number] for number in column)
        for number in column:
            placed[number] = Placed(x, middle[number], width, texts[number], scores[number])
        x += width + GAP
    return [placed[number] for number in range(len(nodes))]


def above(rank: list[int], parent: int | None) -> int:
    return -1 if parent is None else rank[parent]


def spread(targets: list[float], least: float) -> list[float]:
    """Places in the same order, at least `least` apart, with the smallest squared distance to `targets`:
    neighbours that push each other form blocks around their common mean (pool adjacent violators)."""
    blocks: list[list[float]] = []  # the sum of the first members' targets, and the count
    for target in targets:
        blocks.append([target, 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] + least * blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            shift = least * blocks[-1][1]
            blocks[-1] = [blocks[-1][0] + total - count * shift, blocks[-1][1] + count]
    return [total / count + least * place for total, count in blocks for place in range(int(count))]


def within(places: list[float], least: float, reach: float) -> list[float]:
    """Moves places into [-reach, reach], still at least `least` apart, as far as there is room."""
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + least if moved else -reach))
    for at in range(len(moved) - 1, -1, -1):
        moved[at] = min(moved[at], moved[at + 1] - least if at + 1 < len(moved) else reach)
    return moved


def kind_of(node: Branch) -> Literal["best", "kept", "dropped"]:
    return "best" if node.best else "kept" if node.kept else "dropped"


def branches(part: Branches) -> Picture:
    nodes = list(part.nodes)
    placed = lay_out(nodes)
    top = min((box.y for box in placed), default=0.0) - BOX / 2 - MARGIN
    lines: list[tuple[int, Shape]] = []
    boxes: list[Shape] = []
    for number, (node, at) in enumerate(zip(nodes, placed, strict=True)):
        kind, y = kind_of(node), at.y - top
        if node.parent is not None:
            start = placed[node.parent]
            from_x, from_y, bend = start.x + start.width, start.y - top, GAP / 2
            points = [(from_x, from_y), (from_x + bend, from_y), (at.x - bend, y), (at.x, y)]
            lines.append((("dropped", "kept", "best").index(kind), Stroke(points, f"{kind}-line", curved=True)))
        state = {"best": "best path", "kept": "kept", "dropped": "dropped"}[kind]
        about = f"{node.text}: {at.score}, {state}{'; ' + node.note if node.note else ''}"
        boxes.append(
            Box(
                at.x,
                y - BOX / 2,
                at.width,
                BOX,
                kind,
                about,
                round=6,
                number=(number, -1 if node.parent is None else node.parent),
            )
        )
        boxes.append(Label(at.x + PADDING, y + 4.5, at.text, f"{kind}-text"))
        boxes.append(Label(at.x + at.width - PADDING, y + 4.5, at.score, "value-end"))
    width = max((box.x + box.width for box in placed), default=0.0) + MARGIN
    height = max((box.y for box in placed), default=0.0) - top + BOX / 2 + MARGIN
    kept = sum(node.kept for node in nodes)
    ordered = [shape for _, shape in sorted(lines, key=lambda pair: pair[0])]
    about = f"{part.title or 'search'}: {len(nodes)} hypotheses in {max(depths(nodes), default=0)} steps, {kept} kept"
    return Picture(width, height, [*ordered, *boxes], about)
