import math

import numpy as np
import pytest

from clew.drawing.heatmap import FEW, NONE, colour_range, heatmap
from clew.drawing.parts import Heatmap
from clew.drawing.shapes import Box, Label, Photo, Picture, Raster


def boxes(picture: Picture) -> list[Box]:
    return [shape for shape in picture.shapes if isinstance(shape, Box) and shape.title]


def rasters(picture: Picture) -> list[Raster]:
    return [shape for shape in picture.shapes if isinstance(shape, Raster)]


def texts(picture: Picture) -> list[str]:
    return [shape.text for shape in picture.shapes if isinstance(shape, Label)]


def test_a_cell_is_as_strong_as_its_value_and_says_it() -> None:
    cells = boxes(heatmap(Heatmap(np.array([[0.0, 0.25], [0.5, 1.0]]), ["a", "b"], ["x", "y"])))
    assert [cell.opacity for cell in cells] == [0, 0.25, 0.5, 1]
    assert [cell.title for cell in cells] == ["a, x: 0", "a, y: 0.25", "b, x: 0.5", "b, y: 1"]
    assert cells[1].x > cells[0].x and cells[1].y == cells[0].y and cells[2].y > cells[0].y and cells[2].x == cells[0].x


def test_around_zero_there_are_two_colours() -> None:
    cells = boxes(heatmap(Heatmap(np.array([[-2.0, 0.0, 1.0]]), ["a"], ["x", "y", "z"], diverging=True)))
    assert [(cell.kind, cell.opacity) for cell in cells] == [("cold", 1), ("heat", 0), ("heat", 0.5)]


def test_shares_are_written_in_percent_and_other_values_as_they_are() -> None:
    picture = heatmap(Heatmap(np.array([[0.03, 0.97]]), ["a"], ["x", "y"], low=0, high=1, label="weight", unit="%"))
    assert "97%" in texts(picture) and "3%" not in texts(picture)
    assert {"0 %", "100 %", "weight (%)"} <= set(texts(picture)) and boxes(picture)[1].title == "a, y: 97 %"
    assert any(
        text.startswith("100")
        for text in texts(heatmap(Heatmap(np.eye(2), ["a", "b"], ["x", "y"], unit="%")))
        if text != "100 %"
    )
    shown = texts(heatmap(Heatmap(np.array([[0.03, 0.69]]), ["a"], ["x", "y"], label="divergence", unit="nats")))
    assert "0.69" in shown and "69" not in shown and "divergence (nats)" in shown
    shown = texts(heatmap(Heatmap(np.array([[-1.25, 3.0]]), ["a"], ["x", "y"])))
    assert "-1.2" in shown and "3.0" in shown


def test_many_cells_are_one_image_whose_levels_are_the_values() -> None:
    values = np.random.default_rng(0).uniform(size=(FEW + 1, 3))
    picture = heatmap(Heatmap(values, [f"r{i}" for i in range(FEW + 1)], ["x", "y", "z"], low=0, high=1))
    (raster,) = rasters(picture)
    assert not boxes(picture) and np.abs(raster.levels / 255 - values).max() <= 0.5 / 255 + 1e-9
    assert picture.readout["rows"][-1] == f"r{FEW}" and picture.readout["columns"] == ["x", "y", "z"]
    signed = rasters(
        heatmap(Heatmap(2 * values - 1, ["r"] * (FEW + 1), ["x", "y", "z"], low=-1, high=1, diverging=True))
    )
    assert [raster.kind for raster in signed] == ["heat", "cold"]
    assert np.abs((signed[0].levels - signed[1].levels) / 255 - (2 * values - 1)).max() <= 0.5 / 255 + 1e-9


def test_five_hundred_tokens_stay_small() -> None:
    values = np.random.default_rng(0).uniform(size=(500, 500)) ** 40
    names = [f"token{i}" for i in range(500)]
    picture = heatmap(Heatmap(values, names, names))
    assert len(picture.svg("a")) < 400_000 and len(picture.shapes) < 400 and picture.width < 1300


def test_a_value_that_is_none_has_no_colour_and_decides_nothing() -> None:
    values = np.full((FEW + 1, 2), 0.5)
    values[0] = math.nan, math.inf
    (raster,) = rasters(heatmap(Heatmap(values, [""] * (FEW + 1), ["x", "y"], low=0)))
    assert raster.shown is not None and not raster.shown[0, 0] and raster.shown[0, 1] and raster.levels[0, 1] == 255
    few = boxes(heatmap(Heatmap(np.array([[math.nan, 1.0]]), ["a"], ["x", "y"])))
    assert few[0].opacity == 0 and few[0].title == "a, x: none"
    assert texts(heatmap(Heatmap(np.array([[math.nan, 1.0]]), ["a"], ["x", "y"]))).count(NONE) == 1


