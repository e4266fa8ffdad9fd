"""Text on the colours of its values: as HTML that wraps with the page, and as a picture of fixed width."""

import numpy as np

from clew.drawing.colours import UNDER_TEXT
from clew.drawing.heatmap import colour_range, key, strengths
from clew.drawing.letters import em, markup, visible
from clew.drawing.parts import ColouredText
from clew.drawing.scales import short_number
from clew.drawing.shapes import Box, Label, Picture, Shape

WIDTH, ROW, PADDING, GAP = 760, 25, 4, 4
SIZE, MONO = 14.0, 13.5 * 0.602
"""The font size, and the advance of monospaced letters (DejaVu Sans Mono)."""


TOGETHER = 8
"""The number of letters in one text element: more are faster to draw, fewer stay closer to their colours in any
font."""


def colour_scale(part: ColouredText) -> tuple[np.ndarray, float, float]:
    """The strength of every token's colour, and the ends of the scale."""
    values = np.asarray(part.values, dtype=float).reshape(-1)
    low, high = colour_range(values, part.low, part.high, part.diverging)
    return strengths(values, low, high, part.diverging), low, high


def note_of(part: ColouredText, place: int) -> str:
    """The text shown for a token on request."""
    value = (
        f"{part.label or 'value'} {short_number(float(part.values[place]))}" if place < len(part.values) else "no value"
    )
    note = part.notes[place] if place < len(part.notes) else ""
    return f"{visible(part.tokens[place]) or 'nothing'}: {value}{'; ' + note if note else ''}"


def shown_token(token: str) -> str:
    return visible(token) or "∅"


def coloured_text(part: ColouredText) -> Picture:
    strong, low, high = colour_scale(part)
    shapes: list[Shape] = []
    labels: list[Shape] = []
    waiting: list[str] = []  # adjacent letters not yet written, which start at x = start
    x, y, start = 0.0, 4.0, 0.0

    def write() -> None:
        nonlocal start
        if waiting:
            labels.append(Label(start, y + 15, "".join(waiting), "letters", length=x - start))
            waiting.clear()
        start = x

    def new_row() -> None:
        nonlocal x, y, start
        write()
        x, y, start = 0.0, y + ROW, 0.0

    for place, token in enumerate(part.tokens):
        text = shown_token(token)
        wide = sum(map(letter_width, text)) if part.joined else SIZE * sum(map(em, text)) + 2 * PADDING
        if x and x + wide > WIDTH:
            new_row()
        share = float(strong[place]) if place < len(strong) else 0.0
        kind = "heat" if share >= 0 else "cold"
        opacity = abs(share) * UNDER_TEXT
        shapes.append(
            Box(x, y, wide, ROW - 4, kind, note_of(part, place), round=0 if part.joined else 4, opacity=opacity)
        )
        if part.joined:
            waiting.append(text)
        else:
            labels.append(Label(x + PADDING, y + 15, text, "token"))
        x += wide + (0 if part.joined else GAP)
        if len(waiting) >= TOGETHER:
            write()
        if token.endswith("\n"):
            new_row()
    new_row()
    shapes += labels
    if not part.label:
        return Picture(WIDTH, y, shapes, about(part, low, high))
    shapes += [*key(0, y + 8, low, high, part.diverging, UNDER_TEXT), Label(132, y + 17, part.label, "tick-start")]
    return Picture(WIDTH, y + 38, shapes, about(part, low, high))


def letter_width(character: str) -> float:
    return MONO if em(character) < 1.1 else 2 * MONO


def about(part: ColouredText, low: float, high: float) -> str:
    return (
        f"{part.title or 'text'}: {len(part.tokens)} tokens, {part.label or 'value'} from {short_number(low)} to"
        f" {short_number(high)}"
    )


def coloured_text_html(part: ColouredText, name: str) -> str:
    strong, low, high = colour_scale(part)
    spans = []
    for place, token in enumerate(part.tokens):
        share = float(strong[place]) if place < len(strong) else 0.0
        kind = ("mark" if share >= 0 else "mark cold") + ("" if token.strip() else " blank")
        strength = round(100 * UNDER_TEXT * abs(share))
        text = (
            f'<span class="{kind}" style="--v:{strength}%"'
            f' title="{markup(note_of(part, place))}">{markup(shown_token(token))}</span>'
        )
        spans.append(text + "\n" if token.endswith("\n") else text)
    kind = "coloured joined" if part.joined else "coloured"
    described = markup(f"{about(part, low, high)}; the arrow keys read values")
    text = f'<p class="{kind}" tabindex="0" role="group" aria-label="{described}">{"".join(spans)}</p>'
    if not part.label:
        return text
    shapes = [*key(0, 2, low, high, part.diverging, UNDER_TEXT), Label(132, 11, part.label, "tick-start")]
    scale = Picture(WIDTH, 26, shapes, "colours").inner(name)
    return f'{text}<svg class="key" width="{WIDTH}" height="26" aria-hidden="true">{scale}</svg>'
