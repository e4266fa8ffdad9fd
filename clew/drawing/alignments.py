"""Draws alignments: a row per target word and a column per source word, darker where attention is higher. Knows no
model and no file."""

from collections.abc import Sequence
from html import escape
from itertools import accumulate
from typing import Any, NamedTuple

from clew.core.errors import UserError
from clew.drawing.colours import DARK, LIGHT, TURNS, number_kind
from clew.drawing.figures import LARGEST, load_matplotlib
from clew.drawing.kinds import SANS
from clew.drawing.letters import printable_letters, shortened_name, text_width
from clew.drawing.standalone import Theme, standalone, themed


class Drawn(NamedTuple):
    """Words and their weights: weights[t][s] is how much target word t attended to source word s."""

    source: Sequence[str]
    target: Sequence[str]
    weights: Sequence[Sequence[float]]


CELL, MARGIN, GAP = 30, 18, 8
WORD_SIZE, NUMBER_SIZE = 14.0, 10.5
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
        [shortened_name(printable_letters(word), LONGEST_WORD) for word in words]
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
    layouts = [lay_out(alignment) for alignment in alignments]
    width, height = max((layout.width for layout in layouts), default=0), sum(layout.height for layout in layouts)
    tops = accumulate((layout.height for layout in layouts), initial=0)
    parts = [
        f'<g transform="translate(0 {top})">{shapes(alignment, layout)}</g>'
        for alignment, layout, top in zip(alignments, layouts, tops, strict=False)
    ]
    about = "; ".join(" ".join(alignment.target) for alignment in alignments[:3])
    return standalone("clew-alignment", theme, STYLES, width, height, about, "".join(parts))


def shapes(alignment: Drawn, layout: Layout) -> str:
    left, top = layout.left, layout.top
    right, bottom = left + CELL * len(layout.source), top + CELL * len(layout.target)
    lines = "".join(f"M{left + CELL * column} {top}V{bottom}" for column in range(len(layout.source) + 1))
    lines += "".join(f"M{left} {top + CELL * row}H{right}" for row in range(len(layout.target) + 1))
    elements = [
        cell(alignment, row, column, left, top)
        for row in range(len(layout.target))
        for column in range(len(layout.source))
    ]
    elements.append(f'<path class="line" d="{lines}"/>')
    for column, word in enumerate(layout.source):
        x, y = left + CELL * column + CELL // 2 + 2, top - GAP
        elements.append(f'<text class="word" x="{x}" y="{y}" transform="rotate(-45 {x} {y})">{escape(word)}</text>')
    for row, word in enumerate(layout.target):
        elements.append(
            f'<text class="word target" x="{left - GAP}" y="{top + CELL * row + CELL // 2 + 5}">{escape(word)}</text>'
        )
    return "".join(elements)


def cell(alignment: Drawn, row: int, column: int, left: int, first: int) -> str:
    weight = alignment.weights[row][column]
    if weight < FAINTEST:
        return ""
    x, y = left + CELL * column, first + CELL * row
    about = escape(printable_letters(f"{alignment.target[row]} to {alignment.source[column]}: {weight:.3f}"))
    shape = (
        f'<rect class="cell" x="{x}" y="{y}" width="{CELL}" height="{CELL}"'
        f' fill-opacity="{weight:.3f}"><title>{about}</title></rect>'
    )
    if weight < SPOKEN:
        return shape
    return (
        f'{shape}<text class="number {number_kind("heat", weight)}" x="{x + CELL // 2}"'
        f' y="{y + CELL // 2 + 4}">{100 * weight:.0f}</text>'
    )


def alignment_figure(alignments: Sequence[Drawn]) -> Any:
    """The same as a matplotlib figure, with 100 pixels of the picture per inch."""
    layouts = [lay_out(alignment) for alignment in alignments]
    width, height = max(layout.width for layout in layouts), sum(layout.height for layout in layouts)
    if max(width, height) > LARGEST:
        raise UserError(
            f"the picture would be {width} x {height} pixels, but matplotlib draws at most {LARGEST}; save as .svg or"
            " .jsonl"
        )
    drawn = load_matplotlib("take .svg, which needs nothing").Figure(figsize=(width / 100, height / 100), dpi=150)
    bottom = height
    for alignment, layout in zip(alignments, layouts, strict=True):
        size = CELL * len(layout.source), CELL * len(layout.target)
        place = layout.left / width, (bottom - layout.top - size[1]) / height, size[0] / width, size[1] / height
        bottom -= layout.height
        axis = drawn.add_axes(place)
        axis.imshow(alignment.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(
            range(len(layout.source)), layout.source, rotation=45, ha="left", rotation_mode="anchor", parse_math=False
        )
        axis.set_yticks(range(len(layout.target)), layout.target, parse_math=False)
        axis.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0, labelsize=0.72 * WORD_SIZE)
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
                        fontsize=0.72 * NUMBER_SIZE,
                        color=colour,
                    )
    return drawn


def style(theme: str, colours: dict[str, str]) -> str:
    """Rules that apply to one theme's pictures only, since a page may contain several."""
    rules = {
        ".page": f"fill:{colours['paper']}",
        ".line": f"fill:none;stroke:{colours['rule']};stroke-width:1",
        "text": f"font-family:{SANS}",
        ".word": f"font-size:{WORD_SIZE}px;fill:{colours['ink']}",
        ".target": "text-anchor:end",
        ".number": f"font-size:{NUMBER_SIZE}px;text-anchor:middle;fill:{colours['deep']}",
        ".number-over": f"fill:{colours['over']}",
        ".number-black": f"fill:{colours['black']}",
        ".number-white": f"fill:{colours['white']}",
        ".cell": f"fill:{colours['heat']}",
    }
    return "".join(f".clew-alignment-{theme} {selector}{{{rule}}}" for selector, rule in rules.items())


STYLES = themed(style, LIGHT, DARK)
