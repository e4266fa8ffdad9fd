"""Draws trees: as text for a terminal, and as a self-contained SVG picture.

Every node has a strip of its own, as wide as its label and all its children, so that nothing overlaps. Words form one
row at the bottom, and phrases are as low as possible, just above their children. A line leaves a phrase sideways, right
below it, and then goes straight down in its child's strip, so that lines cross nothing.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from pathlib import Path

from clew.core.errors import UserError
from clew.core.trees import Tree, fold
from clew.drawing.kinds import SANS
from clew.drawing.letters import has_no_width, printable_letters, text_width
from clew.drawing.standalone import Theme, standalone, themed


@dataclass
class Box:
    """A placed node: its centre `x`, inside its strip [left, left + width). `height` is its number of phrase levels
    above the words."""

    node: Tree
    size: int
    children: list["Box"]
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


def lay_out(tree: Tree, size: Callable[[Tree], int], gap: int) -> list[Box]:
    """The boxes of all nodes, parents before children, with `gap` between neighbours."""
    boxes = [fold(tree, lambda node, below: boxed(node, size(node), below, gap))]
    for box in boxes:  # the list grows during the loop
        for child in box.children:
            child.left += box.left
            child.x += box.left
        boxes.extend(box.children)
    return boxes


def boxed(node: Tree, size: int, children: list[Box], gap: int) -> Box:
    """A node's box at the left edge, with its children moved into it: side by side, with the label over their middle,
    or over a child that is almost there, which makes a straight line."""
    if not children:
        return Box(node, size, [], size, 0, size // 2)
    starts = [0, *accumulate(child.width + gap for child in children)]
    middle = (children[0].x + starts[-2] + children[-1].x) // 2
    near = min((start + child.x for child, start in zip(children, starts, strict=False)), key=lambda x: abs(x - middle))
    middle = near if abs(near - middle) <= gap // 2 else middle
    margin = max(size // 2 - middle, 0)
    for child, start in zip(children, starts, strict=False):
        child.left += margin + start
        child.x += margin + start
    x = margin + middle
    return Box(
        node,
        size,
        children,
        max(margin + starts[-1] - gap, x - size // 2 + size),
        1 + max(child.height for child in children),
        x,
    )


def tree_text(tree: Tree, *, ascii: bool = False) -> str:
    """A tree in box-drawing characters, or with `ascii` in - | + alone.

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


def draw_branches(lines: list[list[int]], row: int, box: Box, top: int) -> None:
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
    layouts = [lay_out(tree, picture_size, GAP) for tree in trees]
    heights = [middle(boxes[-1], boxes[0]) + WORD_BELOW + 6 + MARGIN for boxes in layouts]
    width, height = max(boxes[0].width for boxes in layouts) + 2 * MARGIN, sum(heights)
    words = " / ".join(" ".join(tree.words) for tree in trees)
    starts = accumulate(heights, initial=0)
    shapes = [shapes_of(boxes) for boxes in layouts]
    moved = [
        f'<g transform="translate(0 {y})">{each}</g>' if y else each for y, each in zip(starts, shapes, strict=False)
    ]
    return standalone("clew-tree", theme, STYLES, width, height, words, "".join(moved))


def shapes_of(boxes: list[Box]) -> str:
    """The SVG of a tree's lines and nodes."""
    root = boxes[0]
    lines = "".join(branch(box, child, root) for box in boxes for child in box.children)
    nodes = "".join(leaf_shape(box, root) if box.node.is_leaf else phrase_shape(box, root) for box in boxes)
    return f'<path class="line" d="{lines}"/>{nodes}'


def tree_html(tree: Tree, theme: Theme = "auto") -> str:
    """The picture for a web page, where long sentences scroll by themselves."""
    return f'<div tabindex="0" style="overflow-x:auto;max-width:100%">{tree_svg(tree, theme)}</div>'


MARGIN, GAP, LEVEL = 22, 16, 48
LABEL_HEIGHT, LABEL_PADDING, CURVE = 22, 9, 9
WORD_BELOW = 23
WORD_SIZE, LABEL_SIZE, TAG_SIZE = 16.0, 12.5, 11.0


def picture_size(node: Tree) -> int:
    if node.word is None:
        return text_width(node.label, LABEL_SIZE * 1.12) + 2 * LABEL_PADDING  # bold is wider
    return max(text_width(node.word, WORD_SIZE), text_width(node.label, TAG_SIZE))


