"""Render lines of text as pictures that look handwritten: the strokes of a small font, bent and slanted differently for
every seed.

A glyph is a few strokes, and a stroke is the points that a pen passes through, two digits each: x, then y. The baseline
is at y = 3, small letters reach 6 and tall ones 9; 0 is the lowest tail. The pen follows a Catmull-Rom spline through
the points; a point that appears twice is a corner.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clew.core.errors import UserError, few_of, shown

BASELINE, TALLEST = 3, 9
BELOW, ABOVE = 1.5, 2.0
BESIDE = 1.0
"""Margins below the lowest tail, above the tallest letter and at both ends, with room for larger glyphs."""
SPACE, GAP = 3.0, 1.6
"""Widths of a space, and of the gap between two glyphs."""
PIECES = 4
"""Straight pieces of the spline between two points."""
LONGEST = 1000
"""Characters of a line, at most."""


@dataclass(frozen=True)
class Hand:
    """How much handwriting varies from line to line and from point to point."""

    slant: float = 0.3  # a line leans by up to this to either side; 1 is 45 degrees
    jitter: float = 0.15  # standard deviation of the positions of points
    size: float = 0.15  # glyphs are larger or smaller by up to this share
    thickness: tuple[float, float] = (0.6, 1.4)  # pixels on either side of a stroke, for a height of 32

    def __post_init__(self) -> None:
        low, high = self.thickness
        if min(self.slant, self.jitter, self.size) < 0 or not 0 < low <= high or self.size >= 1:
            raise UserError(
                f"slant, jitter and size must be at least 0, size below 1, and thickness a range above 0, not {self}"
            )


def render_line(text: str, *, seed: int = 0, height: int = 32, hand: Hand | None = None) -> Tensor:
    """Return the picture (height, width) of a line: ink is 1, paper 0. The same text and seed give the same picture."""
    if height < 8:
        raise UserError(f"height ({height}) must be at least 8 pixels")
    if not text.strip() or len(text) > LONGEST:
        raise UserError(f"a line must have 1 to {LONGEST:,} characters, not only spaces; this one has {len(text):,}")
    if unknown := sorted({character for character in text if character not in GLYPHS and character != " "}):
        raise UserError(
            f"there are no strokes for {shown(''.join(unknown))}; a line may contain {few_of(sorted(GLYPHS))} and"
            " spaces"
        )
    hand = Hand() if hand is None else hand
    draw = np.random.default_rng([seed, *text.encode()])
    strokes, width = lay_out(text, hand, draw)
    unit = (height - 1) / (TALLEST + BELOW + ABOVE)
    slant = draw.uniform(-hand.slant, hand.slant)
    thickness = draw.uniform(*hand.thickness) * height / 32
    lines = [smoothed(stroke) for stroke in strokes]
    for line in lines:
        line[:, 0] += slant * (line[:, 1] - BASELINE)
    left = min(line[:, 0].min() for line in lines) - BESIDE
    right = max(max(line[:, 0].max() for line in lines), width - GAP) + BESIDE
    picture = np.zeros((height, int(np.ceil((right - left) * unit))), np.float32)
    for line in lines:
        draw_stroke(
            picture, np.stack([(line[:, 0] - left) * unit, height - 1 - (line[:, 1] + BELOW) * unit], 1), thickness
        )
    return torch.from_numpy(picture)


def columns(picture: Tensor) -> Tensor:
    """Return a picture's columns from left to right as frames (width, height)."""
    return picture.mT


