"""Every kind of part of a view as plain text."""

import numpy as np
import pytest

from clew.cli.terminal.view_text import LINES, view_lines
from clew.drawing import views
from clew.drawing.views import (
    Bars,
    Branch,
    Branches,
    ColouredText,
    Grid,
    Heatmap,
    Lines,
    Network,
    Node,
    Note,
    Points,
    Series,
    Table,
    View,
)

PARTS = {
    "table": (
        Table(("word", "bits"), [("a\nb", 1.0), ("c", 2.5)], "T"),
        ["T", "word  bits", "a\\nb     1", "c      2.5"],
    ),
    "coloured": (ColouredText(["a", "b"], [1.0, -3.0], label="bits"), ["a b", "furthest from 0, bits: b -3, a 1"]),
    "joined": (ColouredText(["a", "\n", "b"], [0.0, 0.0, 0.0], joined=True), ["a\\nb"]),
    "bars": (
        Bars(["x", "yy"], [1.0, 0.5], "p"),
        ["      p", "x     1  ########################", "yy  0.5  ############"],
    ),
    "shares": (
        Bars(["x", "yy"], [0.5, 0.25], "p", high=1.0),
        ["       p", "x    0.5  ############", "yy  0.25  ######"],
    ),
    "groups": (Bars(["x"], [[1.0, 2.0]], "p", groups=["one", "two"]), ["   one  two", "x    1    2"]),
    "heatmap": (Heatmap(np.array([[0.5, 1.0]]), ["r"], ["c", "d"]), ["     c  d", "r  0.5  1"]),
    "lines": (Lines([Series("s", [1, 2], [3.0, 4.0])], "n", "loss"), ["loss by n", "n  s", "1  3", "2  4"]),
    "points": (Points([Series("s", [1], [2])], [["t"]]), ["s: 1 point; --out FILE.html draws them"]),
    "grid": (Grid([[np.zeros((2, 2))] * 2], ["1"], ["1", "2"]), ["2 maps, rows 1 to 1; --out FILE.html draws them"]),
    "branches": (
        Branches([Branch(None, "", 0.0), Branch(0, "a", -1.0, best=True), Branch(0, "b", -2.0, kept=False)]),
        ["  0", "  * a  -1", "  (b)  -2"],
    ),
    "network": (Network([Node("x"), Node("y", ["2"])], [(0, 1, "w")]), ["0: x", "1: y 2", "0 -> 1 w"]),
    "note": (Note("one\ntwo"), ["one", "two"]),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_written_as_plain_lines(name: str) -> None:
    part, lines = PARTS[name]
    assert list(view_lines(View("Title", [part], "about")))[2:] == ["", *lines]


def test_every_kind_of_part_has_a_plain_form() -> None:
    assert set(LINES) == set(views.Part.__args__)  # type: ignore[attr-defined]


def test_long_tables_and_large_maps_are_abbreviated() -> None:
    table = list(view_lines(View("T", [Table(("n",), [(n,) for n in range(300)])])))
    assert len(table) < 220 and table[-1] == "... and 100 rows more; --out FILE.html has all"
    (line,) = list(view_lines(View("T", [Heatmap(np.eye(50), ["a"] * 50, ["b"] * 50)])))[2:]
    assert line == "50 x 50 values from 0 to 1; --out FILE.html draws them"
