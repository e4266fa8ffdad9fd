"""Pictures and sounds on the page, in a real browser: chosen, dropped, inspected word by word. Skipped without
Chromium."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.instruments.looking import look
from clew.runs.loaded import load_run
from tests.serving.test_page_browser import CHROMIUM, browser, page, served, settle

__all__ = ["browser", "page"]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "format-3"
CAPTIONER, CLASSIFIER, TRANSCRIBER, WRITER = (
    FROZEN / name / "run" for name in ("captioning", "picture_classification", "transcription", "paragraphs")
)
PICTURE, SOUND = FROZEN / "captioning" / "0.png", FROZEN / "transcription" / "3.wav"


@pytest.fixture(scope="module")
def server(folders: dict[str, Path]) -> Iterator[str]:
    yield from served([CAPTIONER, CLASSIFIER, TRANSCRIBER, WRITER, folders["bytes"]])


def open_run(page: Any, server: str, view: str, task: str) -> None:
    page.goto("about:blank")
    page.goto(server)
    settle(page)
    runs = page.eval_on_selector_all("#run option", "options => options.map((option) => option.value)")
    page.select_option("#run", next(run for run in runs if task in run))
    page.click(f"#views a[data-view='{view}']")
    settle(page)


def drop(page: Any, file: Path) -> None:
    """Drop a file on the field, with the events that a browser sends."""
    page.evaluate(
        """([data, name]) => {
          const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
          const held = new DataTransfer();
          held.items.add(new File([bytes], name));
          for (const kind of ["dragenter", "dragover", "drop"])
            document
              .querySelector(".drop")
              .dispatchEvent(new DragEvent(kind, { dataTransfer: held, bubbles: true, cancelable: true }));
        }""",
        [b64encode(file.read_bytes()).decode(), file.name],
    )


def current_word(page: Any) -> str:
    words = page.eval_on_selector_all(
        ".sentence button[aria-current]", "words => words.map((word) => word.textContent)"
    )
    assert len(words) == 1
    return str(words[0])


def test_a_sample_is_shown_at_once_and_another_after_a_click(page: Any, server: str) -> None:
    open_run(page, server, "caption", "captioning")
    page.wait_for_selector(".steps .stage")
    assert page.inner_text(".named strong") == "scene 1.png"
    assert "scene 1.png" in page.inner_text(".panel .about")
    page.click(".sample >> nth=1")
    page.wait_for_selector(".named strong:text-is('scene 2.png')")
    settle(page)
    page.wait_for_selector(".panel .about:has-text('scene 2.png')")
    page.go_back()
    page.wait_for_selector(".named strong:text-is('scene 1.png')")


def test_typed_boxes_and_phrases_remain_after_reloading(page: Any, server: str) -> None:
    open_run(page, server, "caption", "paragraphs")
    page.set_input_files("#text", WRITER.parent / "1.png")
    page.wait_for_selector("text=give their boxes")
    page.fill("#option-boxes", "[[6, 2, 11, 7], [7, 9, 12, 14]]")
    page.wait_for_selector("text=needs a phrase for each region")
    page.fill("#option-phrases", "a red square, a green square")
    page.wait_for_selector(".panel .about:has-text('a red square is above')")
    assert page.locator(".steps >> nth=0 >> .region").count() == 2
    page.reload()
    page.wait_for_selector(".panel .about:has-text('a red square is above')")
    assert page.input_value("#option-boxes") == "[[6, 2, 11, 7], [7, 9, 12, 14]]"


def test_the_caption_of_a_chosen_picture_can_be_stepped_through(page: Any, server: str) -> None:
    open_run(page, server, "caption", "captioning")
    page.set_input_files("#text", PICTURE)
    page.wait_for_selector(".panel .about:has-text('0.png')")
    words = page.eval_on_selector_all(".sentence button", "words => words.map((word) => word.textContent)")
    assert words[:3] == ["a", "red", "square"] and current_word(page) == "a"
    shown = (
        "() => [...document.querySelectorAll('.layer')].findIndex((layer) => getComputedStyle(layer).display !=="
        " 'none')"
    )
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    assert current_word(page) == "red" and page.evaluate(shown) == 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert current_word(page) == "a" and page.evaluate(shown) == 0
    page.focus(".moves input")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert current_word(page) == "square" and page.inner_text(".moves output").startswith("square: ")
    page.click(".sentence button >> nth=1")
    assert current_word(page) == "red" and page.input_value(".moves input") == "1"
    page.click(".part-overlays .thumb[data-row='3']")
    assert current_word(page) == words[3] and page.evaluate(shown) == 3
    page.click(".moves [data-by='-1']")
    assert current_word(page) == "square"


def test_a_picture_is_dropped_and_every_view_reads_it(page: Any, server: str) -> None:
    open_run(page, server, "glance", "captioning")
    drop(page, PICTURE)
    page.wait_for_selector(".named strong:text-is('0.png')")
    for view in page.eval_on_selector_all("#views a:not(.unfit)", "links => links.map((link) => link.dataset.view)"):
        page.click(f"#views a[data-view='{view}']")
        settle(page)
        if page.query_selector("#ask button.main") and view != "cost":
            page.click("#ask button.main")
            page.wait_for_selector(".drawn > *")
            settle(page)
        refused = page.query_selector(".refused .state")
        assert refused is None, (view, refused.inner_text())
        if page.query_selector(".named strong"):
            assert page.inner_text(".named strong") == "0.png", view


def test_a_sound_can_be_played_and_inspected(page: Any, server: str) -> None:
    open_run(page, server, "glance", "transcription")
    page.set_input_files("#text", SOUND)
    page.wait_for_selector(".named strong:text-is('3.wav')")
    page.wait_for_selector("audio")
    seconds = (
        "audio => new Promise((done) => (audio.duration ? done(audio.duration) : (audio.onloadedmetadata = () =>"
        " done(audio.duration))))"
    )
    assert page.eval_on_selector("audio", seconds) == pytest.approx(0.3)
    assert "0.30 seconds" in page.inner_text(".named")
    assert page.query_selector(".refused") is None


def test_an_unreadable_file_is_reported_in_the_field_and_the_view_stays(page: Any, server: str) -> None:
    open_run(page, server, "caption", "captioning")
    page.wait_for_selector(".steps .stage")
    drop(page, SOUND)
    page.wait_for_selector(".drop.refused")
    assert "3.wav: this is not a picture in a known format" in page.inner_text(".drop .state")
    assert page.inner_text(".named strong") == "scene 1.png" and page.query_selector(".steps .stage")


def test_a_link_restores_the_file_while_the_server_runs(page: Any, server: str) -> None:
    open_run(page, server, "caption", "captioning")
    page.set_input_files("#text", PICTURE)
    page.wait_for_selector(".panel .about:has-text('0.png')")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    settle(page)
    assert page.inner_text(".named strong") == "0.png" and "0.png" in page.inner_text(".panel .about")
    page.goto("about:blank")
    page.goto(link[: link.index("file-")] + "file-gone")
    settle(page)
    page.wait_for_selector(".drop.refused")
    assert "no longer has" in page.inner_text(".drop .state") and "uploaded ones" in page.inner_text(".panel .state")


def test_runs_that_read_texts_and_files_can_be_compared(page: Any, server: str) -> None:
    open_run(page, server, "levels", "captioning")
    page.select_option("#beside", "bytes")
    settle(page)
    page.wait_for_selector(".panel >> nth=1 >> .clew-view")
    assert page.query_selector(".refused") is None
    page.select_option("#run", "bytes")
    settle(page)
    assert page.input_value("textarea#text").startswith("The ball of thread")


def test_a_saved_page_can_be_stepped_through_and_escapes_names(browser: Any, tmp_path: Path) -> None:
    picture = tmp_path / "<img src=x onerror=window.bad=1>.png"
    picture.write_bytes(PICTURE.read_bytes())
    saved = look([load_run(CAPTIONER, device="cpu")], "caption", {"text": str(picture)}).save(tmp_path / "caption.html")
    tab = browser.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text))
    tab.goto(saved.as_uri())
    assert tab.is_visible(".steps") and current_word(tab) == "a"
    tab.keyboard.press("ArrowRight")
    assert current_word(tab) == "red" and tab.evaluate("window.bad") is None
    tab.close()
    plain = browser.new_context(java_script_enabled=False)
    tab = plain.new_page()
    tab.goto(saved.as_uri())
    assert not tab.is_visible(".steps") and tab.is_visible(".part-overlays .picture")
    plain.close()
    assert errors == []
