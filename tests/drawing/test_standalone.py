from xml.etree import ElementTree

import pytest

from clew.core.errors import UserError
from clew.drawing.shapes import Box, Label, Picture
from clew.drawing.standalone import below_each_other, standalone
from clew.drawing.views import Note, View


def test_a_file_has_the_rules_that_it_needs_and_no_others() -> None:
    picture = below_each_other(
        [Picture(10, 5, [Box(0, 0, 1, 1, "heat", "a title")]), Picture(20, 7, [])], "<about>", "light"
    )
    root = ElementTree.fromstring(picture)
    style = root.findtext("{*}style") or ""
    assert style.count("{") == 2 and ".clew-picture-light .page{" in style and ".clew-picture-light .heat{" in style
    assert "var(" not in style and "prefers" not in style
    assert (root.get("width"), root.get("height"), root.findtext("{*}title")) == ("20", "12", "<about>")
    groups = [group.get("transform") for group in root.findall("{*}g")]
    assert groups == ["translate(0 0)", "translate(0 5)"]
    assert "prefers-color-scheme:dark" in standalone(1, 1, "", Label(0, 0, "a", "word").svg(""))


def test_a_theme_is_fixed_or_the_readers() -> None:
    view = View("title", [Note("text")])
    light, dark = view.svg("light"), view.svg("dark")
    assert "prefers" not in light + dark and "#ffffff" in light and "#ffffff" not in dark
    with pytest.raises(UserError, match=r"^unknown theme 'drak'; did you mean 'dark'\? known: auto, dark, light$"):
        view.svg("drak")  # type: ignore[arg-type]
