import io

import numpy as np
import pytest
from PIL import Image

from clew.core.errors import UserError
from clew.data.kinds.labelled_pixels import LABELLED_PIXELS, LabelledPixelsData
from clew.data.notes import Notes
from clew.data.pictures.label_pictures import cell_levels, read_levels
from clew.drawing.png import palette_png
from tests.references.overlap import most_frequent


def saved(picture, **options):
    file = io.BytesIO()
    picture.save(file, "PNG", **options)
    return file.getvalue()


def numbers(top, height=5, width=11, seed=1):
    return np.random.default_rng(seed).integers(0, top, (height, width), dtype=np.uint8)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_palette_entries_are_read_as_stored(bits):
    levels = numbers(2**bits)
    picture = Image.fromarray(levels, "P")
    picture.putpalette(list(np.random.default_rng(0).integers(0, 256, 3 * 2**bits)))
    data = saved(picture, bits=bits)
    np.testing.assert_array_equal(read_levels(data, "a.png"), levels)


def test_grey_levels_are_label_numbers_under_any_line_filter():
    levels = np.cumsum(numbers(5, 40, 40), axis=1).astype(np.uint8)
    np.testing.assert_array_equal(read_levels(saved(Image.fromarray(levels)), "a.png"), levels)
    black_and_white = numbers(2, 7, 19)
    np.testing.assert_array_equal(
        read_levels(saved(Image.fromarray(black_and_white.astype(bool))), "a.png"), black_and_white
    )


def test_a_palette_picture_keeps_label_numbers_and_shows_colours_in_pillow():
    levels = numbers(4)
    data = palette_png(levels, ("#010203", "#ff0000", "#00ff00"))
    np.testing.assert_array_equal(read_levels(data, "a.png"), levels)
    colours = np.array([[1, 2, 3], [255, 0, 0], [0, 255, 0], [1, 2, 3]], np.uint8)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data)).convert("RGB")), colours[levels])


@pytest.mark.parametrize(("size", "ignored"), [(1, None), (2, None), (3, 1), (4, 2), (20, None)])
def test_a_cell_has_the_label_of_most_of_its_pixels(size, ignored):
    levels = numbers(3, 9, 14)
    assert cell_levels(levels, size, ignored).tolist() == most_frequent(levels.tolist(), size, ignored)


def test_a_cell_of_only_ignored_pixels_has_no_label():
    assert cell_levels(np.full((2, 4), 255, np.uint8), 2, 255).tolist() == [[-1, -1]]
    assert cell_levels(np.array([[255, 1], [255, 255]], np.uint8), 2, 255).tolist() == [[1]]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"GIF89a", "a.png: a label picture must be a PNG file, but this is not; save it as PNG"),
        (
            saved(Image.new("RGB", (2, 2))),
            "a grey or palette PNG of at most 8 bits, .* this one has colour type 2 with 8 bits; convert it",
        ),
        (saved(Image.new("I;16", (2, 2))), "this one has colour type 0 with 16 bits"),
        (saved(Image.new("L", (4, 4)))[:50], "a.png: the PNG file is damaged: .*; copy it again"),
    ],
)
def test_files_that_are_not_label_pictures_are_rejected(data, sentence):
    with pytest.raises(UserError, match=sentence):
        read_levels(data, "a.png")


@pytest.fixture
def folders(tmp_path):
    for name, mode in (("pictures", "RGB"), ("labels", "L")):
        (tmp_path / name).mkdir()
        for number in range(3):
            Image.new(mode, (6, 4 + number)).save(tmp_path / name / f"{number}.png")
    return tmp_path


def read(folders, notes=None, **options):
    data = LabelledPixelsData(train=str(folders / "pictures"), **options)
    return list(LABELLED_PIXELS.read_files([folders / "pictures"], data, notes or Notes()))


def test_label_pictures_are_found_by_name_in_the_neighbouring_folder(folders):
    examples = read(folders, names=["a", "b"], ignored=7)
    assert [example.pixels.levels().shape for example in examples] == [(4, 6), (5, 6), (6, 6)]
    assert (examples[0].names, examples[0].ignored) == (("a", "b"), 7)


def test_missing_and_mismatched_label_pictures_are_reported(folders):
    with pytest.raises(UserError, match="there is no such folder; data.labels names their folder"):
        read(folders, labels=str(folders / "lables"))
    Image.new("L", (9, 4)).save(folders / "labels" / "0.png")
    with pytest.raises(
        UserError, match=r"it has 4 x 6 pixels, and its label picture .*0.png has 4 x 9; both must have the same size"
    ):
        read(folders)
    (folders / "labels" / "1.png").unlink()
    notes = Notes(faults="skip")
    assert len(read(folders, notes)) == 1 and notes.num_faults == 2
    (folders / "pictures" / "0.png").unlink()
    with pytest.raises(UserError, match="there is no label picture .*1.png; data.labels names their folder"):
        read(folders)


def test_drawn_scenes_vary_in_size_if_a_smallest_side_is_given():
    data = LabelledPixelsData(corpus="scenes", size=40, side=40, smallest=34, things=2)
    parts = LABELLED_PIXELS.read(data, 1)
    sides = {example.picture.side for example in parts["train"]}
    assert len(sides) > 3 and min(sides) >= 34 and max(sides) <= 40
    for example in parts["train"][:5]:
        np.testing.assert_array_equal(example.pixels.levels(), example.picture.classes())
    with pytest.raises(UserError, match=r"data.smallest \(50\) must be at most data.side \(40\)"):
        LABELLED_PIXELS.read(data.model_copy(update={"smallest": 50}), 1)
    with pytest.raises(
        UserError, match="unknown corpus of pictures with labels of pixels 'scens'; did you mean 'scenes'"
    ):
        LABELLED_PIXELS.read(LabelledPixelsData(corpus="scens"), 1)