@pytest.mark.parametrize(
    ("values", "low", "high", "expected"),
    [
        ([0.2, 0.8], None, None, (0.2, 0.8)),
        ([0.2, 0.8], 0, 1, (0, 1)),
        ([0.5, 0.5], None, None, (0, 0.5)),
        ([0.0, 0.0], None, None, (0, 1)),
        ([-2.0, -2.0], None, None, (-2, -1)),
        ([], None, None, (0, 1)),
        ([math.nan], None, None, (0, 1)),
    ],
)
def test_a_scale_always_has_two_ends(
    values: list[float], low: float, high: float, expected: tuple[float, float]
) -> None:
    assert colour_range(np.array(values), low, high, False) == expected


def test_nothing_to_show_is_a_picture_all_the_same() -> None:
    for values in (np.zeros((0, 0)), np.zeros((0, 3)), np.zeros(0)):
        assert heatmap(Heatmap(values, [], [])).svg("a").startswith("<svg")


def test_every_name_is_inside_the_picture() -> None:
    rows, columns = ["short", "Donaudampfschifffahrtsgesellschaft"], ["x", "y" * 24]
    picture = heatmap(Heatmap(np.eye(2), rows, columns, row_label="looks", column_label="looked at"))
    cell = boxes(picture)[0]
    assert (
        cell.x > 24 * 6
        and cell.y > 24 * 6 * 0.7
        and picture.width > cell.x + 2 * cell.width + 0.7 * 24 * 6 - cell.width
    )


def test_letters_stand_upright_above_their_cells_and_none_is_left_out() -> None:
    text = (
        "Prince Andrew looked at her without a word and went out of the room, as he had come in, and said not a thing"
        " to her."
    )
    part = Heatmap(np.zeros((2, len(text))), ["a", "b"], list(text))
    above = [shape for shape in heatmap(part).shapes if isinstance(shape, Label) and shape.kind == "small-word-middle"]
    assert "".join(shape.text for shape in above) == text.replace(" ", "·") and all(shape.turn == 0 for shape in above)


def test_where_letters_have_no_room_their_places_are_numbered() -> None:
    picture = heatmap(Heatmap(np.zeros((300, 300)), list("ab" * 150), list("ab" * 150)))
    rows, columns = (
        [shape.text for shape in picture.shapes if isinstance(shape, Label) and shape.kind == kind]
        for kind in ("small-word-end", "small-word")
    )
    assert rows == [str(number) for number in range(10, 301, 10)] == columns


def test_a_scale_says_where_there_is_more_than_its_end() -> None:
    ends = [
        [
            shape.text
            for shape in heatmap(Heatmap(np.array([[0.1, 0.9]]), ["a"], ["b", "c"], low=0.0, high=high)).shapes
            if isinstance(shape, Label)
        ][-1]
        for high in (0.5, 1.0)
    ]
    assert ends == ["≥ 0.5", "1"]


def test_a_map_over_a_picture_lies_on_it_and_the_picture_stands_beside_it() -> None:
    photograph = np.random.default_rng(0).integers(0, 256, (16, 32, 3), dtype=np.uint8)
    picture = heatmap(Heatmap(np.eye(4), (), (), backdrop=photograph))
    below, beside = (shape for shape in picture.shapes if isinstance(shape, Photo))
    (over,) = rasters(picture)
    assert (below.x, below.y, below.width, below.height) == (over.x, over.y, over.width, over.height)
    assert below.width == 2 * below.height and below.opacity < 1 and beside.opacity == 1
    assert (beside.levels == photograph).all() and beside.x > below.x + below.width
    assert beside.x + beside.width <= picture.width
    assert picture.shapes.index(below) < picture.shapes.index(over)


def test_a_spectrogram_below_a_map_is_dark_where_it_is_loud() -> None:
    loud = np.array([[0, 255, 0], [0, 0, 10]], dtype=np.uint8)
    picture = heatmap(Heatmap(np.zeros((2, 3)), ("high", "low"), ("0.00", "0.01", "0.02"), backdrop=loud))
    (below,) = (shape for shape in picture.shapes if isinstance(shape, Photo))
    assert below.levels.tolist() == [[255, 0, 255], [255, 255, 245]]
    assert {"high", "low", "0.00"} <= set(texts(picture))
