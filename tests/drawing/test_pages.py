import json
import re
from base64 import b64encode
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from clew.drawing.letters import visible
from clew.drawing.pages import DRAWN, document, fragment, frame, picture, script, stylesheet
from clew.drawing.parts import Bars, Heatmap, Note, Part
from tests.instruments.samples import HOSTILE, every_part

NO_END = {"meta", "br"}


class Elements(HTMLParser):
    """Every element with its attributes, and all text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), tag
        self.elements.append((tag, dict(attrs)))
        if tag not in NO_END:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_every_kind_of_part_is_drawn() -> None:
    assert {type(part) for part in every_part()} == set(DRAWN) == set(Part.__args__)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_a_text_holds_it_is_a_text(text: str) -> None:
    """The same elements and attributes as with a harmless text, none that acts, and the text to be seen."""
    harmless = Elements(fragment("name", "name", every_part("name")))
    hostile = Elements(fragment(text, text, every_part(text)))
    kinds = {(tag, name) for tag, attributes in harmless.elements for name in attributes}
    assert {(tag, name) for tag, attributes in hostile.elements for name in attributes} <= kinds
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in harmless.elements}
    assert not any(
        name.startswith("on") or name in ("src", "srcdoc") for _, attributes in hostile.elements for name in attributes
    )
    assert "script" not in {tag for tag, _ in hostile.elements} and "style" not in {tag for tag, _ in hostile.elements}
    links = [str(attributes["href"]) for _, attributes in hostile.elements if "href" in attributes]
    assert links and all(re.fullmatch(r"data:image/png;base64,[A-Za-z0-9+/=]+", link) for link in links)
    if text.strip():
        assert visible(text) in "".join(hostile.text)
    assert all(part.isprintable() or part in "\n" or "\u200d" in part for part in "".join(hostile.text).split("\n"))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_the_picture_is_well_formed_whatever_it_says(text: str) -> None:
    root = ElementTree.fromstring(picture(text, text, every_part(text)).encode("utf-8"))
    kinds = {element.tag.split("}")[1] for element in root.iter()}
    assert kinds <= {"svg", "title", "style", "rect", "g", "text", "path", "circle", "mask", "image"}
    names = {name for element in root.iter() for name in element.attrib}
    assert not any(name.startswith("on") for name in names)


def test_a_document_is_one_page_that_runs_its_own_script_alone() -> None:
    page = Elements(document("title", "about", every_part(HOSTILE[0])))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 1 and tags.count("style") == 1 and "link" not in tags
    (policy,) = (attributes["content"] for tag, attributes in page.elements if attributes.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'; ") and "script-src 'sha256-" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
    text = document("title", "about", every_part())
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:image/png)|@import|https?://(?!www\.w3\.org)""", text)


def test_ids_are_of_their_fragment_alone_and_lead_somewhere() -> None:
    both = fragment("a", "", every_part(), "one") + fragment("a", "", every_part(), "two")
    ids = re.findall(r'id="([^"]+)"', both)
    assert len(set(ids)) == len(ids) and all(id.startswith(("one-", "two-")) for id in ids)
    assert sorted(re.findall(r"url\(#([^)]+)\)", both)) == sorted(ids)
    assert fragment("a", "", every_part()) == fragment("a", "", every_part())
    few = [fragment("a", "", [Heatmap(np.eye(41) * value, [], [], low=0, high=1)]) for value in (0.5, 1.0)]
    assert len(set(re.findall(r'id="([^"]+)"', "".join(few)))) == 2 and "unnamed" not in "".join(few)


def test_a_frame_holds_the_whole_document() -> None:
    parts = every_part(HOSTILE[5])
    elements = Elements(frame("a title", "", parts)).elements
    assert [tag for tag, _ in elements] == ["iframe"] and elements[0][1]["srcdoc"] == document("a title", "", parts)


def test_values_that_the_script_reads_are_plain_json() -> None:
    elements = Elements(fragment("", "", every_part(HOSTILE[0]))).elements
    readouts = [
        json.loads(str(attributes["data-readout"])) for _, attributes in elements if "data-readout" in attributes
    ]
    assert {readout["kind"] for readout in readouts} == {"raster", "lines"}
    assert readouts[0]["rows"][0] == HOSTILE[0]


def test_every_class_of_a_picture_has_a_rule() -> None:
    rules = stylesheet()
    for name in set(re.findall(r'class="([a-z0-9 -]+)"', fragment("a", "b", every_part()))):
        for kind in name.split():
            assert kind.startswith("part") or f".{kind}" in rules, kind


