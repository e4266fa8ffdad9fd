import json
import math

import pytest

from clew.drawing.lines import lines, pieces, scales, thinned
from clew.drawing.parts import Lines, Series
from clew.drawing.shapes import Dot, Label, Stroke


def test_points_stand_where_the_scales_say() -> None:
    part = Lines([Series("a", [0, 5, 10], [1.0, 3.0, 2.0])], "steps", "loss")
    x, y, field = scales(part, 10)
    ((first, second, third),) = pieces(part.series[0], x, y)
    assert second[0] == pytest.approx((first[0] + third[0]) / 2)
    assert first[1] - third[1] == pytest.approx(third[1] - second[1]) and first[1] > second[1]
    assert all(
        field.left <= at <= field.right and field.top <= height <= field.bottom for at, height in (first, second, third)
    )


def test_a_line_is_parted_where_there_is_no_value() -> None:
    part = Lines([Series("a", [1, 2, 3, 4, 5], [1.0, math.nan, 2.0, 3.0, math.inf])], "x", "y")
    x, y, _ = scales(part, 0)
    assert [len(piece) for piece in pieces(part.series[0], x, y)] == [1, 2]


def test_a_logarithm_has_no_place_for_what_is_not_above_zero() -> None:
    part = Lines([Series("a", [0, 1, 10, 100], [0.0, -1.0, 1.0, 0.01])], "x", "y", log_x=True, log_y=True)
    x, y, _ = scales(part, 0)
    ((one, two),) = pieces(part.series[0], x, y)
    assert one[0] < two[0] and one[1] < two[1]


def test_a_long_line_keeps_its_spikes_and_its_ends() -> None:
    values = [math.nan] * 5000 + [0.0] * 20_000
    values[12_345], values[20_000] = 7.0, -7.0
    short = thinned(Series("a", range(25_000), values, spread=values))
    assert len(short.x) <= 2000 and 7.0 in short.y and short.x[short.y.index(7.0)] == 12_345 and -7.0 in short.y
    assert short.x[0] == 0 and short.x[-1] == 24_999 and short.spread is not None and len(short.spread) == len(short.x)
    few = Series("a", [1], [2.0])
    assert thinned(few) is few
    assert len(lines(Lines([Series("a", range(25_000), values)], "x", "y")).svg("v")) < 150_000


def test_spread_is_a_band_around_the_line() -> None:
    picture = lines(Lines([Series("a", [0, 1], [1.0, 2.0], [0.5, 0.0])], "x", "y"))
    (band,) = (shape for shape in picture.shapes if isinstance(shape, Stroke) and shape.closed)
    (line,) = (
        shape
        for shape in picture.shapes
        if isinstance(shape, Stroke) and shape.kind == "line-0" and shape.points[0][0] > 30
    )
    high, tip, also_tip, low = band.points
    assert high[1] < line.points[0][1] < low[1] and tip == also_tip == line.points[1]


def test_lines_beyond_the_colours_have_dashes_and_all_have_names() -> None:
    picture = lines(Lines([Series(f"run {i}", [0, 1], [i, i + 1]) for i in range(10)], "x", "y"))
    drawn = {
        (shape.kind, shape.dash)
        for shape in picture.shapes
        if isinstance(shape, Stroke) and shape.kind.startswith("line")
    }
    assert len(drawn) == 10
    names = [shape.text for shape in picture.shapes if isinstance(shape, Label) and shape.kind == "legend"]
    assert names == [f"run {i}" for i in range(10)]


def test_a_threshold_is_a_line_with_its_name() -> None:
    picture = lines(Lines([Series("a", [0, 1], [0.001, 1.0])], "x", "y", log_y=True, thresholds=[("1 %", 0.01)]))
    (rule,) = (shape for shape in picture.shapes if isinstance(shape, Stroke) and shape.kind == "threshold")
    assert rule.title == "1 %: 0.01" and any(
        isinstance(shape, Label) and shape.text == "1 %" for shape in picture.shapes
    )


def test_few_points_have_dots_and_a_lone_one_always() -> None:
    many = list(range(100))
    values = [float(i) for i in many]
    dots = [shape for shape in lines(Lines([Series("a", many, values)], "x", "y")).shapes if isinstance(shape, Dot)]
    assert not dots
    values[50], values[52] = math.nan, math.nan
    dots = [shape for shape in lines(Lines([Series("a", many, values)], "x", "y")).shapes if isinstance(shape, Dot)]
    assert len(dots) == 1
    assert lines(Lines([], "x", "y")).svg("a").startswith("<svg")


def test_names_stand_below_their_places_and_lean_if_they_are_wide() -> None:
    series = [Series("a", [0, 1, 1.5, 3], [2.0, 1.0, math.nan, 3.0])]
    for names, kind in ((["a", "b", "", "d"], "place"), (["a", "b" * 40, "", "d" * 20], "place-end")):
        part = Lines(series, "", "loss", x_names=names)
        picture = lines(part)
        x, _, field = scales(part, 6)
        labels = [shape for shape in picture.shapes if isinstance(shape, Label) and shape.kind == kind]
        assert [label.text[0] for label in labels] == ["a", "b", "d"]
        assert [label.x for label in labels] == pytest.approx([x(0), x(1), x(3)], abs=5)
        reach = max(len(label.text) for label in labels) * 4 if kind == "place-end" else 0
        assert picture.height > field.bottom + 18 + reach and all(label.y > field.bottom for label in labels)
        assert json.loads(json.dumps(picture.readout))["names"] == names
    many = Lines([Series("a", range(60), range(60))], "", "y", x_names=[f"layer {i}" for i in range(60)])
    assert lines(many).width > 60 * 40, "wide enough to write the values"


def test_values_are_written_where_they_are_in_nobodys_way() -> None:
    low = Series("low", [0, 1, 2], [1.0, 2.25, 1.5], written=True)
    part = Lines([low], "", "y", x_names=["a", "b", "c"])
    _, y, _ = scales(part, 6)

    def written(part: Lines) -> list[tuple[str, bool, str]]:
        """Each text, whether it stands above its point, and its kind."""
        labels = [shape for shape in lines(part).shapes if isinstance(shape, Label) and "value" in shape.kind]
        dots = [shape for shape in lines(part).shapes if isinstance(shape, Dot)][: len(labels)]
        return [(label.text, label.y < dot.y, label.kind) for label, dot in zip(labels, dots, strict=True)]

    alone = [("1.00", False, "point-value"), ("2.25", True, "point-value-best"), ("1.50", False, "point-value")]
    assert written(part) == alone, "valleys have theirs below"
    high = Series("high", [1, 2], [3.0, 1.2])
    both = written(Lines([low, high], "", "y", x_names=["a", "b", "c"]))
    assert [above for _, above, _ in both] == [True, False, True], "below another line"
