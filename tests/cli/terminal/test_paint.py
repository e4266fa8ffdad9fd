"""Background colours of words: as many as the terminal supports, none in a pipe, and text stays legible."""

import re
import sys
from io import StringIO

import pytest

from clew.cli.look import show
from clew.cli.main import verb_parser
from clew.cli.terminal.paint import FEW, MANY, TRUE, Painted, colour_background, colours_of
from clew.cli.terminal.screen import screens
from clew.cli.terminal.view_text import view_lines
from clew.drawing.colours import DARK, LIGHT, contrast
from clew.drawing.views import ColouredText, View

VIEW = View("Surprisal", [ColouredText(["the", "\x1b[31mcat", "sat"], [0.0, 8.0, 4.0], label="bits", low=0.0)], "", {})
CODES = re.compile("\x1b\\[[0-9;]*m")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, TRUE),
        ({"TERM": "xterm-256color"}, MANY),
        ({"TERM": "xterm"}, FEW),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, 0),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, 0),
        ({}, 0),
    ],
)
def test_number_of_colours_follows_the_environment(environment: dict[str, str], colours: int) -> None:
    assert colours_of(Terminal(), environment) == colours
    assert colours_of(StringIO(), environment) == 0


@pytest.mark.parametrize("colours", [TRUE, MANY, FEW])
def test_colours_do_not_change_the_text(colours: int) -> None:
    plain, bright = ("\n".join(view_lines(VIEW, number)) for number in (0, colours))
    assert "\x1b" not in plain
    assert CODES.sub("", bright).startswith(plain)
    assert "\x1b[31m" not in bright  # the escape code in the text itself is escaped


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("strength", [-1.0, -0.5, 0.1, 0.5, 1.0])
def test_letters_are_legible_on_every_colour(theme: dict[str, str], strength: float) -> None:
    match = re.search(
        r"48;2;(\d+);(\d+);(\d+);38;2;(\d+);(\d+);(\d+)m", colour_background("word", strength, TRUE, theme)
    )
    assert match is not None
    paper, ink = ("#" + "".join(f"{int(part):02x}" for part in match.groups()[at : at + 3]) for at in (0, 3))
    assert contrast(paper, ink) >= 4.5


@pytest.mark.parametrize(("no_colour", "has_codes"), [("", True), ("1", False)])
def test_look_uses_colours_unless_disabled(no_colour: str, has_codes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    for name, value in {"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": no_colour}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", terminal)
    with screens(exact=False):
        show(verb_parser("look").parse_args(["surprisal"]), VIEW)
    assert bool(CODES.search(terminal.getvalue())) == has_codes
    assert "\x1b[31m" not in terminal.getvalue() and r"\x1b[31mcat" in terminal.getvalue()


def test_painted_lines_have_their_own_type() -> None:
    assert [type(line) for line in view_lines(VIEW, TRUE)].count(Painted) == 2
