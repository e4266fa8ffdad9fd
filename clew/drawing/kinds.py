"""The look of each kind of mark, defined once: as style sheet rules, and as colours and sizes for matplotlib."""

from collections.abc import Iterable
from typing import NamedTuple

from clew.drawing.colours import COLOURS, DARK, LIGHT, PHRASES, variables

SANS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','DejaVu Sans',sans-serif"
MONO = "ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace"

FONTS = f"--sans:{SANS};--mono:{MONO};"


class Look(NamedTuple):
    """Colours are names in a theme. A kind with a `size` is text."""

    fill: str = "none"
    stroke: str = "none"
    width: float = 1.0
    dash: tuple[float, ...] = ()
    size: float = 0.0
    weight: int = 400
    anchor: str = "start"
    mono: bool = False
    opacity: float = 1.0
    halo: bool = False
    """Whether letters have an outline in the colour of the paper."""


KINDS = {
    "page": Look("paper"),
    "title": Look("ink", size=14, weight=600),
    "heading": Look("ink", size=19, weight=650),
    "prose": Look("ink", size=14),
    "quiet": Look("faint", size=13),
    "axis": Look(stroke="edge"),
    "grid": Look(stroke="rule"),
    "tick": Look("faint", size=11.5, anchor="middle"),
    "tick-end": Look("faint", size=11.5, anchor="end"),
    "tick-start": Look("faint", size=11.5),
    "label": Look("ink", size=12.5, anchor="middle"),
    "legend": Look("ink", size=12.5),
    "place": Look("ink", size=12.5, anchor="middle"),
    "place-end": Look("ink", size=12.5, anchor="end"),
    "point-value": Look("ink", size=11, anchor="middle", halo=True),
    "point-value-best": Look("ink", size=11, weight=700, anchor="middle", halo=True),
    "word": Look("ink", size=13),
    "word-end": Look("ink", size=13, anchor="end"),
    "word-middle": Look("ink", size=13, anchor="middle"),
    "small-word": Look("ink", size=10.5),
    "small-word-end": Look("ink", size=10.5, anchor="end"),
    "small-word-middle": Look("ink", size=10.5, anchor="middle"),
    "heat": Look("heat"),
    "cold": Look("cold"),
    "hit": Look("paper", opacity=0.0),
    "frame": Look(stroke="rule"),
    "shade": Look("black"),
    "region": Look(stroke="c6", width=1.4),
    "region-name": Look("ink", size=10.5, weight=600, halo=True),
    "thumb": Look("paper", "rule", opacity=0.0),
    "number": Look("deep", size=10.5, anchor="middle"),
    "number-over": Look("over", size=10.5, anchor="middle"),
    "number-black": Look("black", size=10.5, anchor="middle"),
    "number-white": Look("white", size=10.5, anchor="middle"),
    "value": Look("faint", size=11.5),
    "value-end": Look("faint", size=11.5, anchor="end"),
    "threshold-name": Look("faint", size=11.5, anchor="end", halo=True),
    "threshold": Look(stroke="faint", dash=(2, 3), width=1.2),
    "token": Look("ink", size=14),
    "letters": Look("ink", size=13.5, mono=True),
    "cell": Look("ink", size=13),
    "cell-end": Look("ink", size=13, anchor="end"),
    "head": Look("faint", size=12.5, weight=500),
    "head-end": Look("faint", size=12.5, weight=500, anchor="end"),
    "kept": Look("raised", "edge"),
    "dropped": Look("paper", "rule"),
    "best": Look("raised", "c0", width=2),
    "kept-text": Look("ink", size=12.5),
    "dropped-text": Look("faint", size=12.5),
    "best-text": Look("ink", size=12.5, weight=700),
    "kept-line": Look(stroke="edge", width=1.5),
    "dropped-line": Look(stroke="rule", width=1.2, dash=(3, 3)),
    "best-line": Look(stroke="c0", width=2.6),
    "operation": Look("raised", "edge"),
    "input": Look("paper", "c2", width=1.8),
    "parameter": Look("paper", "c1", width=1.8),
    "output": Look("paper", "c0", width=2.2),
    "box-name": Look("ink", size=12.5, weight=600, anchor="middle"),
    "box-line": Look("faint", size=11, anchor="middle"),
    "edge": Look(stroke="edge", width=1.3),
    "arrow": Look("edge"),
    "edge-text": Look("faint", size=10.5, anchor="middle", halo=True),
    **{f"line-{number}": Look(stroke=f"c{number}", width=2.2) for number in range(len(COLOURS))},
    **{f"fill-{number}": Look(f"c{number}") for number in range(len(COLOURS))},
    **{f"band-{number}": Look(f"c{number}", opacity=0.16) for number in range(len(COLOURS))},
    **{f"ring-{number}": Look("paper", f"c{number}", width=1.8) for number in range(len(COLOURS))},
    **{f"point-{number}": Look(f"c{number}", "paper", width=0.8) for number in range(len(COLOURS))},
}
FILE_KINDS = {
    "brand": Look("c3", size=18, weight=650, anchor="middle"),
    "stop": Look("ink", size=17, weight=600, anchor="middle"),
    "stop-note": Look("faint", size=14, anchor="middle"),
    "tree-line": Look(stroke="edge", width=1.5),
    "tree-word": Look("ink", size=16, anchor="middle"),
    "tree-tag": Look("faint", size=11, anchor="middle"),
    **{f"phrase-{phrase}": Look(f"phrase-{phrase}") for phrase in PHRASES},
    **{
        f"phrase-{phrase}-name": Look(f"phrase-{phrase}-ink", size=12.5, weight=600, anchor="middle")
        for phrase in PHRASES
    },
}
"""Kinds of trees and of the thread of the documentation, which no page contains."""
ALL_KINDS = KINDS | FILE_KINDS


def rules(colours: dict[str, str] | None = None, kinds: Iterable[str] = KINDS, scope: str = ".clew-view") -> str:
    """Style sheet rules. Colours come from the given theme; without one, colours and fonts are CSS variables."""
    sans, mono = (SANS, MONO) if colours else ("var(--sans)", "var(--mono)")
    written = []
    for kind in kinds:
        look = ALL_KINDS[kind]
        fill, stroke = (
            name if name == "none" else f"var(--{name})" if colours is None else colours[name]
            for name in (look.fill, look.stroke)
        )
        lines = [f"fill:{fill}"]
        if look.stroke != "none":
            lines.append(f"stroke:{stroke};stroke-width:{look.width:g}")
        if look.halo:
            lines.append(
                f"stroke:{'var(--paper)' if colours is None else colours['paper']};stroke-width:4px;paint-order:stroke"
            )
        if look.dash:
            lines.append(f"stroke-dasharray:{' '.join(f'{part:g}' for part in look.dash)}")
        if look.opacity != 1:
            lines.append(f"fill-opacity:{look.opacity:g}")
        if look.size:
            lines.append(f"font:{look.weight} {look.size:g}px {mono if look.mono else sans}")
        if look.anchor != "start":
            lines.append(f"text-anchor:{look.anchor}")
        written.append(f"{scope} .{kind}{{{';'.join(lines)}}}")
    return "".join(written)


def theme_rules(selector: str) -> str:
    """Fonts and colours as variables of an element, in light or dark by the reader's system."""
    light, dark = map(variables, (LIGHT, DARK))
    dark_rule = f"@media(prefers-color-scheme:dark){{{selector}{{{dark}}}}}"
    return f"{selector}{{color-scheme:light dark;{FONTS}{light}}}{dark_rule}"
