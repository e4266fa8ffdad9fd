"""A picture repeated once per word, bright where the word attends and dark elsewhere (as in the figures of Xu et al.
2015).

Pages also have a large picture that the script steps through word by word; it is hidden without the script.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np

from clew.drawing.letters import markup, shortened_name, visible
from clew.drawing.parts import Overlays
from clew.drawing.shapes import Box, Label, Photo, Picture, Raster, Shape, pixels

SIDE, GAP, MARGIN, BELOW = 112, 10, 4, 22
MOST_IN_A_ROW = 7
LONGEST_NAME = 14
STAGE = 336
"""The longer side of the large picture, in pixels."""
DARKEST = 205
"""The opacity, of 255, where a word does not attend: the picture stays visible."""


def over_pixels(weights: np.ndarray, cell: tuple[int, int], size: tuple[int, int], before: int = 0) -> np.ndarray:
    """The weight of each pixel of a picture (height, width), from weights (rows, columns) of cells of `cell` pixels.
    The first cell starts `before` pixels outside the picture; the last reaches its end."""
    rows, columns = (
        np.minimum((np.arange(side) + before) // step, most - 1)
        for side, step, most in zip(size, cell, weights.shape, strict=True)
    )
    return weights[rows[:, None], columns[None, :]]


def over_boxes(
    weights: np.ndarray, boxes: Sequence[tuple[float, float, float, float]], size: tuple[int, int]
) -> np.ndarray:
    """The weight of each pixel of a picture (height, width), from weights of boxes (left, top, right, bottom): the
    largest of the boxes around it, and 0 outside all boxes."""
    by_pixel = np.zeros(size)
    for weight, (left, top, right, bottom) in zip(weights, boxes, strict=True):
        inside = slice(int(top), ceil(bottom)), slice(int(left), ceil(right))
        by_pixel[inside] = np.maximum(by_pixel[inside], weight)
    return by_pixel


def darkness(weights: np.ndarray) -> np.ndarray:
    """Levels from 0, at the largest weight, to DARKEST, at weight 0."""
    most = float(weights.max(initial=0.0))
    return np.rint(DARKEST * (1 - weights / most)) if most > 0 else np.full(weights.shape, float(DARKEST))


def shade(part: Overlays, number: int) -> np.ndarray:
    """The darkness of each pixel for the word with this index."""
    weights, size = np.asarray(part.maps[number], dtype=float), np.shape(part.pixels)[:2]
    return darkness(
        over_boxes(weights, part.boxes, size) if part.boxes else over_pixels(weights, part.cell, size, part.before)
    )


def highest_weight(part: Overlays, number: int) -> str:
    """The place of a word's largest weight, as text."""
    weights = np.asarray(part.maps[number], dtype=float)
    row, column = np.unravel_index(int(weights.argmax()), np.atleast_2d(weights).shape)
    place = f"region {column + 1}" if part.boxes else f"row {row + 1}, column {column + 1}"
    return f"{visible(part.names[number])}: {100 * weights.max():.0f} % at {place}"


def outlines(part: Overlays, x: float, y: float, scale: float) -> list[Shape]:
    """The boxes with their numbers, on a picture drawn at this scale."""
    shapes: list[Shape] = []
    for number, (left, top, right, bottom) in enumerate(part.boxes, start=1):
        shapes.append(
            Box(
                x + left * scale,
                y + top * scale,
                (right - left) * scale,
                (bottom - top) * scale,
                "region",
                f"region {number}",
            )
        )
        shapes.append(Label(x + left * scale + 3, y + top * scale + 11, str(number), "region-name"))
    return shapes


def overlays(part: Overlays) -> Picture:
    photo = np.asarray(part.pixels, dtype=np.uint8)
    height, width = photo.shape[:2]
    wide, tall = (SIDE * side / max(height, width, 1) for side in (width, height))
    shapes: list[Shape] = []
    for number, name in enumerate(["", *part.names]):
        x = MARGIN + number % MOST_IN_A_ROW * (SIDE + GAP) + (SIDE - wide) / 2
        y = MARGIN + number // MOST_IN_A_ROW * (tall + BELOW + GAP)
        shapes.append(Photo(x, y, wide, tall, photo))
        if number:
            shapes.append(Raster(x, y, wide, tall, shade(part, number - 1), "shade"))
            shapes.append(
                Label(x + wide / 2, y + tall + 16, shortened_name(visible(name), LONGEST_NAME), "word-middle")
            )
            shapes.append(Box(x, y, wide, tall, "thumb", highest_weight(part, number - 1), number=(number - 1, 0)))
        else:
            shapes.append(Box(x, y, wide, tall, "thumb", "the picture"))
            shapes += outlines(part, x, y, wide / max(width, 1))
    count = len(part.names) + 1
    across, down = min(count, MOST_IN_A_ROW), -(-count // MOST_IN_A_ROW)
    about = f"{part.title or 'attention over a picture'}: {len(part.names)} words"
    return Picture(2 * MARGIN + across * (SIDE + GAP) - GAP, MARGIN + down * (tall + BELOW + GAP), shapes, about)


def overlays_html(part: Overlays, name: str) -> str:
    """The large picture with its sentence and slider, followed by the small ones."""
    small = f'<div class="scroll">{overlays(part).svg(name)}</div>'
    return (steps(part, f"{name}-step") if len(part.names) else "") + small


def steps(part: Overlays, name: str) -> str:
    """One picture with a layer for each word; the script shows one layer at a time."""
    photo = np.asarray(part.pixels, dtype=np.uint8)
    height, width = photo.shape[:2]
    wide, tall = (STAGE * side / max(height, width, 1) for side in (width, height))
    layers = [
        Raster(0, 0, wide, tall, shade(part, number), "shade").svg(f"{name}-{number}")
        for number in range(len(part.names))
    ]
    drawn = "".join(
        '<g class="layer"'
        f' data-say="{markup(highest_weight(part, number))}"{"" if number == 0 else " hidden"}>{layer}</g>'
        for number, layer in enumerate(layers)
    )
    size = f'width="{pixels(wide)}" height="{pixels(tall)}" viewBox="0 0 {pixels(wide)} {pixels(tall)}"'
    below = Photo(0, 0, wide, tall, photo).svg(name)
    over = "".join(shape.svg(name) for shape in outlines(part, 0, 0, wide / max(width, 1)))
    stage = (
        '<svg class="stage" role="img" aria-label="the picture, bright where a word looks"'
        f" {size}>{below}{drawn}{over}</svg>"
    )
    words = " ".join(f'<button type="button">{markup(word)}</button>' for word in part.names)
    slider = (
        f'<input type="range" min="0" max="{len(part.names) - 1}" step="1" value="0" aria-label="word of the'
        ' sentence"/>'
    )
    moves = ['<button type="button" data-by="-1" title="the word before (left)">\u2190</button>', slider]
    moves += ['<button type="button" data-by="1" title="the next word (right)">\u2192</button>', "<output></output>"]
    return (
        '<div class="steps" hidden tabindex="0" role="group" aria-label="word by word; the arrow keys go from word to'
        f' word"><p class="sentence">{words}</p>{stage}<div class="moves">{"".join(moves)}</div></div>'
    )
