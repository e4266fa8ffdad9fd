"""Pictures with paragraphs: from JSON lines, from Python and drawn, with the boxes of the things they mention."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from clew.core.errors import UserError
from clew.data.examples import Crop, Regions
from clew.data.kinds.captioned import CAPTIONED, CaptionedData
from clew.data.kinds.described import DESCRIBED, DescribedData, described_scene
from clew.data.notes import Notes
from clew.data.pictures.paragraph_readers import read_described
from clew.data.pictures.references import PictureRef
from clew.data.synthetic.scene_texts import nouns, paragraph
from clew.data.synthetic.scenes import across, scenes
from clew.sources.region_inputs import RegionsReader


def written(folder: Path, **line: Any) -> Path:
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / "a.png")
    path = folder / "mine.jsonl"
    path.write_text(json.dumps({"image": "a.png", "sentences": ["one .", "two ."], **line}) + "\n", encoding="utf-8")
    return path


def test_a_line_has_a_picture_and_a_list_of_sentences(tmp_path):
    (example,) = read_described(written(tmp_path))
    assert example.sentences == ("one .", "two .") and example.target == "one . two ."
    assert example.picture == PictureRef(str(tmp_path / "a.png"))


def test_boxes_and_phrases_are_read_and_written_back(tmp_path):
    (example,) = read_described(written(tmp_path, boxes=[[0, 1, 4, 5], [2, 2, 8, 8.0]], phrases=["left", "right"]))
    assert example.picture == Regions(
        PictureRef(str(tmp_path / "a.png")), ((0, 1, 4, 5), (2, 2, 8, 8))
    ) and example.phrases == (
        "left",
        "right",
    )
    assert DESCRIBED.rows is not None
    (row,) = DESCRIBED.rows([example], Notes())
    copy = tmp_path / "again.jsonl"
    copy.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert [each._replace(id="") for each in read_described(copy)] == [example._replace(id="")]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"sentences": "one"}, r"the field for data.sentences must be a list with at least one text"),
        ({"boxes": [[1, 2, 3]]}, r"expected \[left, top, right, bottom\] in pixels, found \[1, 2, 3\]"),
        (
            {"boxes": [[3, 0, 1, 4]]},
            r"a box must have left < right and top < bottom, and no number below 0; this one is \[3, 0, 1, 4\]",
        ),
        ({"phrases": ["one"]}, r"there are 1 phrases and 0 boxes; give one phrase for each box"),
        ({"image": "b.png"}, r"there is no picture 'b.png' in"),
    ],
)
def test_an_unusable_line_is_rejected_with_its_place(tmp_path, line, sentence):
    with pytest.raises(UserError, match=sentence) as error:
        list(read_described(written(tmp_path, **line)))
    assert "mine.jsonl:1" in str(error.value)


def test_unknown_corpora_are_rejected_by_name():
    with pytest.raises(UserError, match="unknown corpus of pictures with paragraphs 'coco'; known: scenes"):
        DESCRIBED.read(DescribedData(corpus="coco"), 1)


def test_paragraphs_from_left_to_right_mention_things_in_that_order():
    for scene in scenes(60, 1, "train", side=48):
        example = described_scene(scene, "across")
        named = [(noun.size, noun.colour, noun.shape) for noun in nouns(example.target)]
        assert named == [(scene.things[n].size, scene.things[n].colour, scene.things[n].shape) for n in across(scene)]
        assert [f"a {' '.join(each)}" for each in named] == list(example.phrases)  # type: ignore[arg-type]
        assert paragraph(scene).text == described_scene(scene).target


def test_a_region_has_the_pixels_and_position_of_its_box():
    (scene,) = scenes(1, 4, "train", side=48, fewest=3, most=3)
    reader, example = RegionsReader(side=48), described_scene(scene)
    assert isinstance(example.picture, Regions)
    pixels = reader.read(example.picture)
    assert reader.measured(example.picture).length == 3 and np.allclose(pixels, reader.read(scene))
    whole = reader.read(Regions(scene, ((0, 0, 48, 48),)))[0]
    assert np.allclose(whole[:-4].reshape(48, 48, 3), scene.pixels() / 127.5 - 1) and whole[-4:].tolist() == [
        0,
        0,
        1,
        1,
    ]
    left, top, right, bottom = example.picture.boxes[1]
    place = [(left + right) / 48 - 1, (top + bottom) / 48 - 1, (right - left) / 24 - 1, (bottom - top) / 24 - 1]
    assert np.allclose(pixels[1, -4:], place)


def test_with_captioned_regions_every_box_is_a_picture_with_a_phrase():
    data = CaptionedData(corpus="scenes", size=20, side=48, regions=True)
    examples = CAPTIONED.read(data, 1)["train"]
    expected = scenes(18, 1, "train", side=48)
    assert len(examples) == sum(len(scene.things) for scene in expected)
    crop = examples[0].picture
    assert isinstance(crop, Crop) and np.array_equal(
        crop.pixels(), expected[0].pixels()[crop.box[1] : crop.box[3], crop.box[0] : crop.box[2]]
    )
    assert examples[0].captions == (described_scene(expected[0]).phrases[0],)
