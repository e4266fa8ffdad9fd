"""Pixels, labels, boxes and texts of scenes agree, and no training scene shows a held-out combination."""

import hashlib
import math
from collections import Counter

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.data.kinds.captioned import CAPTIONED, CaptionedData
from clew.data.synthetic.scene_drawing import INSIDE, coverage
from clew.data.synthetic.scene_texts import (
    Mentions,
    captions,
    fixed_caption,
    ground_text,
    is_true,
    objects_mentioned,
    paragraph,
    place_of,
    relation_of,
)
from clew.data.synthetic.scenes import COLOURS, HELD_OUT, SHAPES, Scene, Thing, scenes

GREY = (128, 128, 128)


def thing(shape: str, colour: str, size: str, x: int, y: int) -> Thing:
    return Thing(shape, colour, size, x, y, {"small": 6, "large": 11}[size], COLOURS[colour])


SCENE = Scene(
    (
        thing("circle", "red", "large", 14, 30),
        thing("square", "blue", "small", 50, 34),
        thing("circle", "green", "small", 40, 8),
    ),
    64,
    GREY,
)
"""A large red circle at the left, a small blue square at the right, a small green circle at the top."""


def test_scenes_are_the_same_on_every_machine() -> None:
    digest = hashlib.sha256()
    for part in ("train", "valid", "test"):
        for scene in scenes(20, 7, part):  # type: ignore[arg-type]
            digest.update(scene.pixels().tobytes() + scene.numbers().tobytes())
            digest.update("\n".join([paragraph(scene).text, *(caption.text for caption in captions(scene))]).encode())
    assert digest.hexdigest() == DIGEST
    assert scenes(5, 7) == scenes(20, 7)[:5] and scenes(5, 7) != scenes(5, 8)


DIGEST = "f7e07515afadafc8d83271216f5d2b46e85b037dafad5bd399e44faf18910263"


def test_training_scenes_never_show_held_out_combinations() -> None:
    held_out = {pair for pairs in HELD_OUT.values() for pair in pairs}
    assert len(held_out) == 6
    train = scenes(1000, 1)
    pair_counts = Counter(thing.pair for scene in train for thing in scene.things)
    assert (
        len(pair_counts) == len(COLOURS) * len(SHAPES) - 6
        and not held_out & set(pair_counts)
        and not any(scene.is_novel for scene in train)
    )
    for part, other in (("valid", "test"), ("test", "valid")):
        part_scenes = scenes(400, 1, part)  # type: ignore[arg-type]
        assert [scene.is_novel for scene in part_scenes] == [False, True] * 200
        novel = {thing.pair for scene in part_scenes for thing in scene.things} & held_out
        assert novel == set(HELD_OUT[part]) and not novel & set(HELD_OUT[other])


@pytest.mark.parametrize("side", [48, 64])
def test_things_do_not_touch_and_stay_inside(side: int) -> None:
    for scene in scenes(200, 3, side=side):
        assert len({thing.pair for thing in scene.things}) == len(scene.things)
        covered = sum(
            (coverage(each.shape, each.x, each.y, each.radius, side) > 0).astype(int) for each in scene.things
        )
        assert covered.max() == 1
        assert not covered[[0, -1]].any() and not covered[:, [0, -1]].any()
    assert Counter(len(scene.things) for scene in scenes(200, 3, side=side)).keys() == {1, 2, 3, 4}


AREAS = {
    "circle": math.pi,
    "square": 4 * (7 / 8) ** 2,
    "triangle": 2.0,
    "diamond": 2.0,
    "cross": 4 * (2 / 3) - 4 / 9,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_covers_its_area_around_its_centre(shape: str) -> None:
    covered = coverage(shape, 32, 30, 11, 64) / 16
    assert covered.sum() == pytest.approx(AREAS[shape] * 11**2, rel=0.03)
    rows, columns = np.nonzero(covered)
    assert (rows.min(), rows.max() + 1, columns.min(), columns.max() + 1) == pytest.approx((19, 41, 21, 43), abs=2)
    assert np.array_equal(covered[:, :64], covered[:, ::-1]) and covered.max() == 1
    assert set(INSIDE) == set(SHAPES)


def test_pixels_labels_and_boxes_agree() -> None:
    for scene in [SCENE, *scenes(30, 2)]:
        pixels, numbers, classes = scene.pixels().astype(int), scene.numbers(), scene.classes()
        for number, (each, box) in enumerate(zip(scene.things, scene.boxes(), strict=True), start=1):
            whole = coverage(each.shape, each.x, each.y, each.radius, scene.side) == 16
            assert (pixels[whole] == each.shade).all() and (numbers[whole] == number).all()
            assert (classes[numbers == number] == SHAPES.index(each.shape) + 1).all()
            inside = np.zeros_like(numbers, bool)
            inside[box.top : box.bottom, box.left : box.right] = True
            assert not (numbers[~inside] == number).any()
            assert (numbers[box.top] == number).any() and (numbers[:, box.right - 1] == number).any()
        ground = sum(coverage(each.shape, each.x, each.y, each.radius, scene.side) for each in scene.things) == 0
        assert (pixels[ground] == scene.ground).all() and not numbers[ground].any() and not classes[ground].any()
    edge = coverage("circle", 14, 30, 11, 64)[30, 3]
    assert SCENE.pixels()[30, 3].tolist() == [(128 * (16 - edge) + level * edge + 8) // 16 for level in COLOURS["red"]]
    assert SCENE.pixels("grey").shape == (64, 64, 1)


def test_relations_and_places_follow_from_the_centres() -> None:
    red, blue, green = SCENE.things
    assert relation_of(red, blue) == "left of" and relation_of(blue, red) == "right of"
    assert (
        relation_of(green, blue) == "above"
        and relation_of(red, green) == "left of"
        and relation_of(blue, green) == "below"
    )
    assert [place_of(each, 64) for each in SCENE.things] == ["at the left", "at the right", "at the top"]


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("a large red circle is left of a small blue square", True),
        ("a red circle is left of a blue square", True),
        ("A circle is left of a square.", True),
        ("a circle is above a square", True),
        ("a small circle is left of a square", False),
        ("a large red circle is right of a small blue square", False),
        ("a small red circle is left of a small blue square", False),
        ("there is a red circle", True),
        ("there is a red square", False),
        ("a green circle", True),
        ("a green circle is at the top", True),
        ("a green circle is at the top left", False),
        ("a red circle is left of a red circle", False),
        ("there is a red circle . there is a blue square . a green circle is above a blue square .", True),
        ("there is a red circle . there is a blue circle .", False),
        ("a red circle is near a blue square", False),
        ("there is a red circle is left of a blue square", False),
        ("circle circle circle", False),
        ("red", False),
        ("", False),
        (" . . ", False),
    ],
)
def test_the_truth_of_a_text_about_a_scene_is_decided(text: str, truth: bool) -> None:
    assert is_true(text, SCENE) is truth


