"""Background colours for words on a terminal: true colour, 256 or 16 colours, as it supports; none in a pipe or if
NO_COLOR is set."""

import os
from collections.abc import Mapping
from typing import Any

from clew.drawing.colours import DARK, LIGHT, contrast, mixed

TRUE, MANY, FEW = 2**24, 256, 16
LEAST = 0.04
"""Smaller values get no colour."""
CUBE = (0, 95, 135, 175, 215, 255)
"""Levels of red, green and blue in xterm's 256 colours, from colour 16."""


class Painted(str):
    """A line with clew's own colour codes, whose text is already escaped."""


def colours_of(stream: Any, environment: Mapping[str, str] = os.environ) -> int:
    """Return how many colours a stream supports; 0 if it is not a terminal, or if NO_COLOR is set
    (https://no-color.org)."""
    terminal = environment.get("TERM", "")
    if environment.get("NO_COLOR") or terminal in ("", "dumb") or not stream.isatty():
        return 0
    if environment.get("COLORTERM", "") in ("truecolor", "24bit"):
        return TRUE
    return MANY if "256" in terminal or "kitty" in terminal or "direct" in terminal else FEW


def theme(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the colours for the terminal's background, as COLORFGBG gives it; for a dark one by default."""
    paper = environment.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if paper in ("7", "15") else DARK


def colour_background(text: str, strength: float, colours: int, theme: Mapping[str, str]) -> str:
    """Colour the background of a text by a value: one hue above zero, another below."""
    if abs(strength) < LEAST or not text or not colours:
        return text
    if colours == FEW:
        strong = "44;97" if strength > 0 else "43;30"  # white on blue, black on yellow
        return f"\x1b[{strong if abs(strength) >= 0.5 else 4}m{text}\x1b[0m"
    paper = mixed(theme["heat" if strength > 0 else "cold"], theme["paper"], abs(strength))
    ink = max(("#000000", "#ffffff"), key=lambda colour: contrast(colour, paper))
    return f"\x1b[48;{code(paper, colours)};38;{code(ink, colours)}m{text}\x1b[0m"


def code(colour: str, colours: int) -> str:
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    if colours == TRUE:
        return ";".join(["2", *map(str, parts)])
    red, green, blue = (min(range(6), key=lambda level: abs(CUBE[level] - part)) for part in parts)
    return f"5;{16 + 36 * red + 6 * green + blue}"
