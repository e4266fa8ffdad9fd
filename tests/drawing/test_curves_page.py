import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from clew.drawing.curves import Curve, Curves, Panel, mean_of, value_range
from clew.drawing.curves_page import page, scales, script_json
from tests.drawing.test_curves import panels

NASTY = "</script><img src=x onerror=alert(1)>&\"'`${x}@@DATA@@"


class Reader(HTMLParser):
    """What an HTML parser makes of a page: its tags, and the text of each script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data
        else:
            self.text += data

    def elements(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


def lines(reader: Reader, kind: str) -> list[str]:
    """The paths of the lines in the panels: thin ones of runs, or thick ones of means."""
    return [path["d"] or "" for path in reader.elements("path") if kind in (path.get("class") or "").split()]


def test_the_page_asks_nobody_for_anything() -> None:
    text = page(panels(["a", "b"]), "title")
    assert not re.search(r"(src|href)\s*=|url\(['\"]?(?!#)|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    assert "default-src 'none'" in text


def test_nothing_of_a_name_is_obeyed() -> None:
    reader = read(page(panels([NASTY, "b"]), NASTY, NASTY, (["#", NASTY], [["1", NASTY]])))
    assert reader.elements("img") == [] and len(reader.scripts) == 2
    assert reader.text.count(NASTY) == 6, "title, heading, what it is about, legend, table's head and cell"
    assert json.loads(reader.scripts[0])["panels"][0]["groups"][0]["name"] == NASTY


def test_json_in_a_script_cannot_end_it() -> None:
    text = script_json({"a": "</script><!--&"})
    assert "<" not in text and ">" not in text and "&" not in text
    assert json.loads(text) == {"a": "</script><!--&"}


def test_every_run_is_a_thin_line_and_every_group_a_thick_one() -> None:
    reader = read(page(panels(["a", "b", "c"], seeds=4), "title"))
    assert (len(lines(reader, "run")), len(lines(reader, "mean"))) == (2 * 3 * 4, 2 * 3)
    assert len(reader.elements("button")) == 3 and all(
        button["aria-pressed"] == "true" for button in reader.elements("button")
    )
    assert "4 runs" in reader.text and "Training loss" in reader.text and "nats per token" in reader.text


def test_a_line_goes_through_its_values() -> None:
    panel = Panel("t", "u", (Curves("a", (Curve((0, 50, 100), (3.0, 2.0, 1.0)),)),))
    x, y, field = scales(panel)
    low, high = value_range(panel.groups)
    (path,) = lines(read(page([panel], "t")), "mean")
    drawn = [tuple(map(float, point.split())) for point in path.removeprefix("M").split("L")]
    assert drawn == [pytest.approx((x(step), y(value)), abs=0.06) for step, value in ((0, 3.0), (50, 2.0), (100, 1.0))]
    assert y(high + 1) < field.top == y(high) < y(3.0) < y(1.0) < y(low) == field.bottom, "beyond is clipped"


def test_what_is_read_off_is_what_is_drawn() -> None:
    drawn_panels = panels(["a", "b"])
    data = json.loads(read(page(drawn_panels, "t")).scripts[0])["panels"]
    for panel, stored in zip(drawn_panels, data, strict=True):
        for group, shown in zip(panel.groups, stored["groups"], strict=True):
            assert (
                shown["values"] == pytest.approx(mean_of(group).values, rel=1e-5)
                and tuple(shown["steps"]) == mean_of(group).steps
            )


def test_groups_without_a_point_do_no_harm() -> None:
    empty = Panel("t", "u", (Curves("a", ()), Curves("b", (Curve((), ()),)), Curves("c", (Curve((5,), (1.0,)),))))
    reader = read(page([empty], "t"))
    assert len(lines(reader, "mean")) == 1
    read(page([Panel("t", "u", (Curves("a", ()),))], "t"))


@pytest.mark.slow
def test_in_a_browser_values_are_read_and_groups_hidden_by_pointer_and_keys(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "curves.html"
    file.write_text(
        page(panels([NASTY, *(f"group {i} {'with a long name ' * 8}" for i in range(11))]), "title"), encoding="utf-8"
    )
    view = browser.new_page(viewport={"width": 1200, "height": 900})
    complaints: list[str] = []
    view.on("pageerror", lambda error: complaints.append(str(error)))
    view.on("console", lambda message: complaints.append(message.text))
    view.goto(file.as_uri())
    drawing, box = view.locator("svg[data-panel='1']"), view.locator(".values").nth(1)
    assert not box.is_visible()
    drawing.hover()
    assert box.is_visible() and box.locator("div").count() == 13
    assert view.evaluate("getComputedStyle(document.querySelector('.readout')).visibility") == "visible"
    drawing.focus()
    view.keyboard.press("Home")
    assert box.locator("div").first.inner_text() == "step 1"
    view.keyboard.press("ArrowRight")
    assert box.locator("div").first.inner_text() == "step 2"
    assert view.locator(".heard").inner_text().startswith("step 2: ")
    view.keyboard.press("Escape")
    assert not box.is_visible()
    button = view.locator(".legend button").first
    button.focus()
    view.keyboard.press("Space")
    assert button.get_attribute("aria-pressed") == "false"
    assert not view.locator(".group[data-group='0']").first.is_visible()
    assert view.locator(".group[data-group='1']").first.is_visible()
    for width in (1200, 360):
        view.set_viewport_size({"width": width, "height": 900})
        assert view.evaluate("document.documentElement.scrollWidth") <= width, "nothing runs over the edge"
    assert complaints == []
    view.close()
