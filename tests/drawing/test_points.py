import math

import pytest

from clew.drawing.parts import Points, Series
from clew.drawing.points import points
from clew.drawing.shapes import Dot


def test_each_point_says_its_text_and_group() -> None:
    picture = points(
        Points([Series("river", [0, 1], [0, 1]), Series("money", [2], [3])], [["the bank", "a bank"]], "x", "y")
    )
    marks = [shape for shape in picture.shapes if isinstance(shape, Dot) and shape.title]
    assert [mark.title for mark in marks] == ["the bank (river)", "a bank (river)", "2, 3 (money)"]
    assert marks[0].x < marks[1].x < marks[2].x and marks[0].y > marks[1].y > marks[2].y
    assert [mark.kind for mark in marks] == ["point-0", "point-0", "point-1"]


def test_a_point_that_is_nowhere_is_left_out() -> None:
    picture = points(Points([Series("", [0, math.nan, 1], [0, 1, math.inf])], [["a", "b", "c"]]))
    assert [shape.title for shape in picture.shapes if isinstance(shape, Dot)] == ["a"]


def test_points_at_one_place_are_all_seen() -> None:
    picture = points(Points([Series(name, [0, 1], [0, number]) for number, name in enumerate("abc")], []))
    sizes = [
        shape.radius
        for shape in picture.shapes
        if isinstance(shape, Dot) and shape.title and shape.title.startswith("0, 0")
    ]
    assert len(sizes) == 3 and sizes[0] > sizes[1] > sizes[2] > 1


def test_groups_beyond_the_colours_are_hollow_and_so_is_their_key() -> None:
    picture = points(Points([Series(f"layer {number}", [number], [number]) for number in range(9)], []))
    marks = [shape.kind for shape in picture.shapes if isinstance(shape, Dot)]
    assert len(set(marks)) == 9 and marks.count("ring-0") == 2


def test_a_logarithmic_scale_puts_equal_factors_equally_far_apart() -> None:
    picture = points(
        Points([Series("", [0.001, 0.01, 0.1], [1, 2, 3])], [["a", "b", "c"]], x_range=(0.001, 0.1), log_x=True)
    )
    a, b, c = (shape.x for shape in picture.shapes if isinstance(shape, Dot))
    assert c - b == pytest.approx(b - a) and b > a