def lay_out(text: str, hand: Hand, draw: np.random.Generator) -> tuple[list[np.ndarray], float]:
    """Return the points of every stroke (points, 2), one glyph after another, and the end of the line."""
    strokes, place = [], 0.0
    for character in text:
        if character == " ":
            place += SPACE * (1 + draw.uniform(-hand.size, hand.size))
            continue
        glyph = [
            np.array([[int(x), int(y)] for x, y in zip(stroke[::2], stroke[1::2], strict=True)], float)
            for stroke in GLYPHS[character]
        ]
        size = 1 + draw.uniform(-hand.size, hand.size)
        for points in glyph:
            scaled = BASELINE * np.array([0, 1]) + size * (points - BASELINE * np.array([0, 1]))
            moved = scaled + draw.normal(0, hand.jitter, (1, 2)) / 2 + draw.normal(0, hand.jitter, points.shape)
            strokes.append(moved + np.array([place, 0]))
        place += size * max(points[:, 0].max() for points in glyph) + GAP
    return strokes, place


def smoothed(points: np.ndarray) -> np.ndarray:
    """Return a Catmull-Rom spline through the points (pieces + 1, 2): a straight line if there are two."""
    around = np.concatenate([2 * points[:1] - points[1:2], points, 2 * points[-1:] - points[-2:-1]])
    t = np.linspace(0, 1, PIECES, endpoint=False)[:, None]
    parts = []
    for before, first, second, after in zip(around, around[1:], around[2:], around[3:], strict=False):
        bend = 2 * before - 5 * first + 4 * second - after
        parts.append(first + 0.5 * t * (second - before + t * (bend + t * (3 * (first - second) + after - before))))
    return np.concatenate([*parts, points[-1:]])


def draw_stroke(picture: np.ndarray, points: np.ndarray, thickness: float) -> None:
    """Add ink to the pixels nearer than `thickness` to the straight pieces between the points (x, y), fading out over
    one pixel."""
    low = np.maximum(np.floor(points.min(0) - thickness - 1).astype(int), 0)
    high = np.minimum(np.ceil(points.max(0) + thickness + 1).astype(int) + 1, picture.shape[::-1])
    if (low >= high).any():
        return
    # (rows, columns, 1, 2)
    pixels = np.stack(np.meshgrid(np.arange(low[0], high[0]), np.arange(low[1], high[1])), -1)[:, :, None]
    starts, along = points[:-1], np.diff(points, axis=0)  # (pieces, 2)
    share = ((pixels - starts) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9)
    nearest = starts + np.clip(share, 0, 1)[..., None] * along
    distance = np.sqrt(((pixels - nearest) ** 2).sum(-1)).min(-1)  # (rows, columns)
    part = picture[low[1] : high[1], low[0] : high[0]]
    np.maximum(part, np.clip(thickness + 0.5 - distance, 0, 1), out=part)


GLYPHS = {
    character: strokes.split()
    for character, strokes in {
        "a": "4536160504133344 4643",
        "b": "0903 0516364544331304",
        "c": "4536160504133344",
        "d": "4536160504133344 4943",
        "e": "05454536160504133344",
        "f": "48392823 1636",
        "g": "4536160504133344 4641301001",
        "h": "0903 0516364543",
        "i": "1613 1818",
        "j": "26211001 2828",
        "k": "0903 3604 1533",
        "l": "090413",
        "m": "0603 0516263533 3546566563",
        "n": "0603 0516364543",
        "o": "160504133344453616",
        "p": "0600 0516364544331304",
        "q": "4536160504133344 4640",
        "r": "0603 051636",
        "s": "4536160544331304",
        "t": "18142333 0636",
        "u": "0604133344 4643",
        "v": "06232346",
        "w": "0613133636535366",
        "x": "0643 4603",
        "y": "0623 4610",
        "z": "064646030343",
        "0": "29070523454729",
        "1": "07292923",
        "2": "07193947030343",
        "3": "0829482626442304",
        "4": "39050545 3933",
        "5": "490909060637452304",
        "6": "39060423443605",
        "7": "09494913",
        "8": "260829482604234426",
        "9": "47260729484733",
        ".": "0303",
        ",": "1302",
        "'": "0908",
        "-": "0535",
        "?": "0829482625 2323",
        "!": "0905 0303",
    }.items()
}
