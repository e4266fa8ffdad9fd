"""Views as documents: a self-contained page, a fragment for another page, a frame for notebooks, or a single picture.

A page that shows fragments loads `stylesheet()` as a style sheet and `script()` as a module, and calls its
`enliven(element)` on every fragment that it inserts. Its content security policy must allow data images (`img-src
data:`) and style attributes; no inline scripts are needed.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from clew.drawing.bars import bars
from clew.drawing.branches import branches
from clew.drawing.coloured_text import coloured_text, coloured_text_html
from clew.drawing.colours import DARK, LIGHT, variables
from clew.drawing.grid import grid
from clew.drawing.heatmap import heatmap
from clew.drawing.kinds import FONTS, KINDS, rules
from clew.drawing.letters import markup, verbatim, visible, wrapped
from clew.drawing.lines import lines
from clew.drawing.network import network
from clew.drawing.note import note, note_html
from clew.drawing.overlays import overlays, overlays_html
from clew.drawing.parts import (
    Bars,
    Branches,
    ColouredText,
    Grid,
    Heatmap,
    Lines,
    Network,
    Note,
    Overlays,
    Part,
    Points,
    Spelled,
    Table,
)
from clew.drawing.points import points
from clew.drawing.shapes import Label, Picture, pixels
from clew.drawing.spelled import spelled
from clew.drawing.standalone import Theme, standalone
from clew.drawing.table import table, table_html

MARGIN, BETWEEN = 20, 26
UNNAMED = "unnamed"


def stylesheet() -> str:
    """All rules of fragments, in light and dark: by the reader's system, or by `data-theme` of an enclosing element."""
    light, dark = map(variables, (LIGHT, DARK))
    themes = (
        f".clew-view{{color-scheme:light;{FONTS}{light}}}"
        f"@media(prefers-color-scheme:dark){{.clew-view{{color-scheme:dark;{dark}}}}}"
        f":is([data-theme=light] .clew-view,.clew-view[data-theme=light]){{color-scheme:light;{light}}}"
        f":is([data-theme=dark] .clew-view,.clew-view[data-theme=dark]){{color-scheme:dark;{dark}}}"
    )
    return f"{themes}\n{rules()}\n{written('view.css')}"


def script() -> str:
    """A module that shows the values of pictures at the pointer and by the arrow keys."""
    return written("view.js")


def written(name: str) -> str:
    return (files("clew.drawing") / name).read_text(encoding="utf-8")


def fragment(title: str, about: str, parts: Sequence[Part], name: str | None = None, *, heading: str = "h2") -> str:
    """A view as HTML without scripts. All ids start with `name`; by default, with a hash of the content."""
    if name is None:
        page = fragment(title, about, parts, UNNAMED, heading=heading)
        name = "v" + sha256(page.encode()).hexdigest()[:12]
        for before in ('id="', 'mask="url(#'):  # no text can contain these: quotes in texts are escaped
            page = page.replace(before + UNNAMED, before + name)
        return page
    drawn = [(part, DRAWN[type(part)]) for part in parts]
    elements = [f'<section class="clew-view" aria-label="{markup(title)}"><{heading}>{markup(title)}</{heading}>']
    elements += [f'<p class="about">{markup(paragraph)}</p>' for paragraph in about.splitlines() if paragraph.strip()]
    for number, (part, kind) in enumerate(drawn):
        caption = f"<figcaption>{markup(title_of(part))}</figcaption>" if title_of(part) else ""
        inner = (
            kind.html(part, f"{name}-{number}") if kind.html else scrolled(kind.picture(part).svg(f"{name}-{number}"))
        )
        elements.append(f'<figure class="part part-{type(part).__name__.lower()}">{caption}{inner}</figure>')
    return "\n".join([*elements, '<div class="say" hidden></div><p class="heard" role="status"></p></section>'])


def title_of(part: Part) -> str:
    return "" if isinstance(part, Note) else part.title


def scrolled(picture: str) -> str:
    return f'<div class="scroll">{picture}</div>'


def document(title: str, about: str, parts: Sequence[Part]) -> str:
    """A view as one self-contained page."""
    body = f'<body class="clew-page">\n{fragment(title, about, parts, heading="h1")}'
    return whole_page(title, stylesheet(), body, "enliven(document);\nfit();\n")


def whole_page(title: str, style: str, body: str, calls: str) -> str:
    """A file from an opened, not yet closed body. Its policy runs only our script, by its hash, and nothing that the
    data contain."""
    code = f"{script()}\n{calls}"
    digest = b64encode(sha256(code.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{markup(title)}</title>
<style>{style}</style>
</head>
{body}
<script type="module">{code}</script>
</body>
</html>
"""


def frame(title: str, about: str, parts: Sequence[Part]) -> str:
    """A view as a frame for notebooks, as high as its pictures; the script fits the height if the notebook allows it.

    Seen in Chromium with JupyterLab's theme; not tried in Jupyter, Colab and VS Code themselves.
    """
    height = sum(DRAWN[type(part)].picture(part).height + 50 for part in parts) + 110
    page = verbatim(document(title, about, parts))
    return (
        f'<iframe srcdoc="{page}" title="{markup(title)}"'
        f' style="width:100%;height:{min(round(height), 900)}px;border:0"></iframe>'
    )


def picture(title: str, about: str, parts: Sequence[Part], theme: Theme = "auto") -> str:
    """All parts below each other, as one SVG file."""
    drawn = [DRAWN[type(part)].picture(part) for part in parts]
    width = max([each.width for each in drawn] + [480]) + 2 * MARGIN
    elements: list[str] = []
    y = float(MARGIN)
    for text, kind, row in ((title, "heading", 27), (about, "quiet", 19)):
        for line in [
            line
            for paragraph in text.splitlines()
            for line in wrapped(visible(paragraph), width - 2 * MARGIN, KINDS[kind].size)
        ]:
            elements.append(Label(MARGIN, y + KINDS[kind].size, line, kind).svg(""))
            y += row
    for number, (part, each) in enumerate(zip(parts, drawn, strict=True)):
        y += BETWEEN
        if title_of(part):
            elements.append(Label(MARGIN, y + 8, title_of(part), "title").svg(""))
            y += BETWEEN
        elements.append(f'<g transform="translate({MARGIN} {pixels(y)})">{each.inner(f"p{number}")}</g>')
        y += each.height
    return standalone(width, y + MARGIN, title, "".join(elements), theme) + "\n"


class Drawn(NamedTuple):
    """How a kind of part is drawn: as a picture, and in a page, if that differs."""

    picture: Callable[[Any], Picture]
    html: Callable[[Any, str], str] | None = None


DRAWN: dict[type, Drawn] = {
    Heatmap: Drawn(heatmap),
    Spelled: Drawn(spelled),
    Grid: Drawn(grid),
    Lines: Drawn(lines),
    Bars: Drawn(bars),
    Points: Drawn(points),
    ColouredText: Drawn(coloured_text, coloured_text_html),
    Table: Drawn(table, table_html),
    Branches: Drawn(branches),
    Network: Drawn(network),
    Overlays: Drawn(overlays, overlays_html),
    Note: Drawn(note, note_html),
}