def middle(box: Box, root: Box) -> int:
    """The vertical centre of a node."""
    return MARGIN + LABEL_HEIGHT // 2 + LEVEL * (root.height - box.height)


def branch(box: Box, child: Box, root: Box) -> str:
    """A line down from a phrase, sideways, and down to a child, with rounded corners."""
    x, end_x = MARGIN + box.x, MARGIN + child.x
    y, end_y = middle(box, root) + LABEL_HEIGHT // 2, middle(child, root) - LABEL_HEIGHT // 2
    if x == end_x:
        return f"M{x} {y}V{end_y}"
    bend = min(CURVE, abs(end_x - x) // 2)
    turn, across = (bend if end_x > x else -bend), y + (LEVEL - LABEL_HEIGHT) // 2
    return (
        f"M{x} {y}V{across - bend}Q{x} {across} {x + turn} {across}H{end_x - turn}Q{end_x} {across} {end_x}"
        f" {across + bend}V{end_y}"
    )


def phrase_shape(box: Box, root: Box) -> str:
    x, y, kind = MARGIN + box.x, middle(box, root), KINDS.get(category(box.node.label), "other")
    return (
        f'<rect class="{kind}" x="{x - box.size // 2}" y="{y - LABEL_HEIGHT // 2}" width="{box.size}"'
        f' height="{LABEL_HEIGHT}" rx="7"/><text class="label {kind}-label" x="{x}"'
        f' y="{y + 4.5}">{escape(printable_letters(box.node.label))}</text>'
    )


def leaf_shape(box: Box, root: Box) -> str:
    x, y = MARGIN + box.x, middle(box, root)
    return (
        f'<text class="tag" x="{x}" y="{y + 3}">{escape(printable_letters(box.node.label))}</text>'
        f'<text class="word" x="{x}" y="{y + WORD_BELOW}">{escape(printable_letters(box.node.word or ""))}</text>'
    )


def category(label: str) -> str:
    return re.split("[-=|]", label, maxsplit=1)[0]


KINDS = {
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
"""The colour class of a label: a kind of phrase, or a sentiment."""

LIGHT = {
    "page": "#ffffff",
    "line": "#b4bbc6",
    "word": "#1b1f24",
    "tag": "#6b7280",
    "clause": "#e7e9ed #363b42",
    "noun": "#dbe8fd #1c3f94",
    "verb": "#fde1df #8f1d1d",
    "preposition": "#d9f3e2 #14532d",
    "modifier": "#fdf0c8 #7c3e0c",
    "other": "#efe4fd #5b21a6",
    "worst": "#f0a48d #551205",
    "bad": "#fae0d6 #7c2d12",
    "neutral": "#e7e9ed #363b42",
    "good": "#d5e8f8 #0c4a6e",
    "best": "#8fc3ee #062c47",
}
DARK = {
    "page": "#15181d",
    "line": "#4d5562",
    "word": "#e9ecf1",
    "tag": "#98a1ae",
    "clause": "#343940 #e3e6ea",
    "noun": "#1f3a63 #c4dafd",
    "verb": "#5c2628 #fdcfcb",
    "preposition": "#1c4431 #bdf3d1",
    "modifier": "#4f3c12 #fbe08a",
    "other": "#412b60 #e6d5fe",
    "worst": "#a3412a #ffe4dc",
    "bad": "#5a3226 #f8d3c5",
    "neutral": "#343940 #e3e6ea",
    "good": "#1d4059 #c6e2f7",
    "best": "#2f77b0 #eef7ff",
}
"""Colours; those of labels are background and text."""


def style(theme: str, colours: dict[str, str]) -> str:
    """Rules that apply to one theme's pictures only, since a page may contain several. No variables: some viewers do
    not support them."""
    rules = {
        ".line": f"fill:none;stroke:{colours['line']};stroke-width:1.5;stroke-linecap:round",
        "text": f"text-anchor:middle;font-family:{SANS}",
        ".label": f"font-size:{LABEL_SIZE}px;font-weight:600",
        ".tag": f"font-size:{TAG_SIZE}px;fill:{colours['tag']}",
        ".word": f"font-size:{WORD_SIZE}px;fill:{colours['word']}",
        ".page": f"fill:{colours['page']}",
    }
    for kind, pair in colours.items():
        if " " in pair:
            ground, letters = pair.split()
            rules |= {f".{kind}": f"fill:{ground}", f".{kind}-label": f"fill:{letters}"}
    return "".join(f".clew-tree-{theme} {selector}{{{rule}}}" for selector, rule in rules.items())


STYLES = themed(style, LIGHT, DARK)