def test_both_themes_follow_the_system_or_what_is_said() -> None:
    rules = stylesheet()
    assert "prefers-color-scheme:dark" in rules and "[data-theme=dark]" in rules and "[data-theme=light]" in rules
    assert "prefers-color-scheme:dark" in picture("a", "", [Note("b")]) and "var(" not in picture("a", "", every_part())
    script().encode("ascii")


def test_a_view_of_nothing_is_a_title() -> None:
    assert "<h1>a</h1>" in document("a", "", []) and picture("a", "", []).startswith("<svg")


def open_page(browser: Any, file: Path, content: str, **options: Any) -> tuple[Any, list[str]]:
    file.write_text(content, encoding="utf-8")
    page = browser.new_page(viewport={"width": 1000, "height": 800}, **options)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto(file.as_uri())
    return page, complaints


@pytest.fixture
def pages(browser: Any, tmp_path: Path) -> Iterator[Any]:
    opened: list[Any] = []

    def show(content: str, **options: Any) -> tuple[Any, list[str]]:
        opened.append(open_page(browser, tmp_path / f"{len(opened)}.html", content, **options))
        return opened[-1]

    yield show
    for page, complaints in opened:
        page.close()
        assert complaints == []


@pytest.mark.slow
def test_in_a_browser_values_are_read_by_pointer_and_keys(pages: Any) -> None:
    page, _ = pages(document("title", "about", every_part()))
    said, heard, pictures = page.locator(".say"), page.locator(".heard"), page.locator(".picture")
    page.locator(".mark").first.hover()
    assert said.inner_text() == "name, x: 1"
    pictures.nth(1).focus()  # the image: values from -1 to 1
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.heard').textContent.includes(':')")
    assert heard.text_content() == "name, name: \u2248 -1"
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.heard').textContent.endsWith('-0.953')")
    pictures.nth(2).focus()  # the grid
    page.evaluate("document.addEventListener('pick', (event) => { window.picked = event.detail; })")
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert heard.text_content() == "name, 2" and page.evaluate("window.picked") == {"row": 0, "column": 1}
    pictures.nth(3).focus()  # lines
    page.keyboard.press("End")
    assert heard.text_content() == "name 1, name 2, b 0.5"
    page.keyboard.press("Escape")
    assert not said.is_visible()
    page.locator(".coloured").first.focus()
    for key in ("ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert heard.text_content() == "b: name 1"
    page.locator(".part-branches .picture").focus()
    for key in ("Home", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    assert heard.text_content() == "name: 0, best path"


@pytest.mark.slow
def test_in_a_browser_nothing_that_a_text_holds_is_run(pages: Any) -> None:
    page, _ = pages(document(HOSTILE[0], HOSTILE[1], [part for text in HOSTILE[:6] for part in every_part(text)]))
    for mark in page.locator(".mark").all()[::40]:
        mark.hover(force=True)
    assert page.locator("img, iframe, .say script").count() == 0 and page.locator("h1").inner_text() == HOSTILE[0]


@pytest.mark.slow
def test_in_a_notebook_a_frame_has_its_height_and_its_theme(pages: Any) -> None:
    parts = [Bars(["a"] * 60, [1.0] * 60, "x"), Note("end")]
    page, _ = pages(
        f"<!doctype html><meta charset=utf-8><body data-jp-theme-light='false'>{frame('title', '', parts)}",
        color_scheme="light",
    )
    inner = page.frames[1]
    inner.wait_for_selector("html.framed[data-theme=dark]")
    page.wait_for_function("document.querySelector('iframe').offsetHeight > 1400")
    assert inner.evaluate("document.documentElement.scrollHeight <= innerHeight + 1")
    assert inner.evaluate("getComputedStyle(document.querySelector('.clew-view')).backgroundColor") == "rgb(20, 23, 28)"


@pytest.mark.slow
def test_in_a_browser_a_heatmap_has_the_colours_of_its_theme(pages: Any) -> None:
    """One pixel in the middle of a full cell, on light and on dark paper, drawn as a rectangle and as an image."""

    parts = [Heatmap(np.ones((size, size)), [""] * size, [""] * size, low=0, high=1) for size in (2, 41)]
    for scheme, colour in (("light", (28, 79, 160)), ("dark", (106, 167, 255))):
        page, _ = pages(document("t", "", parts), color_scheme=scheme)
        for number in (0, 1):
            box = page.locator(".picture").nth(number).bounding_box()
            shot = page.screenshot(clip={"x": box["x"] + 35, "y": box["y"] + 30, "width": 2, "height": 2})
            pixel = page.evaluate(
                """async (url) => { const image = new Image(); image.src = url; await image.decode();
                const context = new OffscreenCanvas(2, 2).getContext('2d'); context.drawImage(image, 0, 0);
                return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3); }""",
                "data:image/png;base64," + b64encode(shot).decode(),
            )
            assert tuple(pixel) == colour, (scheme, number)
