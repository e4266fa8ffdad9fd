"""Pointing against a loop over all pixels, and by hand."""

import math

import numpy as np
import pytest

from clew.data.synthetic.scene_texts import ground_text
from clew.data.synthetic.scenes import scenes
from clew.metrics.pointing import Pointed, pointed, touched_cells
from tests.references import pointing as reference


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize(
    ("cell", "size"),
    [((8, 8), (32, 32)), ((5, 7), (32, 32)), ((8, 8), (48, 48)), ((1, 24), (24, 24)), ((8, 8), (20, 44))],
)
def test_cells_and_words_equal_a_loop_over_pixels(cell: tuple[int, int], size: tuple[int, int], before: int) -> None:
    rng = np.random.default_rng(0)
    rows, columns = (-(-new // step) for new, step in zip(size, cell, strict=True))
    for scene in scenes(3, seed=2, side=32):
        numbers, count = scene.numbers(), len(scene.things)
        cells = touched_cells(numbers, count, cell, size, before)
        for thing in range(count):
            assert {(int(row), int(column)) for row, column in np.argwhere(cells[thing])} == reference.touched(
                numbers, thing + 1, cell, size, before
            )
        things = (None, *range(count), *range(count))
        weights = rng.random((len(things), rows * columns))
        weights[1 : count + 1] += cells.reshape(
            count, -1
        )  # the first word of each thing attends to it, other words attend anywhere
        assert pointed(weights, things, cells) == Pointed(
            *reference.pointed(weights, things, numbers, cell, size, before)
        )


def test_words_without_a_thing_are_ignored_and_those_of_absent_things_are_wrong() -> None:
    touched = np.array([[[True, False], [False, False]]])
    weights = np.array([[0.1, 0.9, 0.0, 0.0], [0.7, 0.1, 0.1, 0.1], [0.4, 0.6, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    assert pointed(weights, (None, 0, 0, 1), touched) == Pointed(1, 3)
    assert Pointed(1, 4).share == 25.0 and math.isnan(Pointed(0, 0).share)


def test_a_word_that_fits_no_thing_refers_to_an_absent_thing() -> None:
    (scene,) = scenes(1, seed=1, most=1)
    thing = scene.things[0]
    grounded = ground_text(f"there is a {thing.size} {thing.colour} {thing.shape} is above a nonsense", scene)
    assert grounded.things == (None, None, None, 0, 0, 0, None, None, None, None)
    other_shape = next(shape for shape in ("circle", "square") if shape != thing.shape)
    assert ground_text(f"a {other_shape} and a {thing.shape}", scene).things == (None, 1, None, None, 0)
