import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from clew.core.errors import UserError
from clew.drawing.alignments import CELL, LONGEST_WORD, Drawn, alignment_figure, alignment_svg, lay_out
from clew.drawing.figures import save_figure
from clew.drawing.tree_drawing import text_width

LONG = "Donaudampfschifffahrtsgesellschaftskapitän"
ONE = Drawn(["der", LONG, "<eos>"], ["the", "captain", "<&>"], [[0.9, 0.1, 0.0], [0.004, 0.996, 0.0], [0.2, 0.3, 0.5]])
OTHER = Drawn(["猫"], ["cat"], [[1.0]])
SVG = "{http://www.w3.org/2000/svg}"


def test_a_cell_is_as_dark_as_its_weight_and_stands_where_its_words_are() -> None:
    root = ElementTree.fromstring(alignment_svg([ONE]))
    layout = lay_out(ONE)
    cells = {
        ((int(cell.get("x", "")) - layout.left) // CELL, (int(cell.get("y", "")) - layout.top) // CELL): float(
            cell.get("fill-opacity", "")
        )
        for cell in root.iter(f"{SVG}rect")
        if cell.get("class") == "heat mark"
    }
    assert cells == {
        (column, row): weight
        for row, weights in enumerate(ONE.weights)
        for column, weight in enumerate(weights)
        if weight >= 0.005
    }
    words = [text.text for text in root.iter(f"{SVG}text") if text.get("class", "").startswith("word")]
    assert words[0] == "der" and words[3:] == ["the", "captain", "<&>"]
    assert words[1] is not None and len(words[1]) == LONGEST_WORD and words[1].endswith("kapitän")
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert f"captain to {LONG}: 0.996" in titles


def test_every_word_is_inside_the_picture_and_pictures_stand_below_each_other() -> None:
    root = ElementTree.fromstring(alignment_svg([ONE, OTHER]))
    width, height = int(root.get("width", "")), int(root.get("height", ""))
    layouts = [lay_out(each) for each in (ONE, OTHER)]
    assert height == sum(layout.height for layout in layouts) and width == max(layout.width for layout in layouts)
    for layout in layouts:
        assert layout.left >= max(text_width(word, 13.0) for word in layout.target)
        assert all(layout.top >= text_width(word, 13.0) * 0.7 for word in layout.source)
    tops = [re.findall(r"translate\(0 (\d+)\)", group.get("transform", "")) for group in root.iter(f"{SVG}g")]
    assert tops == [["0"], [str(layouts[0].height)]]


def test_themes_are_rules_of_their_own() -> None:
    assert "prefers-color-scheme:dark" in alignment_svg([ONE]) and "prefers" not in alignment_svg([ONE], "light")
    with pytest.raises(UserError, match="unknown theme 'drak'; did you mean 'dark'"):
        alignment_svg([ONE], "drak")  # type: ignore[arg-type]


def test_a_figure_has_an_axis_an_alignment_and_takes_any_letter(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = alignment_figure([ONE, OTHER])
    assert [[text.get_text() for text in axis.get_yticklabels()] for axis in drawn.axes] == [
        ["the", "captain", "<&>"],
        ["cat"],
    ]
    assert [text.get_text() for text in drawn.axes[0].texts] == ["90", "10", "100", "20", "30", "50"]
    save_figure(alignment_figure([ONE, OTHER, Drawn(["$x$"], ["$"], [[1.0]])]), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match=r"the picture would be \d+ x \d+ pixels, .* save as \.svg or \.jsonl"):
        alignment_figure([Drawn(["a"] * 2000, ["b"], [[0.0] * 2000])])
