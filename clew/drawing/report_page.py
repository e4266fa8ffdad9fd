"""A report as one self-contained page: chapters, each with a claim and a measurement side by side, and a view."""

from collections.abc import Sequence
from typing import NamedTuple

from clew.drawing import pages
from clew.drawing.colours import LIGHT, variables
from clew.drawing.kinds import theme_rules
from clew.drawing.letters import markup
from clew.drawing.table import table_element
from clew.drawing.views import View

SUMMARY = ("quantity", "claimed", "measured here")


class Chapter(NamedTuple):
    """A chapter. `name` is its anchor, `rows` are its rows of the summary (quantity, claimed, measured), and `made`
    says how long it took and which `command` makes it."""

    name: str
    title: str
    claimed: str
    measured: str
    rows: Sequence[tuple[str, str, str]]
    view: View
    made: str
    command: str


class Part(NamedTuple):
    """Chapters under a heading."""

    title: str
    chapters: Sequence[Chapter]


def report_page(brand: str, title: str, lead: str, conditions: str, parts: Sequence[Part]) -> str:
    numbers = {chapter.name: number for number, chapter in enumerate((c for part in parts for c in part.chapters), 1)}
    contents = "".join(contents_of(part, numbers) for part in parts)
    chapters = "\n".join(chapters_of(part, numbers) for part in parts)
    body = f"""<body>
<header><p class="brand">{markup(brand)}</p><h1>{markup(title)}</h1><p class="lead">{markup(lead)}</p>\
<p class="made">{markup(conditions)}</p></header>
<main>
<nav aria-label="Contents">{contents}</nav>
{summary(parts)}
{chapters}
</main>"""
    return pages.whole_page(title, stylesheet(), body, "enliven(document);\n")


def stylesheet() -> str:
    printed = f"@media print{{:root,.clew-view{{color-scheme:light;{variables(LIGHT)}}}}}"
    return f"{pages.stylesheet()}\n{theme_rules(':root')}\n{pages.written('report_page.css')}\n{printed}"


def contents_of(part: Part, numbers: dict[str, int]) -> str:
    items = [
        f'<li value="{numbers[chapter.name]}"><a href="#{markup(chapter.name)}">{markup(chapter.title)}</a></li>'
        for chapter in part.chapters
    ]
    return f"<section><h2>{markup(part.title)}</h2><ol>{''.join(items)}</ol></section>"


def summary(parts: Sequence[Part]) -> str:
    """One table of all rows, each with a link to its chapter."""
    rows = [(f"#{chapter.name}", row) for part in parts for chapter in part.chapters for row in chapter.rows]
    table = table_element(SUMMARY, [row for _, row in rows], ("", "", "measured"), [link for link, _ in rows])
    return f'<section class="summary"><h2>Claimed and measured</h2>{table}</section>'


def chapters_of(part: Part, numbers: dict[str, int]) -> str:
    chapters = [chapter_of(numbers[chapter.name], chapter) for chapter in part.chapters]
    return "\n".join([f'<h2 class="part-title">{markup(part.title)}</h2>', *chapters])


def chapter_of(number: int, chapter: Chapter) -> str:
    view = chapter.view
    return f"""<article id="{markup(chapter.name)}">
<h2><span class="number">{number}</span> {markup(chapter.title)}</h2>
<div class="pair"><div><h3>Claimed</h3><p>{markup(chapter.claimed)}</p></div>
<div class="found"><h3>Measured here</h3><p>{markup(chapter.measured)}</p></div></div>
{pages.fragment(view.title, view.about, view.parts, f"stop-{chapter.name}", heading="h3")}
<p class="made">{markup(chapter.made)} · <code>{markup(chapter.command)}</code></p>
</article>"""
