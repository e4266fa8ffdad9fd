import numpy as np
import pytest

from clew.drawing.grid import SIDE, grid, thumbnail
from clew.drawing.parts import Grid
from clew.drawing.shapes import Box, Label, Raster


def test_a_pixel_has_the_greatest_of_the_values_it_stands_for() -> None:
    values = np.arange(36.0).reshape(6, 6)
    assert thumbnail(values, 3).tolist() == [[7, 9, 11], [19, 21, 23], [31, 33, 35]]
    assert thumbnail(np.array([[1.0, 2.0]]), 4).tolist() == [[1, 1, 2, 2]] * 4
    assert thumbnail(np.array([[np.nan, 1.0]]), 1).tolist() == [[1.0]]
    lone = np.zeros((500, 500))
    lone[499, 3] = 1
    assert thumbnail(lone).max() == 1 and thumbnail(lone).shape == (SIDE, SIDE) and thumbnail(lone)[-1, 0] == 1


def test_each_map_has_a_mark_with_its_row_and_column_over_its_pixels() -> None:
    maps = [[np.full((2, 2), 0.1 * (1 + row + 2 * column)) for column in range(3)] for row in range(2)]
    picture = grid(Grid(maps, ["layer 1", "layer 2"], ["1", "2", "3"], high=1.0))
    (raster,) = (shape for shape in picture.shapes if isinstance(shape, Raster))
    marks = [shape for shape in picture.shapes if isinstance(shape, Box)]
    assert [mark.number for mark in marks] == [(row, column) for row in range(2) for column in range(3)]
    assert marks[-1].title == "layer 2, 3"
    for mark in marks:
        assert mark.number is not None
        x, y = round(mark.x + 1 - raster.x), round(mark.y + 1 - raster.y)
        row, column = mark.number
        assert raster.levels[y : y + SIDE, x : x + SIDE] == pytest.approx(
            np.full((SIDE, SIDE), 25.5 * (1 + row + 2 * column)), abs=0.6
        )


def test_twelve_by_twelve_of_five_hundred_tokens_stay_small() -> None:
    one = np.random.default_rng(0).uniform(size=(500, 500)) ** 40
    maps = [[one] * 12 for _ in range(12)]
    picture = grid(Grid(maps, [f"layer {i}" for i in range(12)], [f"{i}" for i in range(12)]))
    assert len(picture.svg("a")) < 400_000 and picture.width < 900


def test_rows_may_have_fewer_maps_or_none() -> None:
    picture = grid(Grid([[np.eye(3)], []], ["a", "b"], ["1"]))
    assert sum(isinstance(shape, Box) for shape in picture.shapes) == 1
    assert grid(Grid([], [], [])).svg("a").startswith("<svg")


def test_a_map_that_is_not_as_the_others_says_so_and_one_without_values_cannot_be_chosen() -> None:
    picture = grid(
        Grid([[np.eye(3), np.zeros((3, 3)), np.zeros((0, 0))]], ["1"], ["1", "2", "3"], notes=[["", "off", "pruned"]])
    )
    marks = [shape for shape in picture.shapes if isinstance(shape, Box)]
    assert [(mark.title, mark.number) for mark in marks] == [
        ("1, 1", (0, 0)),
        ("1, 2: off", (0, 1)),
        ("1, 3: pruned", None),
    ]
    assert [shape.text for shape in picture.shapes if isinstance(shape, Label) and shape.kind == "number"] == [
        "off",
        "pruned",
    ]


def test_the_lowest_value_has_no_colour_where_values_are_below_0() -> None:
    maps = [[np.array([[-2.0, -1.0], [np.nan, 0.0]])]]
    (raster,) = (shape for shape in grid(Grid(maps, ["1"], ["1"], low=-2.0)).shapes if isinstance(shape, Raster))
    assert raster.levels[0, 0] == 0 and raster.levels[0, SIDE - 1] == 128 and raster.levels[SIDE - 1, 0] == 0
    assert raster.levels[SIDE - 1, SIDE - 1] == 255
