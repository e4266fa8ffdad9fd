"""Draws trees: as text for a terminal, and as a self-contained SVG picture.

Every node has its own strip, as wide as its label and all its children, so that nothing overlaps. Words form one row at
the bottom, and phrases are as low as possible, just above their children. A line leaves a phrase sideways, right below
it, and then goes straight down in its child's strip, so that lines cross nothing.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from clew.core.errors import UserError
from clew.core.trees import Tree, fold
from clew.drawing.kinds import FILE_KINDS
from clew.drawing.letters import has_no_width, printable_letters, text_width, visible
from clew.drawing.shapes import Box, Label, Picture, Shape, Stroke
from clew.drawing.standalone import Theme, below_each_other


@dataclass
class Placed:
    """A node in its place: its centre `x`, inside its strip [left, left + width). `height` is its number of phrase
    levels above the words."""

    node: Tree
    size: int
    children: list["Placed"]
    width: int
    height: int
    x: int
    left: int = 0


class TreeDrawing:
    """A tree that displays itself: as text when printed, as a picture in a notebook."""

    def __init__(self, tree: Tree, theme: Theme = "auto"):
        self.tree = tree
        self.theme = theme

    def __repr__(self) -> str:
        return tree_text(self.tree)

    def _repr_html_(self) -> str:
        return tree_html(self.tree, self.theme)

    def save(self, path: Path | str) -> None:
        """Saves the picture as an SVG file."""
        Path(path).write_text(tree_svg(self.tree, self.theme), encoding="utf-8")


def lay_out(tree: Tree, size: Callable[[Tree], int], gap: int) -> list[Placed]:
    """The boxes of all nodes, parents before children, with `gap` between neighbours."""
    boxes = [fold(tree, lambda node, below: boxed(node, size(node), below, gap))]
    for box in boxes:  # the list grows during the loop
        for child in box.children:
            child.left += box.left
            child.x += box.left
        boxes.extend(box.children)
    return boxes


def boxed(node: Tree, size: int, children: list[Placed], gap: int) -> Placed:
    """A node's box at the left edge, with its children moved into it: side by side, with the label over their middle,
    or over a child that is almost there, which makes a straight line."""
    if not children:
        return Placed(node, size, [], size, 0, size // 2)
    starts = [0, *accumulate(child.width + gap for child in children)]
    middle = (children[0].x + starts[-2] + children[-1].x) // 2
    near = min((start + child.x for child, start in zip(children, starts, strict=False)), key=lambda x: abs(x - middle))
    middle = near if abs(near - middle) <= gap // 2 else middle
    margin = max(size // 2 - middle, 0)
    for child, start in zip(children, starts, strict=False):
        child.left += margin + start
        child.x += margin + start
    x = margin + middle
    return Placed(
        node,
        size,
        children,
        max(margin + starts[-1] - gap, x - size // 2 + size),
        1 + max(child.height for child in children),
        x,
    )


def tree_text(tree: Tree, *, ascii: bool = False) -> str:
    """A tree in box-drawing characters, or only in - | + with `ascii`.

           S
       ╭───┴────╮
      NP       VP
     ╭─┴──╮     │
    DT   NN    VBZ
    the  dog  barks
    """
    boxes = lay_out(tree, lambda node: max(len(cells(node.label)), len(cells(node.word or ""))), gap=2)
    root = boxes[0]
    canvas = [[" "] * root.width for _ in range(2 * root.height + 2)]
    lines = [[0] * root.width for _ in canvas]
    for box in boxes:
        row = 2 * (root.height - box.height)
        put(canvas[row], box.x, box.node.label)
        if box.node.word is not None:
            put(canvas[row + 1], box.x, box.node.word)
        draw_branches(lines, row + 1, box, root.height)
    glyphs = ASCII_LINES if ascii else BOX_LINES
    for characters, directions in zip(canvas, lines, strict=True):
        for column, direction in enumerate(directions):
            if direction:
                characters[column] = glyphs[direction]
    return "\n".join("".join(row).rstrip() for row in canvas)


UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8

BOX_LINES = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"
ASCII_LINES = " |||-+++-+++-+++"


def draw_branches(lines: list[list[int]], row: int, box: Placed, top: int) -> None:
    """Adds the directions in which lines leave each cell, from a phrase in the row above to its children."""
    if not box.children:
        return
    columns = [child.x for child in box.children]
    lines[row][box.x] |= UP
    for column in range(min(box.x, *columns), max(box.x, *columns)):
        lines[row][column] |= RIGHT
        lines[row][column + 1] |= LEFT
    for child in box.children:
        lines[row][child.x] |= DOWN
        for below in range(row + 1, 2 * (top - child.height)):
            lines[below][child.x] |= UP | DOWN


def put(row: list[str], middle: int, text: str) -> None:
    characters = cells(text)
    start = middle - len(characters) // 2
    row[start : start + len(characters)] = characters


def cells(text: str) -> list[str]:
    """The columns that a text takes: two for a wide character, none for a combining mark."""
    columns: list[str] = []
    for character in printable_letters(text):
        if has_no_width(character) and columns:
            columns[-1 if columns[-1] else -2] += character
            continue
        columns.append(character)
        if unicodedata.east_asian_width(character) in "WF":
            columns.append("")
    return columns


def tree_svg(tree: Tree, theme: Theme = "auto") -> str:
    """A tree as a picture at its natural size. Theme "auto" follows the reader's system; "light" and "dark" are
    fixed."""
    return trees_svg([tree], theme)


def trees_svg(trees: Sequence[Tree], theme: Theme = "auto") -> str:
    """Several trees as one picture, below each other."""
    if not trees:
        raise UserError("there is no tree to draw; give at least one")
    return below_each_other(
        [picture(tree) for tree in trees], " / ".join(" ".join(tree.words) for tree in trees), theme
    )


def picture(tree: Tree) -> Picture:
    boxes = lay_out(tree, picture_size, GAP)
    root = boxes[0]
    shapes: list[Shape] = [branch(box, child, root) for box in boxes for child in box.children]
    for box in boxes:
        shapes += leaf_shapes(box, root) if box.node.is_leaf else phrase_shapes(box, root)
    return Picture(root.width + 2 * MARGIN, middle(boxes[-1], root) + WORD_BELOW + 6 + MARGIN, shapes)


def tree_html(tree: Tree, theme: Theme = "auto") -> str:
    """The picture for a web page, where long sentences scroll by themselves."""
    return f'<div tabindex="0" style="overflow-x:auto;max-width:100%">{tree_svg(tree, theme)}</div>'


MARGIN, GAP, LEVEL = 22, 16, 48
LABEL_HEIGHT, LABEL_PADDING, BEND = 22, 9, 6.5
WORD_BELOW = 23


def picture_size(node: Tree) -> int:
    label, tag, word = (FILE_KINDS[kind].size for kind in ("phrase-other-name", "tree-tag", "tree-word"))
    if node.word is None:
        return text_width(visible(node.label), label * 1.12) + 2 * LABEL_PADDING  # bold is wider
    return max(text_width(visible(node.word), word), text_width(visible(node.label), tag))


def middle(box: Placed, root: Placed) -> int:
    """The vertical centre of a node."""
    return MARGIN + LABEL_HEIGHT // 2 + LEVEL * (root.height - box.height)


def branch(box: Placed, child: Placed, root: Placed) -> Stroke:
    """A line down from a phrase, sideways, and down to a child."""
    x, end_x = MARGIN + box.x, MARGIN + child.x
    y, end_y = middle(box, root) + LABEL_HEIGHT // 2, middle(child, root) - LABEL_HEIGHT // 2
    across = y + (LEVEL - LABEL_HEIGHT) // 2
    corners = [] if x == end_x else [(x, across), (end_x, across)]
    return Stroke([(x, y), *corners, (end_x, end_y)], "tree-line", bend=BEND)


def phrase_shapes(box: Placed, root: Placed) -> list[Shape]:
    x, y, kind = MARGIN + box.x, middle(box, root), f"phrase-{PHRASES.get(category(box.node.label), 'other')}"
    ground = Box(x - box.size // 2, y - LABEL_HEIGHT // 2, box.size, LABEL_HEIGHT, kind, round=7)
    return [ground, Label(x, y + 4.5, box.node.label, f"{kind}-name")]


def leaf_shapes(box: Placed, root: Placed) -> list[Shape]:
    x, y = MARGIN + box.x, middle(box, root)
    tag = Label(x, y + 3, box.node.label, "tree-tag")
    return [tag, Label(x, y + WORD_BELOW, box.node.word or "", "tree-word")]


def category(label: str) -> str:
    return re.split("[-=|]", label, maxsplit=1)[0]


PHRASES = {
    label: kind
    for kind, labels in {
        "clause": ("", "TOP", "ROOT", "S1", "S", "SBAR", "SBARQ", "SINV", "SQ", "FRAG"),
        "noun": ("NP", "NML", "NX", "NAC", "QP", "WHNP"),
        "verb": ("VP",),
        "preposition": ("PP", "WHPP"),
        "modifier": ("ADJP", "ADVP", "PRT", "WHADJP", "WHADVP"),
        "worst": ("0",),
        "bad": ("1",),
        "neutral": ("2",),
        "good": ("3",),
        "best": ("4",),
    }.items()
    for label in labels
}
"""The kind of a label: a kind of phrase, or a sentiment."""
