"""The colours of all drawings, on light and dark paper, and which text colours are readable on them."""

COLOURS = ("#013f9b", "#aa871d", "#25a68e", "#aa3760", "#9685f5", "#6d3400", "#0879ab", "#22293e")
DARK_COLOURS = ("#3681fe", "#baa91b", "#46f790", "#f386ad", "#8a6c9d", "#c35d2b", "#41befc", "#e7efff")
"""For light and for dark paper. Found by a search: any two are at least 0.12 apart in Oklab, for protanopes and
deuteranopes too (0.09 for tritanopes), and each has a contrast of at least 3 with its paper."""
DASHES: tuple[tuple[float, ...], ...] = ((), (6, 3), (2, 2), (8, 3, 2, 3))
"""The dashes of groups; groups beyond the number of colours reuse them with a dash."""
DASHED: tuple[tuple[float, ...], ...] = ((3, 3), (3, 3, 1, 3), (1, 4), (10, 4))
"""Dashes of lines that are dashed to set them apart."""

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1b1f26",
    "faint": "#5b6472",
    "rule": "#e3e6eb",
    "edge": "#9aa3b0",
    "raised": "#f5f6f8",
    "heat": "#1c4fa0",
    "cold": "#a84300",
    "deep": "#000000",
    "over": "#ffffff",
    "black": "#000000",
    "white": "#ffffff",
    **{f"c{number}": colour for number, colour in enumerate(COLOURS)},
}
DARK = {
    "paper": "#14171c",
    "ink": "#e8eaee",
    "faint": "#a3acb9",
    "rule": "#2a2f38",
    "edge": "#67707e",
    "raised": "#1d2128",
    "heat": "#6aa7ff",
    "cold": "#ff9a52",
    "deep": "#ffffff",
    "over": "#000000",
    "black": "#000000",
    "white": "#ffffff",
    **{f"c{number}": colour for number, colour in enumerate(DARK_COLOURS)},
}
"""Paper and ink. `heat` is for high values, `cold` for negative ones, `deep` and `over` for numbers on these."""
PHRASES = {
    "clause": ("#e7e9ed", "#363b42", "#343940", "#e3e6ea"),
    "noun": ("#dbe8fd", "#1c3f94", "#1f3a63", "#c4dafd"),
    "verb": ("#fde1df", "#8f1d1d", "#5c2628", "#fdcfcb"),
    "preposition": ("#d9f3e2", "#14532d", "#1c4431", "#bdf3d1"),
    "modifier": ("#fdf0c8", "#7c3e0c", "#4f3c12", "#fbe08a"),
    "other": ("#efe4fd", "#5b21a6", "#412b60", "#e6d5fe"),
    "worst": ("#f0a48d", "#551205", "#a3412a", "#ffe4dc"),
    "bad": ("#fae0d6", "#7c2d12", "#5a3226", "#f8d3c5"),
    "neutral": ("#e7e9ed", "#363b42", "#343940", "#e3e6ea"),
    "good": ("#d5e8f8", "#0c4a6e", "#1d4059", "#c6e2f7"),
    "best": ("#8fc3ee", "#062c47", "#2f77b0", "#eef7ff"),
}
"""Grounds and letters of labels in trees, for light and then for dark paper: kinds of phrases, and sentiments."""
TREE_LIGHT, TREE_DARK = (
    {
        f"phrase-{phrase}{ending}": colours[first + number]
        for phrase, colours in PHRASES.items()
        for number, ending in enumerate(("", "-ink"))
    }
    for first in (0, 2)
)
UNDER_TEXT = 0.5
"""The largest opacity of a colour behind words, so that they stay readable in both themes."""


def variables(colours: dict[str, str]) -> str:
    """A theme as CSS variables."""
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def dash_of(number: int, dashed: bool = False) -> tuple[float, ...]:
    """The dash of a group; for a dashed line, a different one."""
    turn = number // len(COLOURS)
    return DASHED[turn % len(DASHED)] if dashed else DASHES[turn % len(DASHES)]


def style(number: int) -> tuple[str, tuple[float, ...]]:
    """A group's colour and dash."""
    return COLOURS[number % len(COLOURS)], dash_of(number)


def luminance(colour: str) -> float:
    """Relative luminance as defined by WCAG 2."""
    return luminance_of(*(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)))


def luminance_of(red: float, green: float, blue: float) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def mixed(colour: str, paper: str, share: float) -> str:
    """A colour at an opacity of `share` on paper."""
    parts = [(int(colour[at : at + 2], 16), int(paper[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in parts)


def contrast(a: str, b: str) -> float:
    """The contrast ratio, between 1 and 21; text needs 4.5 (WCAG 2)."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def turning_point(colours: dict[str, str], heat: str) -> float:
    """The opacity from which on `over` is more readable on a colour than `deep`."""
    return next(
        (
            share / 100
            for share in range(101)
            if contrast(mixed(colours[heat], colours["paper"], share / 100), colours["over"])
            >= contrast(mixed(colours[heat], colours["paper"], share / 100), colours["deep"])
        ),
        2.0,
    )


TURNS = {heat: (turning_point(LIGHT, heat), turning_point(DARK, heat)) for heat in ("heat", "cold")}


def number_kind(heat: str, share: float) -> str:
    """The kind of a number on a colour of this opacity: the one that is most readable in both themes."""
    light, dark = (share >= turn for turn in TURNS[heat])
    return "number-over" if light and dark else "number-white" if light else "number-black" if dark else "number"
