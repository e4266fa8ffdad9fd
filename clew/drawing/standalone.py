"""The envelope of an SVG file: its size, its description, its style sheet and its paper, light or dark by the reader's
system, or always one of these."""

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, get_args

from clew.core.errors import unknown
from clew.drawing.colours import DARK, LIGHT, TREE_DARK, TREE_LIGHT
from clew.drawing.kinds import ALL_KINDS, rules
from clew.drawing.letters import markup
from clew.drawing.shapes import Picture, pixels

Theme = Literal["auto", "light", "dark"]


def standalone(width: float, height: float, about: str, body: str, theme: Theme = "auto") -> str:
    """A picture at its natural size. `body` is SVG, `about` is text.

    The rules have a scope, since a page may contain pictures of several themes, and no variables, which some viewers do
    not support.
    """
    if theme not in get_args(Theme):
        raise unknown("theme", theme, get_args(Theme))
    scope = f"clew-picture-{theme}"
    classes = {name for names in re.findall(r'class="([^"]*)"', body) for name in names.split()}
    used = ["page", *(kind for kind in ALL_KINDS if kind in classes)]
    light, dark = (rules(colours, used, f".{scope}") for colours in (LIGHT | TREE_LIGHT, DARK | TREE_DARK))
    style = {"auto": f"{light}@media(prefers-color-scheme:dark){{{dark}}}", "light": light, "dark": dark}[theme]
    size = f'width="{pixels(width)}" height="{pixels(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{scope}" role="img" aria-label="{markup(about)}" {size}'
        f' viewBox="0 0 {pixels(width)} {pixels(height)}" style="max-width:none"><title>{markup(about)}</title>'
        f'<style>{style}</style><rect class="page" {size} rx="10"/>{body}</svg>'
    )


def below_each_other(pictures: Sequence[Picture], about: str, theme: Theme = "auto") -> str:
    """Pictures below each other as one file."""
    starts = accumulate((picture.height for picture in pictures), initial=0.0)
    groups = [
        f'<g transform="translate(0 {pixels(y)})">{picture.inner(f"p{number}")}</g>'
        for number, (picture, y) in enumerate(zip(pictures, starts, strict=False))
    ]
    width, height = max((picture.width for picture in pictures), default=0), sum(picture.height for picture in pictures)
    return standalone(width, height, about, "".join(groups), theme)
