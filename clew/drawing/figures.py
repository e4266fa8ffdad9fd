"""Views as matplotlib figures, for papers: one panel per part, 100 pixels of a picture per inch, on light paper.
matplotlib is an extra.

Parts with scales (lines, points, bars, heatmaps) get their own axes, which can be changed like any others; other parts
are drawn as pictures.
"""

import warnings
from collections.abc import Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError
from clew.drawing.axes import Field
from clew.drawing.colours import LIGHT
from clew.drawing.figure_panels import PANELS
from clew.drawing.kinds import KINDS
from clew.drawing.letters import visible
from clew.drawing.pages import DRAWN, title_of
from clew.drawing.parts import Part
from clew.drawing.shapes import Box, Dot, Label, Photo, Raster, Shape, Stroke

INCH, POINT = 100, 0.72
"""Pixels per inch, and points per pixel."""
MARGIN, TITLE, BETWEEN = 20, 34, 22
LARGEST = 40_000
"""The largest side, in pixels, that matplotlib can draw at the requested resolution."""
MOST_PIXELS = 30e6
"""The largest number of pixels of a picture; larger ones get a lower resolution."""


def load_matplotlib(instead: str = "draw a page: --curves FILE.html") -> Any:
    try:
        return import_module("matplotlib.figure")
    except ModuleNotFoundError:
        raise UserError(
            f"pictures are drawn with matplotlib, which is not installed; `pip install 'clew[plot]'`, or {instead}"
        ) from None


def save_figure(figure: Any, path: Path) -> None:
    """Saves a figure in the format of the path's suffix. Letters that matplotlib's fonts lack become boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(path)


def figure_of(title: str, parts: Sequence[Part]) -> Any:
    """One figure with all parts below each other."""
    matplotlib = load_matplotlib("save as .html or .svg, which need no package")
    pictures = [DRAWN[type(part)].picture(part) for part in parts]
    titles = [title_of(part) for part in parts]
    width = max([drawn.width for drawn in pictures] + [480]) + 2 * MARGIN
    height = (
        MARGIN
        + TITLE
        + sum(drawn.height + BETWEEN + (BETWEEN if text else 0) for drawn, text in zip(pictures, titles, strict=True))
    )
    if max(width, height) > LARGEST:
        raise UserError(
            f"the picture would be {width:.0f} x {height:.0f} pixels, but matplotlib draws at most {LARGEST}; save as"
            " .html or .svg"
        )
    dpi = min(150.0, INCH * (MOST_PIXELS / (width * height)) ** 0.5)
    figure = matplotlib.Figure(figsize=(width / INCH, height / INCH), dpi=dpi)
    write(figure, MARGIN / width, 1 - (MARGIN + 12) / height, title, "heading")
    top = float(MARGIN + TITLE)
    for part, text, drawn in zip(parts, titles, pictures, strict=True):
        if text:
            write(figure, MARGIN / width, 1 - (top + 12) / height, text, "title")
            top += BETWEEN

        def place(field: Field, top: float = top) -> Any:
            """An axis on a field of this part's picture."""
            low, size = (
                1 - (top + field.bottom) / height,
                ((field.right - field.left) / width, (field.bottom - field.top) / height),
            )
            return figure.add_axes(((MARGIN + field.left) / width, low, *size))

        panel = PANELS.get(type(part))
        shapes = panel(part, place) if panel else drawn.shapes
        draw_shapes(place(Field(0, 0, drawn.width, drawn.height)), drawn.width, drawn.height, shapes)
        top += drawn.height + BETWEEN
    return figure


def write(on: Any, x: float, y: float, text: str, kind: str, turn: float = 0.0) -> None:
    """Writes a text in the style of its kind. A dollar sign stays a dollar sign."""
    look = KINDS[kind]
    side = {"start": "left", "middle": "center", "end": "right"}[look.anchor]
    on.text(
        x,
        y,
        visible(text),
        color=LIGHT[look.fill],
        fontsize=look.size * POINT,
        fontweight="bold" if look.weight >= 600 else "normal",
        fontfamily="monospace" if look.mono else "sans-serif",
        ha=side,
        va="baseline",
        rotation=-turn,
        rotation_mode="anchor",
        parse_math=False,
        bbox={"facecolor": LIGHT["paper"], "edgecolor": "none", "pad": 1} if look.halo else None,
    )


