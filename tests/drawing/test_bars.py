import math

import numpy as np
import pytest

from clew.drawing.bars import bars
from clew.drawing.parts import Bars
from clew.drawing.shapes import Box, Label, Picture, Stroke


def boxes(picture: Picture) -> list[Box]:
    return [shape for shape in picture.shapes if isinstance(shape, Box)]


def test_a_bar_is_as_long_as_its_value() -> None:
    drawn_bars = boxes(bars(Bars(["a", "b"], [1.0, 4.0], "nats")))
    assert drawn_bars[1].width == pytest.approx(4 * drawn_bars[0].width) and drawn_bars[0].x == drawn_bars[1].x
    assert [bar.title for bar in drawn_bars] == ["a: 1", "b: 4"]


def test_bars_below_zero_go_to_the_left() -> None:
    less, more = boxes(bars(Bars(["a", "b"], [-1.0, 2.0], "nats")))
    assert less.x + less.width == pytest.approx(more.x) and more.width == pytest.approx(2 * less.width) and less.x > 0


def test_groups_stand_below_each_other_in_their_colours() -> None:
    picture = bars(Bars(["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0]]), "nats", groups=["LSTM", "GRU"]))
    drawn_bars = boxes(picture)
    assert [bar.kind for bar in drawn_bars] == ["fill-0", "fill-1"] * 2 and drawn_bars[1].title == "a, GRU: 2"
    assert drawn_bars[0].y < drawn_bars[1].y < drawn_bars[2].y < drawn_bars[3].y
    assert [shape.text for shape in picture.shapes if isinstance(shape, Label) and shape.kind == "legend"] == [
        "LSTM",
        "GRU",
    ]


def test_what_is_no_number_is_said_and_has_no_bar() -> None:
    picture = bars(Bars(["a", "b", "c"], [math.nan, math.inf, 1.0], "nats"))
    assert len(boxes(picture)) == 1
    shown = [shape.text for shape in picture.shapes if isinstance(shape, Label)]
    assert "none" in shown and "infinite" in shown
    for values in ([], [0.0]):
        assert bars(Bars(["a"][: len(values)], values, "nats")).svg("a").startswith("<svg")


@pytest.mark.parametrize("values", [[0.3], [0.3, 0.1], [0.3, 0.6]])
def test_a_bar_of_a_share_is_that_share_of_its_scale_whatever_stands_beside_it(values: list[float]) -> None:
    part = Bars([str(value) for value in values], values, "probability", low=0.0, high=1.0)
    picture = bars(part)
    (edge,) = (shape for shape in picture.shapes if isinstance(shape, Stroke) and shape.kind == "grid")
    first = boxes(picture)[0]
    assert first.width == pytest.approx(0.3 * (edge.points[0][0] - first.x))
    assert {"0", "1"} <= {
        shape.text for shape in picture.shapes if isinstance(shape, Label) and shape.kind.startswith("tick")
    }