@pytest.mark.parametrize(
    ("text", "counts", "others"),
    [
        ("a large red circle is left of a small blue square", (1, 1, 0), 0),
        ("a circle , a circle and a circle", (2, 0, 1), 0),
        ("a red circle is left of a red circle", (2, 0, 0), 0),
        ("a red square and a yellow cross", (0, 0, 0), 2),
        ("the circle is red", (1, 0, 0), 0),
        ("a red small square", (0, 0, 0), 1),
        ("a blue small square", (0, 1, 0), 0),
        ("green and blue square", (0, 1, 0), 0),
        ("", (0, 0, 0), 0),
    ],
)
def test_mentions_are_counted_whatever_the_grammar(text: str, counts: tuple[int, ...], others: int) -> None:
    assert objects_mentioned(text, SCENE) == Mentions(counts, others)


def test_captions_are_true_and_a_paragraph_mentions_everything_once() -> None:
    for scene in [SCENE, *scenes(150, 4), *scenes(60, 4, "test", side=48)]:
        texts = captions(scene)
        assert 1 <= len(texts) <= 5 and len({each.text for each in texts}) == len(texts)
        assert all(is_true(each.text, scene) for each in texts)
        whole = paragraph(scene)
        assert is_true(whole.text, scene)
        assert objects_mentioned(whole.text, scene) == Mentions((1,) * len(scene.things), 0)


def test_every_word_names_the_thing_it_describes() -> None:
    (first, *_) = captions(SCENE)
    numbers = [number for number in first.things if number is not None]
    assert len(first.things) == len(first.words) and len(numbers) == 6
    for scene in [SCENE, *scenes(50, 5)]:
        for text in [paragraph(scene), *captions(scene)]:
            assert len(text.things) == len(text.words)
            for word, number in zip(text.words, text.things, strict=True):
                if number is None:
                    assert word not in (*SHAPES, *COLOURS, "small", "large")
                else:
                    assert word in scene.things[number][:3]


def test_impossible_scenes_are_rejected() -> None:
    with pytest.raises(UserError, match="unknown part of the scenes 'dev'; known: test, train, valid"):
        scenes(1, 1, "dev")  # type: ignore[arg-type]
    with pytest.raises(
        UserError, match="a scene has from 2 to 9 things; the first must be at least 1, and the second at most 4"
    ):
        scenes(1, 1, fewest=2, most=9)
    with pytest.raises(UserError, match=r"a scene's side \(8\) must be 32 to 512 pixels"):
        scenes(1, 1, side=8)


def test_grounding_can_be_recovered_from_the_text_alone() -> None:
    for scene in scenes(40, 5, "valid"):
        for text in (paragraph(scene), fixed_caption(scene), *captions(scene)):
            assert ground_text(text.text, scene) == text


def test_a_fixed_caption_does_not_depend_on_the_order_of_things() -> None:
    assert (
        fixed_caption(SCENE).text == "a large red circle is left of a small green circle"
    )  # red comes first, then green
    assert (
        fixed_caption(SCENE._replace(things=SCENE.things[1:])).text
        == "a small green circle is above a small blue square"
    )
    assert fixed_caption(SCENE._replace(things=SCENE.things[:1])).text == "there is a large red circle"
    same = (thing("cross", "red", "small", 10, 10), thing("circle", "red", "small", 50, 12))
    assert (
        fixed_caption(SCENE._replace(things=same)).text == "a small red circle is right of a small red cross"
    )  # then by shape
    for scene in scenes(40, 3, "test"):
        turned = scene._replace(things=scene.things[::-1], name="another")
        assert fixed_caption(scene).text == fixed_caption(turned).text and is_true(fixed_caption(scene).text, scene)


def test_scenes_with_fixed_captions_have_one_caption_each() -> None:
    parts = CAPTIONED.read(CaptionedData(corpus="scenes", size=20, forms="fixed"), 1)
    assert all(
        example.captions == (fixed_caption(example.picture).text,) for part in parts.values() for example in part
    )
    paragraphs = CAPTIONED.read(CaptionedData(corpus="scenes", size=20, forms="fixed", paragraphs=True), 1)
    assert all(
        example.captions == (paragraph(example.picture).text,) for part in paragraphs.values() for example in part
    )
