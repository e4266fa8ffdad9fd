"""A drawing as one self-contained SVG file, light or dark by the reader's system, or always one of these."""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Literal

from clew.core.errors import unknown
from clew.drawing.letters import printable_letters

Theme = Literal["auto", "light", "dark"]


def themed(rules: Callable[[str, Any], str], light: Any, dark: Any) -> dict[str, str]:
    """Style sheets by theme. `rules` writes those that apply to one theme's pictures only, since a page may contain
    several; without variables, which some viewers do not support."""
    return {
        "auto": rules("auto", light) + "@media(prefers-color-scheme:dark){" + rules("auto", dark) + "}",
        "light": rules("light", light),
        "dark": rules("dark", dark),
    }


def standalone(
    kind: str, theme: str, styles: Mapping[str, str], width: float, height: float, about: str, body: str
) -> str:
    """A picture at its natural size; `body` is SVG, `about` is text."""
    if theme not in styles:
        raise unknown("theme", theme, styles)
    text = escape(printable_letters(about))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}-{theme}" role="img" aria-label="{text}"'
        f' width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
        f' style="max-width:none"><title>{text}</title><style>{styles[theme]}</style><rect class="page"'
        f' width="{width:g}" height="{height:g}" rx="10"/>{body}</svg>'
    )
