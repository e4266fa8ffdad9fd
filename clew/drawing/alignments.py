"""Draws alignments: a row per target word and a column per source word, darker where attention is higher. Knows no
model and no file."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from clew.core.errors import UserError
from clew.drawing.colours import LIGHT, TURNS, number_kind
from clew.drawing.figure_panels import colour_map
from clew.drawing.figures import LARGEST, POINT, load_matplotlib
from clew.drawing.kinds import KINDS
from clew.drawing.letters import shortened_name, text_width, visible
from clew.drawing.shapes import Box, Label, Picture, Shape, Stroke
from clew.drawing.standalone import Theme, below_each_other


class Drawn(NamedTuple):
    """Words and their weights: weights[t][s] is how much target word t attended to source word s."""

    source: Sequence[str]
    target: Sequence[str]
    weights: Sequence[Sequence[float]]


CELL, MARGIN, GAP = 30, 18, 8
WORD_SIZE = KINDS["word"].size
LONGEST_WORD = 28
LEAN = 0.7071
"""The cosine of 45 degrees, the angle of the source words."""
FAINTEST = 0.005
"""The smallest weight that is drawn. Rows sum to one, so this keeps the picture of a long sentence small."""
SPOKEN = 0.1
"""The smallest weight that is written out, in per cent."""


class Layout(NamedTuple):
    """The layout of one picture, in pixels: its words as written, the corner of its cells, and its size."""

    source: list[str]
    target: list[str]
    left: int
    top: int
    width: int
    height: int


def lay_out(alignment: Drawn) -> Layout:
    source, target = (
        [shortened_name(visible(word), LONGEST_WORD) for word in words]
        for words in (alignment.source, alignment.target)
    )
    leaning = [round(text_width(word, WORD_SIZE) * LEAN) for word in source]
    left = MARGIN + max((text_width(word, WORD_SIZE) for word in target), default=0) + GAP
    top = MARGIN + max(leaning, default=0) + GAP + round(WORD_SIZE * LEAN)
    reaches = [CELL * (column + 1) + reach for column, reach in enumerate(leaning)]
    return Layout(source, target, left, top, left + max(reaches, default=0) + MARGIN, top + CELL * len(target) + MARGIN)


def alignment_svg(alignments: Sequence[Drawn], theme: Theme = "auto") -> str:
    """Alignments below each other as one self-contained picture. Theme "auto" follows the reader's system; "light" and
    "dark" are fixed."""
    about = "; ".join(" ".join(alignment.target) for alignment in alignments[:3])
    return below_each_other([picture(alignment) for alignment in alignments], about, theme)


def picture(alignment: Drawn) -> Picture:
    layout = lay_out(alignment)
    left, top = layout.left, layout.top
    right, bottom = left + CELL * len(layout.source), top + CELL * len(layout.target)
    drawn: list[Shape] = []
    for row, weights in enumerate(alignment.weights):
        for column, weight in enumerate(weights):
            if weight >= FAINTEST:
                about = f"{alignment.target[row]} to {alignment.source[column]}: {weight:.3f}"
                drawn += cell(weight, about, left + CELL * column, top + CELL * row)
    for column in range(len(layout.source) + 1):
        drawn.append(Stroke([(left + CELL * column, top), (left + CELL * column, bottom)], "frame"))
    for row in range(len(layout.target) + 1):
        drawn.append(Stroke([(left, top + CELL * row), (right, top + CELL * row)], "frame"))
    for column, word in enumerate(layout.source):
        drawn.append(Label(left + CELL * (column + 0.5) + 3, top - GAP, word, "word", -45))
    for row, word in enumerate(layout.target):
        drawn.append(Label(left - GAP, top + CELL * (row + 0.5) + 4.5, word, "word-end"))
    return Picture(layout.width, layout.height, drawn)


def cell(weight: float, about: str, x: float, y: float) -> list[Shape]:
    box = Box(x, y, CELL, CELL, "heat", about, opacity=round(weight, 3))
    if weight < SPOKEN:
        return [box]
    return [box, Label(x + CELL // 2, y + CELL // 2 + 4, f"{100 * weight:.0f}", number_kind("heat", weight))]


def alignment_figure(alignments: Sequence[Drawn]) -> Any:
    """The same as a matplotlib figure, with 100 pixels of the picture per inch."""
    layouts = [lay_out(alignment) for alignment in alignments]
    width, height = max(layout.width for layout in layouts), sum(layout.height for layout in layouts)
    if max(width, height) > LARGEST:
        raise UserError(
            f"the picture would be {width} x {height} pixels, but matplotlib draws at most {LARGEST}; save as .svg or"
            " .jsonl"
        )
    drawn = load_matplotlib("save as .svg, which needs no package").Figure(figsize=(width / 100, height / 100), dpi=150)
    bottom = height
    for alignment, layout in zip(alignments, layouts, strict=True):
        size = CELL * len(layout.source), CELL * len(layout.target)
        place = layout.left / width, (bottom - layout.top - size[1]) / height, size[0] / width, size[1] / height
        bottom -= layout.height
        axis = drawn.add_axes(place)
        axis.imshow(alignment.weights, cmap=colour_map(diverging=False), vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(
            range(len(layout.source)), layout.source, rotation=45, ha="left", rotation_mode="anchor", parse_math=False
        )
        axis.set_yticks(range(len(layout.target)), layout.target, parse_math=False)
        axis.tick_params(
            top=True, labeltop=True, bottom=False, labelbottom=False, length=0, labelsize=POINT * WORD_SIZE
        )
        axis.spines[:].set_color(LIGHT["rule"])
        for row, weights in enumerate(alignment.weights):
            for column, weight in enumerate(weights):
                if weight >= SPOKEN:
                    colour = LIGHT["over" if weight >= TURNS["heat"][0] else "deep"]
                    axis.text(
                        column,
                        row,
                        f"{100 * weight:.0f}",
                        ha="center",
                        va="center",
                        fontsize=POINT * KINDS["number"].size,
                        color=colour,
                    )
    return drawn
