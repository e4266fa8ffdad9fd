import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.drawing.figures import save_figure
from clew.drawing.parts import Bars, Branch, Branches, Heatmap, Lines, Points, Series
from clew.drawing.views import View
from tests.instruments.samples import HOSTILE, every_part

pytest.importorskip("matplotlib")


def texts(figure: Any) -> list[str]:
    return [text.get_text() for axis in figure.axes for text in axis.findobj(lambda each: hasattr(each, "get_text"))]


def test_a_figure_has_the_data_on_axes_of_its_own() -> None:
    lines = Lines(
        [Series("a", [1, 2, 3], [3.0, 1.0, 2.0], [0.1, 0.1, 0.1])],
        "steps",
        "loss",
        log_y=True,
        thresholds=[("half", 1.5)],
    )
    axis = View("t", [lines]).figure().axes[0]
    assert axis.lines[0].get_ydata().tolist() == [3, 1, 2] and axis.get_yscale() == "log"
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("steps", "loss")
    assert [text.get_text() for text in axis.texts] == ["half"]
    named = Lines([Series("a", [0, 1], [1.0, 2.5], written=True)], "", "", x_names=["one", "two"])
    axis = View("t", [named]).figure().axes[0]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["one", "two"]
    assert {"1.0", "2.5"} <= set(texts(View("t", [named]).figure()))
    heat = View("t", [Heatmap(np.array([[0.2, 0.9]]), ["a"], ["x", "y"], low=0, high=1, unit="%")]).figure().axes[0]
    assert heat.images[0].get_array().tolist() == [[0.2, 0.9]] and heat.images[0].get_clim() == (0, 1)
    assert [text.get_text() for text in heat.texts] == ["20%", "90%"]
    assert [label.get_text() for label in heat.get_xticklabels()] == ["x", "y"]
    bars = View("t", [Bars(["a", "b"], [[1.0, 2.0], [3.0, -4.0]], "n", groups=["g", "h"])]).figure().axes[0]
    assert [patch.get_width() for patch in bars.patches] == [1, 3, 2, -4]
    points = View("t", [Points([Series("a", [1, 2], [3, 4])], [["x", "y"]])]).figure().axes[0]
    assert points.collections[0].get_offsets().tolist() == [[1, 3], [2, 4]]


@pytest.mark.slow
def test_every_part_is_drawn_and_no_text_is_a_formula(tmp_path: Path) -> None:
    view = View(
        "costs $5 and $x",
        [part for part in every_part("$\\frac$ 猫") if not isinstance(part, Heatmap) or len(part.rows) < 9],
    )
    figure = view.figure()
    assert "$\\frac$ 猫" in texts(figure)
    save_figure(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert View("$", view.parts[:2]).save(tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_hostile_texts_are_drawn_too(tmp_path: Path) -> None:
    names = HOSTILE[:12:2] + HOSTILE[7:9]
    values = np.linspace(0, 1, len(names) ** 2).reshape(len(names), -1)
    View(names[0], [Heatmap(values, names, names), Bars(names, values[0], names[3])]).save(tmp_path / "a.png")


def test_a_picture_that_is_too_large_is_refused() -> None:
    nodes = [Branch(None, "a", 0)] + [Branch(0, "b", -i) for i in range(2000)]
    with pytest.raises(
        UserError,
        match=r"the picture would be \d+ x \d+ pixels, but matplotlib draws at most 40000; save as \.html or \.svg",
    ):
        View("t", [Branches(nodes)]).figure()


def test_without_matplotlib_another_ending_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    with pytest.raises(
        UserError, match=r"`pip install 'clew\[plot\]'`, or save as \.html or \.svg, which need no package"
    ):
        View("t", []).save(tmp_path / "a.png")
