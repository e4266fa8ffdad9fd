import math
from html.parser import HTMLParser

from clew.drawing.coloured_text import WIDTH, coloured_text, coloured_text_html
from clew.drawing.colours import UNDER_TEXT
from clew.drawing.parts import ColouredText
from clew.drawing.shapes import Box, Label


class Spans(HTMLParser):
    """The words of a coloured text: classes, strength, what is read off, what stands there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.spans: list[list[str]] = []
        self.between = ""
        self.depth = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "span":
            attributes = dict(attrs)
            self.spans.append([str(attributes["class"]), str(attributes["style"]), str(attributes["title"]), ""])
            self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "span"

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.spans[-1][3] += data
        elif self.spans:
            self.between += data


def test_a_word_stands_on_the_colour_of_its_value_and_says_it() -> None:
    part = ColouredText(["a", "<b>", "c"], [0.0, 1.0, -2.0], label="bits", diverging=True, notes=["", "rank 3"])
    spans = Spans(coloured_text_html(part, "v")).spans
    full = round(100 * UNDER_TEXT)
    assert spans == [
        ["mark", "--v:0%", "a: bits 0", "a"],
        ["mark", f"--v:{full // 2}%", "<b>: bits 1; rank 3", "<b>"],
        ["mark cold", f"--v:{full}%", "c: bits -2", "c"],
    ]
    boxes = [shape for shape in coloured_text(part).shapes if isinstance(shape, Box) and shape.title]
    assert [(box.kind, box.opacity) for box in boxes] == [("heat", 0), ("heat", UNDER_TEXT / 2), ("cold", UNDER_TEXT)]


def test_white_space_is_seen_and_lines_end_where_they_end() -> None:
    part = ColouredText(["a", " ", "\n", "\t", "b", ""], [0, 1, 2, 3, 4, 5], joined=True)
    page = Spans(coloured_text_html(part, "v"))
    assert [span[3] for span in page.spans] == ["a", "·", "⏎", "⇥", "b", "∅"] and page.between.count("\n") == 1
    labels = [shape for shape in coloured_text(part).shapes if isinstance(shape, Label) and shape.kind == "letters"]
    assert [label.text for label in labels] == ["a·⏎", "⇥b∅"] and labels[1].y > labels[0].y
    boxes = [shape for shape in coloured_text(part).shapes if isinstance(shape, Box) and shape.title]
    assert labels[0].length == boxes[2].x + boxes[2].width and boxes[3].x == boxes[0].x and boxes[3].y > boxes[2].y


def test_ten_thousand_letters_wrap_and_stay_of_one_size() -> None:
    text = "It was a dark and stormy night. " * 313
    part = ColouredText(list(text), [math.sin(i / 9) for i in range(len(text))], joined=True, diverging=True)
    picture = coloured_text(part)
    assert max(box.x + box.width for box in picture.shapes if isinstance(box, Box)) <= WIDTH
    assert len(coloured_text_html(part, "v")) < 1_200_000


def test_more_tokens_than_values_and_values_that_are_none() -> None:
    spans = Spans(coloured_text_html(ColouredText(["a", "b"], [math.nan]), "v")).spans
    assert [span[1:3] for span in spans] == [["--v:0%", "a: value none"], ["--v:0%", "b: no value"]]
    assert "<p" in coloured_text_html(ColouredText([], []), "v")


def test_colours_without_a_label_only_tell_tokens_apart_and_have_no_scale() -> None:
    with_scale, without = (ColouredText(["a", "b"], [0.0, 1.0], label=label) for label in ("bits", ""))
    assert 'class="key"' in coloured_text_html(with_scale, "v") and 'class="key"' not in coloured_text_html(
        without, "v"
    )
    assert coloured_text(without).height < coloured_text(with_scale).height
