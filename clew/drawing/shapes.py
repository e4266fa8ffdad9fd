"""The shapes of pictures, and the only place that writes them as SVG: texts and titles are escaped here and nowhere
else.

A shape with a `title` is a mark: the pointer, the arrow keys and screen readers show its title.
"""

import json
import math
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clew.drawing.letters import markup
from clew.drawing.png import png

Place = tuple[float, float]


def pixels(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def places(points: Sequence[Place]) -> list[str]:
    return [f"{pixels(x)} {pixels(y)}" for x, y in points]


def titled(element: str, attributes: str, kind: str, title: str) -> str:
    """An SVG element of a kind; a mark if it has a title."""
    if not title:
        return f'<{element} class="{kind}" {attributes}/>'
    return f'<{element} class="{kind} mark" {attributes}><title>{markup(title)}</title></{element}>'


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str = ""
    round: float = 0.0
    opacity: float | None = None
    number: tuple[int, int] | None = None
    """Row and column, for the page's action when it is selected."""

    def svg(self, name: str) -> str:
        attributes = (
            f'x="{pixels(self.x)}" y="{pixels(self.y)}" width="{pixels(self.width)}" height="{pixels(self.height)}"'
        )
        attributes += f' rx="{pixels(self.round)}"' if self.round else ""
        attributes += f' fill-opacity="{self.opacity:.3g}"' if self.opacity is not None else ""
        attributes += f' data-row="{self.number[0]}" data-column="{self.number[1]}"' if self.number is not None else ""
        return titled("rect", attributes, self.kind, self.title)


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    radius: float
    kind: str
    title: str = ""

    def svg(self, name: str) -> str:
        return titled(
            "circle", f'cx="{pixels(self.x)}" cy="{pixels(self.y)}" r="{pixels(self.radius)}"', self.kind, self.title
        )


@dataclass(frozen=True)
class Stroke:
    """Points joined by straight lines, or by cubic curves: a point, then for each piece two control points and a
    point."""

    points: Sequence[Place]
    kind: str
    curved: bool = False
    closed: bool = False
    dash: tuple[float, ...] = ()
    title: str = ""
    bend: float = 0.0
    """The radius of the corners of straight lines."""

    def svg(self, name: str) -> str:
        first, *rest = places(self.points)
        if self.bend:
            path = bent(self.points, self.bend)
        elif self.curved:
            path = f"M{first}" + "".join(f"C{' '.join(rest[at : at + 3])}" for at in range(0, len(rest), 3))
        else:
            path = "L".join([f"M{first}", *rest]) + ("Z" if self.closed else "")
        dash = f' stroke-dasharray="{" ".join(f"{part:g}" for part in self.dash)}"' if self.dash else ""
        fill = "" if self.closed else ' fill="none"'
        return titled("path", f'd="{path}"{dash}{fill}', self.kind, self.title)


def bent(points: Sequence[Place], bend: float) -> str:
    """Straight lines with round corners, smaller ones where a line is too short for two of this radius."""
    path = f"M{places(points[:1])[0]}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(bend, math.dist(before, corner) / 2, math.dist(corner, after) / 2)
        start, end = (towards(corner, other, radius) for other in (before, after))
        path += "L{}Q{} {}".format(*places([start, corner, end]))
    return f"{path}L{places(points[-1:])[0]}"


def towards(start: Place, end: Place, distance: float) -> Place:
    share = distance / (math.dist(start, end) or 1.0)
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


@dataclass(frozen=True)
class Label:
    x: float
    y: float
    text: str
    kind: str
    turn: float = 0.0
    length: float | None = None
    """The width in pixels to fit the text to, when letters lie on colours of their own."""

    def svg(self, name: str) -> str:
        turn = f' transform="rotate({self.turn:g} {pixels(self.x)} {pixels(self.y)})"' if self.turn else ""
        length = f' textLength="{pixels(self.length)}"' if self.length is not None else ""
        return (
            f'<text class="{self.kind}" x="{pixels(self.x)}"'
            f' y="{pixels(self.y)}"{turn}{length}>{markup(self.text)}</text>'
        )


@dataclass(frozen=True)
class Raster:
    """Levels (rows, columns) from 0, transparent, to 255, the full colour of its kind; no value where `shown` is False.
    The image is a mask, so that its colour follows the theme."""

    x: float
    y: float
    width: float
    height: float
    levels: np.ndarray
    kind: str
    shown: np.ndarray | None = None

    def svg(self, name: str) -> str:
        area = f'x="{pixels(self.x)}" y="{pixels(self.y)}" width="{pixels(self.width)}" height="{pixels(self.height)}"'
        content = b64encode(png(self.levels, self.shown)).decode()
        return (
            f'<mask id="{name}" maskUnits="userSpaceOnUse" {area}><image {area} preserveAspectRatio="none" '
            f'style="image-rendering:pixelated" href="data:image/png;base64,{content}"/></mask>'
            f'<rect class="{self.kind}" {area} mask="url(#{name})"/>'
        )


@dataclass(frozen=True)
class Photo:
    """A picture in its own colours (rows, columns, 3), or in grey (rows, columns), from 0 to 255, with an `opacity`."""

    x: float
    y: float
    width: float
    height: float
    levels: np.ndarray
    opacity: float = 1.0

    def svg(self, name: str) -> str:
        area = f'x="{pixels(self.x)}" y="{pixels(self.y)}" width="{pixels(self.width)}" height="{pixels(self.height)}"'
        content = b64encode(png(self.levels)).decode()
        return (
            f'<image {area} opacity="{self.opacity:.3g}" preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{content}"/>'
        )


Shape = Box | Dot | Stroke | Label | Raster | Photo


@dataclass(frozen=True)
class Picture:
    """Shapes in an area of pixels. `about` describes the whole; `readout` is the data from which the script reads
    values, if the marks do not give them."""

    width: float
    height: float
    shapes: Sequence[Shape]
    about: str = ""
    readout: dict[str, Any] = field(default_factory=dict)

    def inner(self, name: str) -> str:
        return "".join(shape.svg(f"{name}-{number}") for number, shape in enumerate(self.shapes))

    def svg(self, name: str) -> str:
        """The picture inside a page."""
        readout = f' data-readout="{markup(json.dumps(self.readout, separators=(",", ":")))}"' if self.readout else ""
        size = (
            f'width="{pixels(self.width)}" height="{pixels(self.height)}" viewBox="0 0 {pixels(self.width)}'
            f' {pixels(self.height)}"'
        )
        is_read = bool(self.readout) or any(getattr(shape, "title", "") for shape in self.shapes)
        focus = ' tabindex="0"' if is_read else ""
        about = f"{self.about}; the arrow keys read values" if is_read else self.about
        return (
            f'<svg class="picture" role="img" {size}{focus}'
            f' aria-label="{markup(about)}"{readout}>{self.inner(name)}</svg>'
        )
