"""Draw accuracies of probes by level as SVG: one panel per corpus, levels as a line, mixes as points next to it, the
strongest baseline as a horizontal line."""

from collections.abc import Callable, Sequence
from html import escape

from clew.drawing.colours import DARK, LIGHT
from clew.drawing.kinds import SANS
from clew.drawing.letters import printable_letters, text_width
from clew.drawing.standalone import Theme, standalone, themed
from clew.instruments.probing import Probed, Probing, Row

STEP, HEIGHT = 62, 190
"""The pixels between levels, and the height of a panel's scale."""
MARGIN, TITLE, AXIS, NAMES = 20, 54, 44, 104
TEXT, SMALL = 12.5, 11.0
TICKS = (1, 2, 5, 10, 20, 25, 50)
SHORT = {"sum of the last four": "sum of last 4", "the last four joined": "last 4 joined"}


def probing_svg(probing: Probing, theme: Theme = "auto") -> str:
    """Draw a self-contained picture in light or dark colours, or in those of the viewer's system."""
    levels = sum(row.is_level for row in probing.rows)
    scale = STEP * (len(probing.rows) + (levels < len(probing.rows)))
    names = max(text_width(baseline_name(strongest(corpus)[0]), SMALL) for corpus in probing.corpora)
    width = MARGIN + AXIS + scale + names + 12 + MARGIN
    tall = TITLE + HEIGHT + NAMES
    height = MARGIN + tall * len(probing.corpora)
    panels = "".join(
        f'<g transform="translate({MARGIN + AXIS}'
        f' {MARGIN + tall * number})">{panel(corpus, probing.rows, levels, scale)}</g>'
        for number, corpus in enumerate(probing.corpora)
    )
    return standalone(
        "clew-probing", theme, STYLES, width, height, f"accuracy of linear probes by level of {probing.run}", panels
    )


def panel(corpus: Probed, rows: Sequence[Row], levels: int, scale: int) -> str:
    """Draw one corpus, with its scale from x = 0 to `scale`."""
    low, high, tick = limits(corpus)
    bottom = TITLE + HEIGHT

    def across(number: int) -> float:
        return STEP * (number + 0.5 + (number >= levels))

    def up(value: float) -> float:
        return round(bottom - HEIGHT * (value - low) / (high - low), 1)

    elements = [f'<text class="title" x="{-AXIS}" y="16">{escape(printable_letters(corpus.corpus))}</text>']
    elements.append(
        f'<text class="small" x="{-AXIS}" y="33">accuracy in percent, {corpus.num_labels} labels of'
        f" {escape(corpus.unit)}</text>"
    )
    for line in range(low, high + 1, tick):
        elements.append(
            f'<path class="line" d="M0 {up(line)}H{scale}"/><text class="small end" x="-8"'
            f' y="{up(line) + 4}">{line}</text>'
        )
    baseline, value = strongest(corpus)
    about = escape(f"{baseline}: {value:.2f}")
    elements.append(f'<path class="baseline" d="M0 {up(value)}H{scale}"><title>{about}</title></path>')
    names = {baseline_name(baseline): value}
    if corpus.untrained:
        untrained = [probe.accuracy for probe in corpus.untrained]
        names["untrained"] = untrained[-1]
        elements.append(series("untrained", rows, untrained, levels, across, up))
    for name, place in zip(names, spread_labels([up(value) for value in names.values()]), strict=True):
        kind = "small untrained-name" if name == "untrained" else "small"
        elements.append(f'<text class="{kind}" x="{scale + 8}" y="{place + 4}">{escape(name)}</text>')
    values = [probe.accuracy for probe in corpus.probes]
    elements.append(series("trained", rows, values, levels, across, up))
    for number, value in enumerate(values):
        kind = "value best" if number == corpus.best else "value"
        is_below = bool(corpus.untrained) and corpus.untrained[number].accuracy > value  # then write below
        elements.append(
            f'<text class="{kind}" x="{across(number)}" y="{up(value) + (17 if is_below else -9)}">{value:.1f}</text>'
        )
    for number, row in enumerate(rows):
        x, y = across(number), bottom + 18
        name = escape(SHORT.get(row.name, row.name))
        elements.append(f'<text class="name" x="{x}" y="{y}" transform="rotate(-40 {x} {y})">{name}</text>')
    return "".join(elements)


