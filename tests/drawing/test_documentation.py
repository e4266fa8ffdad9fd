"""The pictures of the documentation have the style of all drawings; those that need no model are what is drawn now."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from clew.drawing.colours import DARK, LIGHT
from docs.pictures import alignment, pictures

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_light_or_dark_by_the_readers_system(path: Path) -> None:
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    style = root.findtext("{*}style") or ""
    light, _, dark = style.partition("@media(prefers-color-scheme:dark)")
    for colours, rules in ((LIGHT, light), (DARK, dark)):
        assert f".page{{fill:{colours['paper']}}}" in rules and colours["ink"] in rules
    assert root.get("aria-label") == root.findtext("{*}title") != ""
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    assert root.get("viewBox", "").split()[2:] == [f"{width:g}", f"{height:g}"]


def test_pictures_of_recorded_figures_are_up_to_date() -> None:
    drawn = pictures()
    assert len(drawn) == 3
    for name, picture in drawn.items():
        assert (DOCS / name).read_text(encoding="utf-8").rstrip() == picture.rstrip(), "python -m docs.pictures"
    assert alignment(drawn["alignment.svg"]) == drawn["alignment.svg"]
    assert ">the to Schnee: 0.606<" in drawn["alignment.svg"] and drawn["bottleneck.svg"].count("<circle") == 18
