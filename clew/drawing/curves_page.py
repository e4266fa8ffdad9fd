"""Learning curves as one self-contained web page: inline SVG, a short script for the readout, no network.

The drawing works without the script, which adds a readout for pointer and arrow keys, and buttons that hide groups.
"""

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from clew.drawing.colours import COLOURS, DARK, LIGHT, dash_of, variables
from clew.drawing.curves import FEW_POINTS, Curve, Curves, Panel, mean_of, thinned, value_range
from clew.drawing.scales import labels, ticks

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 66, 30, 12, 50


def page(
    panels: Sequence[Panel],
    title: str,
    about: str = "",
    table: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None,
) -> str:
    """The page. `table` is a header and rows, shown below the curves."""
    template = (files("clew.drawing") / "curves_page.html").read_text(encoding="utf-8")
    parts = {
        "TITLE": escape(title),
        "ABOUT": escape(about),
        "LIGHT": variables(LIGHT),
        "DARK": variables(DARK),
        "LEGEND": "\n".join(legend_entry(number, group) for number, group in enumerate(panels[0].groups)),
        "PANELS": "\n".join(figure_of(number, panel) for number, panel in enumerate(panels)),
        "TABLE": "" if table is None else table_of(*table),
        "DATA": script_json({"wide": WIDTH, "colours": len(COLOURS), "panels": [readout(panel) for panel in panels]}),
    }
    pieces = template.split("@@")
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def legend_entry(number: int, group: Curves) -> str:
    count = f"{len(group.runs)} runs" if len(group.runs) != 1 else "1 run"
    swatch = f'<svg width="34" height="10" aria-hidden="true"><path d="M1 5H33" {stroke(number, 3)}/></svg>'
    text = f'<span class="name">{escape(group.name)} <span class="count">{count}</span></span>'
    return f'<li><button type="button" aria-pressed="true" data-group="{number}">{swatch}{text}</button></li>'


def figure_of(number: int, panel: Panel) -> str:
    scale = Scale(panel)
    about = (
        f"{panel.title}: {panel.label} against training steps, {len(panel.groups)} groups; the arrow keys read values"
    )
    inside = f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"/>'
    return f"""<figure>
<figcaption id="title-{number}">{escape(panel.title)}</figcaption>
<div class="drawing">
<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0" aria-label="{escape(about)}" data-panel="{number}">
<clipPath id="inside-{number}">{inside}</clipPath>
{axes(scale, panel.label)}
<g clip-path="url(#inside-{number})">
{chr(10).join(lines_of(which, group, scale) for which, group in enumerate(panel.groups))}
</g>
<g class="readout" visibility="hidden"><path class="crosshair" d="M0 {TOP}V{HEIGHT - BOTTOM}"/></g>
</svg>
<div class="values" hidden></div>
</div>
</figure>"""


class Scale:
    """Maps a panel's steps and values to pixels."""

    def __init__(self, panel: Panel):
        self.last = max((step for group in panel.groups for run in group.runs for step in run.steps), default=1) or 1
        self.low, self.high = value_range(panel.groups)

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.last

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / (self.high - self.low)


def axes(scale: Scale, label: str) -> str:
    elements = []
    for step in ticks(0, scale.last, 6):
        x = scale.x(step)
        elements.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        elements.append(
            f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step:,.0f}</text>'
        )
    heights = ticks(scale.low, scale.high, 6)
    for value, text in zip(heights, labels(heights), strict=True):
        y = scale.y(value)
        elements.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        elements.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    elements.append(f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    elements.append(
        f'<text class="label" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">training'
        " steps</text>"
    )
    elements.append(
        f'<text class="label" transform="translate(16 {middle:.0f}) rotate(-90)"'
        f' text-anchor="middle">{escape(label)}</text>'
    )
    return "\n".join(elements)


def lines_of(number: int, group: Curves, scale: Scale) -> str:
    """A group's runs as thin lines, and their mean as a thick one."""
    runs = [
        f'<path class="run" d="{path(thinned(run), scale)}" {stroke(number, 1)}/>' for run in group.runs if run.steps
    ]
    mean = mean_of(group)
    dots = "".join(
        f'<circle cx="{scale.x(step):.1f}" cy="{scale.y(value):.1f}" r="3"/>'
        for step, value in points(mean, FEW_POINTS)
    )
    line = f'<path class="mean" d="{path(mean, scale)}" {stroke(number, 2.6)}/>' if mean.steps else ""
    colour = f'style="fill: var(--c{number % len(COLOURS)})"'
    return f'<g class="group" data-group="{number}">{"".join(runs)}{line}<g {colour}>{dots}</g></g>'


def points(curve: Curve, most: int) -> list[tuple[int, float]]:
    return list(zip(curve.steps, curve.values, strict=True)) if len(curve.steps) <= most else []


def path(curve: Curve, scale: Scale) -> str:
    return "M" + "L".join(
        f"{scale.x(step):.1f} {scale.y(value):.1f}" for step, value in zip(curve.steps, curve.values, strict=True)
    )


def stroke(number: int, width: float) -> str:
    dash = dash_of(number)
    pattern = f' stroke-dasharray="{" ".join(f"{part:g}" for part in dash)}"' if dash and width > 1 else ""
    return f'style="stroke: var(--c{number % len(COLOURS)})" stroke-width="{width:g}" fill="none"{pattern}'


def readout(panel: Panel) -> dict[str, Any]:
    """The data for the script's readout: the corners of the picture, and every group's mean."""
    scale = Scale(panel)
    means = [mean_of(group) for group in panel.groups]
    return {
        "left": LEFT,
        "width": WIDTH - LEFT - RIGHT,
        "top": TOP,
        "height": HEIGHT - TOP - BOTTOM,
        "last": scale.last,
        "low": scale.low,
        "high": scale.high,
        "groups": [
            {"name": group.name, "steps": mean.steps, "values": [float(f"{value:.6g}") for value in mean.values]}
            for group, mean in zip(panel.groups, means, strict=True)
        ],
    }


def script_json(content: Any) -> str:
    """JSON that cannot end its script element, whatever text it holds."""
    text = json.dumps(content, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'