def series(
    kind: str,
    rows: Sequence[Row],
    values: Sequence[float],
    levels: int,
    across: Callable[[int], float],
    up: Callable[[float], float],
) -> str:
    """Draw the levels of one model joined by a line, and its mixes as separate points."""
    path = "L".join(f"{across(number)} {up(values[number])}" for number in range(levels))
    dots = []
    for number, (row, value) in enumerate(zip(rows, values, strict=True)):
        about = escape(f"{row.name}, {kind}: {value:.2f}")
        dots.append(
            f'<circle class="{kind}-dot" cx="{across(number)}" cy="{up(value)}" r="4"><title>{about}</title></circle>'
        )
    return f'<path class="{kind}" d="M{path}"/>{"".join(dots)}'


def limits(corpus: Probed) -> tuple[int, int, int]:
    """Return the lowest and highest value of the scale, and the distance between its lines, about five in all."""
    values = [strongest(corpus)[1], *(probe.accuracy for probe in (*corpus.probes, *corpus.untrained))]
    tick = next((tick for tick in TICKS if (max(values) - min(values)) / tick <= 5), TICKS[-1])
    low, high = int(min(values) // tick) * tick, -int(-max(values) // tick) * tick
    return low, max(high, low + tick), tick


def spread_labels(places: Sequence[float], least: float = 14.0) -> list[float]:
    """Move labels apart, so that each is at least `least` below the one above it."""
    moved = list(places)
    order = sorted(range(len(moved)), key=lambda number: moved[number])
    for above, below in zip(order, order[1:], strict=False):
        moved[below] = max(moved[below], moved[above] + least)
    return moved


def strongest(corpus: Probed) -> tuple[str, float]:
    """Return the best baseline and its accuracy."""
    return max(corpus.baselines.items(), key=lambda pair: pair[1])


def baseline_name(name: str) -> str:
    return "each word's most frequent tag" if name == "most frequent tag of each word" else name


def style(theme: str, colours: dict[str, str]) -> str:
    """Return CSS rules scoped to one theme, since a page may have several pictures."""
    rules = {
        ".page": f"fill:{colours['paper']}",
        ".line": f"fill:none;stroke:{colours['rule']};stroke-width:1",
        ".baseline": f"fill:none;stroke:{colours['faint']};stroke-width:1.2;stroke-dasharray:2 3",
        "text": f"font-family:{SANS};fill:{colours['ink']}",
        ".title": "font-size:14px;font-weight:600",
        ".small": f"font-size:{SMALL}px;fill:{colours['faint']}",
        ".end": "text-anchor:end",
        ".name": f"font-size:{TEXT}px;text-anchor:end",
        ".value": (
            f"font-size:{SMALL}px;text-anchor:middle;stroke:{colours['paper']};stroke-width:3px;paint-order:stroke"
        ),
        ".best": "font-weight:700",
        ".trained": f"fill:none;stroke:{colours['c0']};stroke-width:2.2",
        ".trained-dot": f"fill:{colours['c0']}",
        ".untrained": f"fill:none;stroke:{colours['c1']};stroke-width:1.8;stroke-dasharray:6 4",
        ".untrained-dot": f"fill:{colours['paper']};stroke:{colours['c1']};stroke-width:1.8",
        ".untrained-name": f"fill:{colours['c1']}",
    }
    return "".join(f".clew-probing-{theme} {selector}{{{rule}}}" for selector, rule in rules.items())


STYLES = themed(style, LIGHT, DARK)