def draw_shapes(axis: Any, width: float, height: float, shapes: Sequence[Shape]) -> None:
    """Draws a picture's shapes, in its pixels, on an invisible axis. Adjacent rectangles are one collection: a text has
    thousands."""
    axis.set_xlim(0, width)
    axis.set_ylim(height, 0)
    axis.set_axis_off()
    axis.patch.set_visible(False)
    for is_plain, run in groupby(shapes, key=lambda shape: isinstance(shape, Box) and not shape.round):
        if is_plain:
            boxes = [patch_of(shape) for shape in run]
            axis.add_collection(import_module("matplotlib.collections").PatchCollection(boxes, match_original=True))
            continue
        for shape in run:
            if isinstance(shape, Label):
                write(axis, shape.x, shape.y, shape.text, shape.kind, shape.turn)
            elif isinstance(shape, Raster):
                draw_raster(axis, shape)
            elif isinstance(shape, Photo):
                draw_photo(axis, shape)
            else:
                axis.add_patch(patch_of(shape))


def draw_raster(axis: Any, shape: Raster) -> None:
    image = np.ones((*shape.levels.shape, 4))
    image[..., :3] = import_module("matplotlib.colors").to_rgb(LIGHT[KINDS[shape.kind].fill])
    image[..., 3] = shape.levels / 255 * (1 if shape.shown is None else shape.shown)
    draw_image(axis, shape, image)


def draw_photo(axis: Any, shape: Photo) -> None:
    look = {} if shape.levels.ndim == 3 else {"cmap": "gray", "vmin": 0, "vmax": 255}
    draw_image(axis, shape, shape.levels, alpha=shape.opacity, **look)


def draw_image(axis: Any, shape: Raster | Photo, image: np.ndarray, **look: Any) -> None:
    place = (shape.x, shape.x + shape.width, shape.y + shape.height, shape.y)
    smooth = image.shape[0] * image.shape[1] >= 1e5
    axis.imshow(image, extent=place, aspect="auto", interpolation="antialiased" if smooth else "nearest", **look)


def patch_of(shape: Any) -> Any:
    """A box, a dot or a stroke as a matplotlib patch."""
    patches, paths = import_module("matplotlib.patches"), import_module("matplotlib.path")
    look = KINDS[shape.kind]
    opacity = shape.opacity if isinstance(shape, Box) and shape.opacity is not None else look.opacity
    is_filled = look.fill != "none" and (not isinstance(shape, Stroke) or shape.closed)
    style = {
        "facecolor": import_module("matplotlib.colors").to_rgba(LIGHT[look.fill], opacity) if is_filled else "none",
        "edgecolor": "none" if look.stroke == "none" else LIGHT[look.stroke],
        "linewidth": look.width * POINT,
    }
    if isinstance(shape, Dot):
        return patches.Circle((shape.x, shape.y), shape.radius, **style)
    if isinstance(shape, Stroke):
        dash = shape.dash or look.dash
        codes = [paths.Path.MOVETO] + [paths.Path.CURVE4 if shape.curved else paths.Path.LINETO] * (
            len(shape.points) - 1
        )
        line = (0, tuple(part * POINT for part in dash)) if dash else "solid"
        return patches.PathPatch(paths.Path(list(shape.points), codes), linestyle=line, **style)
    if not shape.round:
        return patches.Rectangle((shape.x, shape.y), shape.width, shape.height, **style)
    kind = patches.BoxStyle("Round", pad=0, rounding_size=min(shape.round, shape.width / 2, shape.height / 2))
    return patches.FancyBboxPatch((shape.x, shape.y), shape.width, shape.height, boxstyle=kind, **style)
