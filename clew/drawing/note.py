"""Paragraphs."""

from clew.drawing.letters import markup, visible, wrapped
from clew.drawing.parts import Note
from clew.drawing.shapes import Label, Picture

WIDTH, SIZE, ROW = 760, 14.0, 21


def note(part: Note) -> Picture:
    lines = [line for paragraph in part.text.splitlines() for line in wrapped(visible(paragraph), WIDTH, SIZE)]
    shapes = [Label(0, 14 + ROW * number, line, "prose") for number, line in enumerate(lines)]
    return Picture(WIDTH, ROW * len(lines) + 4, shapes)


def note_html(part: Note, name: str) -> str:
    return "".join(f"<p>{markup(paragraph)}</p>" for paragraph in part.text.splitlines() if paragraph.strip())
