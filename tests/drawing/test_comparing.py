"""Pictures beside each other stand on one scale, with the names that any of them has."""

import math

import numpy as np
import pytest

from clew.drawing.bars import bars
from clew.drawing.comparing import on_one_scale, union
from clew.drawing.heatmap import heatmap
from clew.drawing.parts import Bars, ColouredText, Grid, Heatmap, Lines, Note, Points, Series, Table
from clew.drawing.shapes import Box, Label
from clew.drawing.views import View


def test_bars_beside_each_other_are_as_long_as_their_values() -> None:
    (one,), (other,) = on_one_scale([[Bars(["a"], [0.68], "bits")], [Bars(["a"], [0.377], "bits")]])
    long, short = (next(shape for shape in bars(part).shapes if isinstance(shape, Box)) for part in (one, other))
    assert short.width / long.width == pytest.approx(0.377 / 0.68)


def test_bars_of_both_are_shown_for_both_in_one_order_and_what_one_has_not_is_said() -> None:
    (one,), (other,) = on_one_scale(
        [[Bars(["a", "b", "all others"], [0.5, 0.2, 0.3], "p")], [Bars(["c", "a", "all others"], [0.6, 0.1, 0.3], "p")]]
    )
    assert one.names == other.names == ["a", "b", "c", "all others"]
    assert (
        one.values[:2] == [0.5, 0.2]
        and math.isnan(one.values[2])
        and other.values[0] == 0.1
        and math.isnan(other.values[1])
    )
    assert "none" in [shape.text for shape in bars(one).shapes if isinstance(shape, Label)]


def test_colours_of_maps_and_texts_mean_the_same_in_both() -> None:
    maps = [[Heatmap(np.array([[0.0, value]]), ["r"], ["x", "y"], label="bits")] for value in (1.0, 4.0)]
    (one,), (other,) = on_one_scale(maps)
    assert (one.low, one.high) == (other.low, other.high) == (0.0, 4.0)
    strong = [
        [shape.opacity for shape in heatmap(part).shapes if isinstance(shape, Box) and shape.title][1]
        for part in (one, other)
    ]
    assert strong == [0.25, 1.0]
    (one,), (other,) = on_one_scale([[ColouredText(["a"], [value], label="bits")] for value in (1.0, 4.0)])
    assert (one.low, one.high) == (other.low, other.high)


def test_maps_of_levels_have_the_levels_of_both_and_places_of_a_text_stay_each_ones_own() -> None:
    small = Heatmap(np.ones((1, 2)), ["layer 1"], ["a", "b"], label="bits", keyed="rows")
    large = Heatmap(np.ones((2, 3)), ["layer 1", "layer 2"], ["a", "b", "c"], label="bits", keyed="rows")
    (one,), (other,) = on_one_scale([[small], [large]])
    assert (
        one.rows == other.rows == ["layer 1", "layer 2"]
        and list(one.columns) == ["a", "b"]
        and list(other.columns) == ["a", "b", "c"]
    )
    assert np.isnan(one.values[1]).all() and not np.isnan(other.values).any()


def test_lines_share_their_scales_and_a_line_that_one_has_not_keeps_its_colour() -> None:
    first = Lines([Series("a", [1, 2], [1.0, 2.0]), Series("b", [1, 2], [0.0, 1.0])], "step", "nats")
    second = Lines([Series("b", [1, 9], [5.0, 7.0])], "step", "nats")
    (one,), (other,) = on_one_scale([[first], [second]])
    assert one.x_range == other.x_range and one.y_range == other.y_range and one.y_range[0] < 0 < 7 < one.y_range[1]
    assert [series.name for series in other.series] == ["a (none)", "b"] and len(other.series[0].x) == 0


def test_rows_of_tables_that_are_names_are_those_of_both() -> None:
    tables = [[Table(("head", "bits"), [(name, 1.0)], keys=1)] for name in ("1.1", "1.2")]
    (one,), (other,) = on_one_scale(tables)
    assert [row[0] for row in one.rows] == [row[0] for row in other.rows] == ["1.1", "1.2"] and math.isnan(
        one.rows[1][1]
    )
    places = [[Table(("place", "bits"), [(1, value)])] for value in (0.5, 0.75)]
    assert on_one_scale(places) == places


def test_grids_have_the_layers_and_heads_of_both() -> None:
    grids = [
        [Grid([[np.eye(2)] * count], [name], [str(n) for n in range(1, count + 1)], high=0.5 * count)]
        for name, count in (("1", 1), ("2", 2))
    ]
    (one,), (other,) = on_one_scale(grids)
    assert one.row_names == other.row_names == ["1", "2"] and one.column_names == other.column_names == ["1", "2"]
    assert one.high == other.high == 1.0 and one.notes == [["", "none"], ["none", "none"]]


def test_what_measures_something_else_is_left_as_it_is() -> None:
    parts = [[Bars(["a"], [1.0], "bits"), Note("x")], [Bars(["a"], [5.0], "nats"), Note("y")]]
    assert on_one_scale(parts) == parts
    points = [[Points([Series("a", [0, 1], [0, value])], [["x", "y"]], "one", "two")] for value in (1, 3)]
    (one,), (other,) = on_one_scale(points)
    assert one.y_range == other.y_range


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([["a", "b"], ["b", "c"]], ["a", "b", "c"]),
        ([["a", "x"], ["b", "x"]], ["a", "b", "x"]),
        ([["a"], ["a"]], ["a"]),
        ([["a", "a"], ["b"]], None),
        ([["a", "b"], ["b", "a"]], ["a", "b"]),
        ([[], ["a"]], ["a"]),
    ],
)
def test_names_are_joined_in_the_order_of_the_first(lists: list[list[str]], expected: list[str] | None) -> None:
    assert union(lists) == expected


def test_compared_parts_are_drawn_in_every_form() -> None:
    first = [
        Bars(["a"], [1.0], "n"),
        Lines([Series("a", [1], [1.0])], "x", "y"),
        Heatmap(np.ones((1, 1)), ["r"], ["c"], keyed="both"),
    ]
    second = [
        Bars(["b"], [2.0], "n"),
        Lines([Series("b", [2], [2.0])], "x", "y"),
        Heatmap(np.ones((1, 1)), ["s"], ["d"], keyed="both"),
    ]
    for parts in on_one_scale([first, second]):
        view = View("t", parts)
        assert view.svg().startswith("<svg") and "none" in view.html() and view.json() and view.figure().axes
