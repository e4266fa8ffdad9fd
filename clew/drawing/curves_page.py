"""Learning curves as one self-contained web page: inline SVG, a short script for the readout, no network.

The drawing works without the script, which adds a readout for pointer and arrow keys, and buttons that hide groups.
"""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from clew.drawing.axes import Field, axes, tick_room
from clew.drawing.colours import COLOURS, dash_of
from clew.drawing.curves import FEW_POINTS, Curve, Curves, Panel, mean_of, thinned, value_range
from clew.drawing.kinds import KINDS, rules, theme_rules
from clew.drawing.letters import markup
from clew.drawing.scales import Scale
from clew.drawing.shapes import Dot, Place, Shape, Stroke, pixels
from clew.drawing.table import table_element

WIDTH, HEIGHT = 640, 400
RIGHT, TOP, BOTTOM = 30, 12, 50
DRAWN = [kind for kind in KINDS if kind.partition("-")[0] in ("grid", "axis", "tick", "label", "line", "fill")]


def page(
    panels: Sequence[Panel],
    title: str,
    about: str = "",
    table: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None,
) -> str:
    """The page. `table` is a header and rows, shown below the curves."""
    template = (files("clew.drawing") / "curves_page.html").read_text(encoding="utf-8")
    parts = {
        "TITLE": markup(title),
        "ABOUT": markup(about),
        "THEMES": theme_rules(":root"),
        "RULES": rules(kinds=DRAWN, scope="svg"),
        "LEGEND": "\n".join(legend_entry(number, group) for number, group in enumerate(panels[0].groups)),
        "PANELS": "\n".join(figure_of(number, panel) for number, panel in enumerate(panels)),
        "TABLE": "" if table is None else f'<div class="table">{table_element(*table)}</div>',
        "DATA": script_json({"wide": WIDTH, "colours": len(COLOURS), "panels": [readout(panel) for panel in panels]}),
    }
    pieces = template.split("@@")
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def legend_entry(number: int, group: Curves) -> str:
    count = f"{len(group.runs)} runs" if len(group.runs) != 1 else "1 run"
    line = Stroke([(1, 5), (33, 5)], f"line-{number % len(COLOURS)}", dash=dash_of(number))
    swatch = f'<svg width="34" height="10" aria-hidden="true">{line.svg("")}</svg>'
    text = f'<span class="name">{markup(group.name)} <span class="count">{count}</span></span>'
    return f'<li><button type="button" aria-pressed="true" data-group="{number}">{swatch}{text}</button></li>'


def figure_of(number: int, panel: Panel) -> str:
    x, y, field = scales(panel)
    about = (
        f"{panel.title}: {panel.label} against training steps, {len(panel.groups)} groups; the arrow keys read values"
    )
    width, height = pixels(field.right - field.left), pixels(field.bottom - field.top)
    inside = f'<rect x="{pixels(field.left)}" y="{pixels(field.top)}" width="{width}" height="{height}"/>'
    return f"""<figure>
<figcaption id="title-{number}">{markup(panel.title)}</figcaption>
<div class="drawing">
<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" tabindex="0" aria-label="{markup(about)}" data-panel="{number}">
<clipPath id="inside-{number}">{inside}</clipPath>
{written(axes(x, y, field, "training steps", panel.label))}
<g clip-path="url(#inside-{number})">
{chr(10).join(lines_of(which, group, x, y) for which, group in enumerate(panel.groups))}
</g>
<g class="readout" visibility="hidden"><path class="crosshair" d="M0 {field.top}V{field.bottom}"/></g>
</svg>
<div class="values" hidden></div>
</div>
</figure>"""


def scales(panel: Panel) -> tuple[Scale, Scale, Field]:
    """The scales of a panel's steps and values, and their field, at which lines beyond are clipped."""
    last = max((step for group in panel.groups for run in group.runs for step in run.steps), default=1) or 1
    low, high = value_range(panel.groups)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP, is_open=True)
    field = Field(tick_room(y, panel.label), TOP, WIDTH - RIGHT, HEIGHT - BOTTOM)
    return Scale(0, last, field.left, field.right, whole=True), y, field


def lines_of(number: int, group: Curves, x: Scale, y: Scale) -> str:
    """A group's runs as thin lines, and their mean as a thick one."""
    colour = number % len(COLOURS)
    shapes: list[Shape] = [Stroke(places(thinned(run), x, y), f"run line-{colour}") for run in group.runs if run.steps]
    mean = places(mean_of(group), x, y)
    if mean:
        shapes.append(Stroke(mean, f"mean line-{colour}", dash=dash_of(number)))
    if len(mean) <= FEW_POINTS:
        shapes += [Dot(*place, 3, f"fill-{colour}") for place in mean]
    return f'<g class="group" data-group="{number}">{written(shapes)}</g>'


def places(curve: Curve, x: Scale, y: Scale) -> list[Place]:
    return [(x(step), y(value)) for step, value in zip(curve.steps, curve.values, strict=True)]


def written(shapes: Sequence[Shape]) -> str:
    return "".join(shape.svg("") for shape in shapes)


def readout(panel: Panel) -> dict[str, Any]:
    """The data for the script's readout: the corners of the picture, and every group's mean."""
    x, y, field = scales(panel)
    means = [mean_of(group) for group in panel.groups]
    return {
        "left": field.left,
        "width": field.right - field.left,
        "top": field.top,
        "height": field.bottom - field.top,
        "last": x.high,
        "low": y.low,
        "high": y.high,
        "groups": [
            {"name": group.name, "steps": mean.steps, "values": [float(f"{value:.6g}") for value in mean.values]}
            for group, mean in zip(panel.groups, means, strict=True)
        ],
    }


def script_json(content: Any) -> str:
    """JSON that cannot end its script element, regardless of the text in it."""
    text = json.dumps(content, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
