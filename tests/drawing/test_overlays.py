"""Attention over a picture: every word has the picture, dark where the word does not look."""

import re

import numpy as np

from clew.drawing.overlays import DARKEST, darkness, over_boxes, over_pixels, overlays, overlays_html
from clew.drawing.parts import Overlays
from clew.drawing.shapes import Box, Label, Photo, Raster

PIXELS = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)


def test_every_pixel_has_the_weight_of_its_cell_and_the_last_cells_may_reach_beyond_the_picture() -> None:
    weights = np.array([[0.1, 0.2], [0.3, 0.4]])
    values = over_pixels(weights, (3, 4), (5, 6))
    for y in range(5):
        for x in range(6):
            assert values[y, x] == weights[y // 3, x // 4]
    around = over_pixels(weights, (3, 4), (5, 6), before=2)
    assert around[:, 0].tolist() == [0.1, 0.3, 0.3, 0.3, 0.3] and around[0].tolist() == [0.1, 0.1, 0.2, 0.2, 0.2, 0.2]


def test_the_brightest_place_is_that_of_the_most_weight() -> None:
    assert darkness(np.array([[0.5, 0.25], [0.0, 0.5]])).tolist() == [[0, round(DARKEST / 2)], [DARKEST, 0]]
    assert (darkness(np.zeros((1, 2))) == DARKEST).all()


def test_a_small_picture_for_each_word_stands_behind_the_plain_one() -> None:
    maps = [np.array([[0.1, 0.7], [0.1, 0.1]]), np.array([[0.1, 0.1], [0.6, 0.2]])]
    picture = overlays(Overlays(PIXELS, ["a", "<b>"], maps, (3, 4)))
    photos, shades, names, marks = (
        [shape for shape in picture.shapes if isinstance(shape, kind)] for kind in (Photo, Raster, Label, Box)
    )
    assert len(photos) == 3 and len(shades) == 2 and all((photo.levels == PIXELS).all() for photo in photos)
    assert [name.text for name in names] == ["a", "<b>"]
    assert [mark.title for mark in marks] == [
        "the picture",
        "a: 70 % at row 1, column 2",
        "<b>: 60 % at row 2, column 1",
    ]
    for photo, shade in zip(photos[1:], shades, strict=True):
        assert (photo.x, photo.y, photo.width, photo.height) == (shade.x, shade.y, shade.width, shade.height)
    assert (shades[0].levels == darkness(over_pixels(maps[0], (3, 4), (5, 6)))).all()
    assert "&lt;b&gt;" in picture.svg("p") and "<b>" not in picture.svg("p")


def test_many_words_stand_in_rows() -> None:
    picture = overlays(Overlays(PIXELS, [str(n) for n in range(9)], [np.ones((2, 2))] * 9, (3, 4)))
    assert len({shape.y for shape in picture.shapes if isinstance(shape, Photo)}) == 2
    assert all(shape.x + shape.width <= picture.width for shape in picture.shapes if isinstance(shape, Photo))


def test_a_page_has_one_large_picture_with_a_layer_for_each_word_hidden_until_a_script_shows_it() -> None:
    maps = [np.array([[0.1, 0.7], [0.1, 0.1]]), np.array([[0.1, 0.1], [0.6, 0.2]])]
    part = Overlays(PIXELS, ["a", "<b onclick=x>"], maps, (3, 4))
    page = overlays_html(part, "p")
    steps = page[: page.index('<div class="scroll">')]
    assert page[len(steps) :] == f'<div class="scroll">{overlays(part).svg("p")}</div>'  # as without a script
    assert steps.startswith('<div class="steps" hidden')
    assert steps.count('class="layer"') == 2 and steps.count("<mask") == 2 and 'max="1"' in steps
    assert 'data-say="a: 70 % at row 1, column 2"' in steps
    assert "<b " not in page and '<button type="button">&lt;b onclick=x&gt;</button>' in steps
    names = re.findall(r'id="([^"]+)"', page)
    assert len(names) == len(set(names)) == 4
    assert 'class="steps"' not in overlays_html(Overlays(PIXELS, [], [], (3, 4)), "p")


def test_words_of_small_pictures_are_picked_by_their_number() -> None:
    picture = overlays(Overlays(PIXELS, ["a", "b"], [np.ones((2, 2))] * 2, (3, 4)))
    assert [shape.number for shape in picture.shapes if isinstance(shape, Box)] == [None, (0, 0), (1, 0)]


def test_boxes_are_as_bright_as_their_weights_and_what_lies_outside_of_all_is_dark() -> None:
    boxes = [(0, 0, 2, 3), (1, 1, 4.4, 3)]
    values = over_boxes(np.array([0.3, 0.7]), boxes, (5, 6))
    for y in range(5):
        for x in range(6):
            around = [
                weight
                for weight, (left, top, right, bottom) in zip((0.3, 0.7), boxes, strict=True)
                if left <= x < right and top <= y < bottom
            ]
            assert values[y, x] == max(around, default=0)
    part = Overlays(PIXELS, ["a"], [np.array([0.3, 0.7])], boxes=boxes)
    picture = overlays(part)
    assert [shape.title for shape in picture.shapes if isinstance(shape, Box)] == [
        "the picture",
        "region 1",
        "region 2",
        "a: 70 % at region 2",
    ]
    assert [shape.text for shape in picture.shapes if isinstance(shape, Label)] == ["1", "2", "a"]
    (shade,) = (shape for shape in picture.shapes if isinstance(shape, Raster))
    assert (shade.levels == darkness(values)).all()
    steps = overlays_html(part, "p").partition('<div class="scroll">')[0]
    assert steps.count('class="region mark"') == 2 and 'data-say="a: 70 % at region 2"' in steps
