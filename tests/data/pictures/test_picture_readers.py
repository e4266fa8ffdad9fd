"""Examples with pictures, from tables, JSON, folders and lists; each fault is reported at its line."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.data.examples import Captioned, LabelledInput
from clew.data.kinds.captioned import CAPTIONED, CaptionedData
from clew.data.kinds.labelled_pictures import LABELLED_PICTURES, LabelledPicturesData
from clew.data.labelled_inputs import read_labelled_inputs
from clew.data.notes import Notes
from clew.data.pictures.picture_files import read_picture
from clew.data.pictures.picture_readers import PICTURE_FILES, read_captioned
from clew.data.pictures.references import PictureRef
from clew.data.synthetic.scenes import Scene, scenes
from tests.data.files.test_tar_files import archive
from tests.data.pictures.written_pictures import pixels, write_picture
from tests.data.written import refusal, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate("abc"):
        write_picture(tmp_path / "images" / f"{name}.png", pixels(2, 3, seed=number))
    return tmp_path


def picture_ref(folder: Path, name: str) -> PictureRef:
    return PictureRef(str(folder / "images" / f"{name}.png"))


TABLES = {
    "rows.jsonl": (
        '{"image": "images/a.png", "captions": ["A dog.", "Two dogs."]}\n\n{"image": "images/b.png", "captions": ["A'
        ' cat."]}\n'
    ),
    "one.jsonl": (
        '{"image": "images/a.png", "caption": "A dog."}\n{"image": "images/b.png", "caption": "A cat."}\n'
        '{"image": "images/a.png", "caption": " Two dogs. "}\n'
    ),
    "rows.csv": 'image,caption\nimages/a.png,A dog.\nimages/b.png,"A cat."\nimages/a.png,Two dogs.\n',
    "rows.tsv": "caption\tfile_name\nA dog.\timages/a.png\nTwo dogs.\timages/a.png\nA cat.\timages/b.png\n",
    "list.json": (
        '[{"file": "images/a.png", "captions": ["A dog.", "Two dogs."]}, {"image": "images/b.png", "captions": "A'
        ' cat."}]'
    ),
    "coco.json": json.dumps(
        {
            "images": [{"id": 1, "file_name": "images/a.png"}, {"id": 2, "file_name": "images/b.png"}],
            "annotations": [
                {"image_id": i, "caption": text} for i, text in ((1, "A dog."), (2, "A cat."), (1, "Two dogs."))
            ],
        }
    ),
    "token.txt": "images/a.png#0\tA dog.\nimages/a.png#1\tTwo dogs.\nimages/b.png#0\tA cat.\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_captions_of_every_format_are_the_same_examples(name: str, folder: Path) -> None:
    path = write(folder / name, TABLES[name])
    examples = list(read_captioned(path))
    assert [(example.picture, example.captions) for example in examples] == [
        (picture_ref(folder, "a"), ("A dog.", "Two dogs.")),
        (picture_ref(folder, "b"), ("A cat.",)),
    ]
    assert examples[0].id.startswith(str(path)) and examples[0].key == str(folder / "images/a.png")
    moved = write(folder / "elsewhere" / name, TABLES[name].replace("images/", ""))
    assert [example.picture for example in read_captioned(moved, pictures=folder / "images")] == [
        picture_ref(folder, "a"),
        picture_ref(folder, "b"),
    ]


def test_a_folder_is_read_with_its_caption_file(folder: Path) -> None:
    write(folder / "metadata.csv", TABLES["rows.csv"])
    assert len(list(read_captioned(folder))) == 2
    (folder / "metadata.csv").unlink()
    assert (
        refusal(lambda: read_captioned(folder))
        == f"{folder}: this folder has no file of captions; name it captions.jsonl, .json, .csv or .tsv, or give its"
        " path"
    )


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "a.csv",
            "image,caption\nimages/a.png,A\nimages/z.png,B\n",
            ":3: there is no picture 'images/z.png' in {}; if pictures are in another",
        ),
        ("a.csv", "image,caption\nimages/a.png,\n", ":2: the field for data.caption is empty; fix it"),
        ("a.csv", "image,caption\n,A dog\n", ":2: the field for data.image is empty; fix it"),
        (
            "a.csv",
            "image,text\nimages/a.png,A dog\n",
            ": no column 'caption'; name it with data.caption=NAME; there are: image,",
        ),
        (
            "a.jsonl",
            '{"image": "images/a.png", "captions": [1, []]}\n',
            ":1: data.caption takes a text, found a list; fix it",
        ),
        (
            "a.jsonl",
            '{"image": ["images/a.png"], "captions": ["A"]}\n',
            ":1: data.image takes a text, found a list; fix it",
        ),
        (
            "a.txt",
            "a text of lines\nand no captions\n",
            (
                ": this is one text per line (lines), which holds no pictures with captions; if it is in another"
                " format, set data.format to one of: coco, flickr, "
            ),
        ),
        (
            "a.json",
            '{"images": [{"id": 1, "file_name": "z.png"}], "annotations": [{"image_id": 1, "caption": "A"}]}',
            ": image 1: there is no",
        ),
    ],
)
def test_a_faulty_caption_is_reported_with_its_line(name: str, content: str, sentence: str, folder: Path) -> None:
    path = write(folder / name, content)
    assert refusal(lambda: read_captioned(path)).startswith(f"{path}{sentence.format(folder)}")


def test_skipped_captions_are_counted(folder: Path) -> None:
    path = write(
        folder / "a.csv",
        "image,caption\nimages/a.png,A\nimages/a.png,A\nimages/z.png,B\nimages/b.png,\nimages/b.png,C\n",
    )
    notes = Notes(faults="skip")
    assert [example.captions for example in read_captioned(path, notes=notes)] == [("A",), ("C",)]
    assert sorted(notes.report()) == [
        f"skipped 1 x duplicate caption of a picture (first: {path}:3)",
        f"skipped 1 x missing picture (first: {path}:4)",
        f"skipped 1 x no caption (first: {path}:5)",
    ]
    absent = write(folder / "c.csv", "image,caption\nimages/z.png,B\nimages/a.png,A\n")
    notes = Notes()
    assert [example.captions for example in read_captioned(absent, may_lack=True, notes=notes)] == [("A",)]
    assert notes.report() == [f"skipped 1 x picture that is not in {folder} (first: {absent}:2)"]
    without_pictures = write(folder / "b.csv", "image,caption\nimages/z.png,B\n")
    assert refusal(lambda: read_captioned(without_pictures, notes=Notes(faults="skip"))).startswith(
        f"{without_pictures}: no record can be read; the first fault is {without_pictures}:2: there is no picture"
    )


def test_lists_of_photographs_take_their_captions_from_another_file(folder: Path) -> None:
    write(folder / "token.txt", TABLES["token.txt"].replace("images/", ""))
    for part, names in (("train", "b"), ("valid", "a")):
        write(folder / f"{part}.txt", "".join(f"{name}.png\n" for name in names))
    tar = archive(
        folder / "photographs.tar", **{f"x__{name}.png": (folder / f"images/{name}.png").read_bytes() for name in "abc"}
    )
    files = {part: str(folder / f"{part}.txt") for part in ("train", "valid")}
    parts = CAPTIONED.read(CaptionedData(**files, captions=str(folder / "token.txt"), pictures=str(tar)), 1)
    assert parts == {
        "train": [Captioned(PictureRef(str(tar), "x/b.png"), ("A cat.",), f"{folder / 'train.txt'}:1")],
        "valid": [Captioned(PictureRef(str(tar), "x/a.png"), ("A dog.", "Two dogs."), f"{folder / 'valid.txt'}:1")],
    }
    assert read_picture(parts["train"][0].picture).shape == (2, 3, 3)


def test_examples_from_python_are_written_and_read_back(folder: Path) -> None:
    pairs = [(picture_ref(folder, "a").path, "A dog."), (folder / "images/b.png", ["A cat.", "A red cat."])]
    rows = list(CAPTIONED.rows(pairs, Notes()) if CAPTIONED.rows else ())
    path = write(folder / "rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    assert [(one.picture, one.captions) for one in read_captioned(path)] == [
        (one.picture, one.captions) for one in read_captioned(pairs)
    ]
    labelled = [(picture_ref(folder, "a").path, "dog"), (picture_ref(folder, "b").path, ["cat", "red"])]
    rows = list(LABELLED_PICTURES.rows(labelled, Notes()) if LABELLED_PICTURES.rows else ())
    path = write(folder / "labels.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    assert [one.labels for one in read_labelled_inputs(path, PICTURE_FILES)] == [("dog",), ("cat", "red")]
    assert refusal(lambda: read_captioned([("z.png", "A dog.")])).startswith(
        "example 1: there is no picture 'z.png' in "
    )
    assert refusal(lambda: read_captioned([("z.png",)])).startswith(
        "example 1: expected (picture, captions), found ('z.png',)"
    )
    with pytest.raises(
        UserError, match="which names pictures by path: a Scene has no path; save it as a picture file first"
    ):
        list(CAPTIONED.rows([(scenes(1, 1)[0], "a square")], Notes()) if CAPTIONED.rows else ())


def test_folders_named_by_class_label_their_pictures(folder: Path) -> None:
    root = folder / "photographs"
    for name in (
        "cat/a.png",
        "cat/deep/b.JPG",
        "dog/c.jpeg",
        "cat/.hidden.png",
        "outside.png",
        "dog/readme.txt",
        ".git/x.png",
    ):
        write_picture(root / name, pixels(2, 2))
    notes = Notes()
    examples = list(read_labelled_inputs(root, PICTURE_FILES, notes=notes))
    assert examples == [
        LabelledInput(PictureRef(str(root / name)), (label,), str(root / name))
        for name, label in (("cat/a.png", "cat"), ("cat/deep/b.JPG", "cat"), ("dog/c.jpeg", "dog"))
    ]
    assert sorted(notes.report()) == [
        f"skipped 1 x file without a picture's extension (first: {root / 'dog/readme.txt'})",
        f"skipped 1 x picture outside the class folders (first: {root / 'outside.png'})",
    ]
    (folder / "empty").mkdir()
    assert (
        refusal(lambda: read_labelled_inputs(folder / "empty", PICTURE_FILES))
        == f"{folder / 'empty'}: no picture in this folder; expected one folder per class, as in class/picture.png; "
        f"the folder {folder / 'empty'} is empty"
    )


def test_a_table_labels_its_pictures(folder: Path) -> None:
    path = write(
        folder / "labels.csv",
        "picture,kind\nimages/a.png,dog\nimages/b.png,cat;red\nimages/a.png,dog\nimages/a.png,cat\n",
    )
    notes = Notes()
    examples = list(read_labelled_inputs(path, PICTURE_FILES, label="kind", label_separator=";", notes=notes))
    assert [(one.input, one.labels) for one in examples] == [
        (picture_ref(folder, "a"), ("dog",)),
        (picture_ref(folder, "b"), ("cat", "red")),
        (picture_ref(folder, "a"), ("cat",)),
    ]
    assert examples[1].label == "cat|red" and examples[1].id == f"{path}:3"
    assert notes.report() == [f"skipped 1 x picture listed twice with the same label (first: {path}:4)"]
    missing = write(folder / "missing.csv", "image,label\nimages/a.png,dog\n../z.png,dog\n")
    assert refusal(lambda: read_labelled_inputs(missing, PICTURE_FILES)).startswith(
        f"{missing}:3: there is no picture '../z.png' in {folder}; "
    )


def read(**data: Any) -> dict[str, Any]:
    return dict(LABELLED_PICTURES.read(LabelledPicturesData(**data), 1))


def test_an_unsplit_folder_is_split_by_class(folder: Path) -> None:
    for label in ("cat", "dog"):
        for number in range(20):
            write_picture(folder / "set" / label / f"{number}.png", pixels(1, 1))
    parts = read(train=str(folder / "set"), valid_fraction=0.25)
    assert [sorted(one.label for one in parts[part]) for part in ("train", "valid")] == [
        ["cat"] * 15 + ["dog"] * 15,
        ["cat"] * 5 + ["dog"] * 5,
    ]


def test_a_split_does_not_depend_on_the_folder_of_the_pictures(folder: Path) -> None:
    names = {}
    for place in ("here", "somewhere/else"):
        for number in range(40):
            write_picture(folder / place / "images" / f"{number}.png", pixels(1, 1))
        rows = "".join(f"images/{number}.png,text {number}\n" for number in range(40))
        path = write(folder / place / "rows.csv", f"image,caption\n{rows}")
        parts = CAPTIONED.read(CaptionedData(train=str(path), valid_fraction=0.25), 1)
        names[place] = {part: [Path(example.key).name for example in examples] for part, examples in parts.items()}
    assert names["here"] == names["somewhere/else"] and len(names["here"]["valid"]) == 10


def test_scenes_are_a_corpus_of_captioned_and_labelled_pictures() -> None:
    parts = CAPTIONED.read(CaptionedData(corpus="scenes", size=40, test_fraction=0.1, side=48), 3)
    assert {part: len(examples) for part, examples in parts.items()} == {"train": 32, "valid": 4, "test": 4}
    for part, examples in parts.items():
        assert [example.picture for example in examples] == scenes(len(examples), 3, part, side=48)  # type: ignore[arg-type]
        assert [example.id for example in examples] == [
            f"scenes {part} {number}" for number in range(1, len(examples) + 1)
        ]
    assert read_picture(parts["train"][0].picture, shape=(24, 24)).shape == (24, 24, 3)
    described = CAPTIONED.read(CaptionedData(corpus="scenes", size=10, paragraphs=True), 3)["train"][0]
    assert len(described.captions) == 1 and described.captions[0].endswith(" .")
    shapes, counts = (
        read(corpus="scenes", size=60)["train"],
        read(corpus="scenes", size=60, about="count", things=3)["train"],
    )
    assert all(isinstance(one.input, Scene) and one.label == one.input.things[0].shape for one in shapes)
    assert {one.label for one in counts} == {"1", "2", "3"} and all(
        one.label == str(len(one.input.things)) for one in counts
    )


def test_missing_unknown_and_wrong_kinds_of_data_are_rejected(folder: Path) -> None:
    with pytest.raises(
        UserError,
        match="the corpus coco-sample holds pictures with captions; this task reads labelled pictures, such as fash",
    ):
        read(corpus="coco-sample")
    with pytest.raises(UserError, match="unknown corpus of pictures 'scene'; did you mean 'scenes'\\?"):
        read(corpus="scene")
    with pytest.raises(UserError, match="unknown corpus of pictures 'coco'; did you mean"):
        CAPTIONED.read(CaptionedData(corpus="coco"), 1)
    with pytest.raises(
        UserError,
        match=("there is no training data; name your captions with data.train, e.g. data.train=captions.jsonl"),
    ):
        CAPTIONED.read(CaptionedData(), 1)
    with pytest.raises(
        UserError, match=("there is no training data; name your pictures with data.train, e.g. data.train=photographs")
    ):
        read()
    with pytest.raises(UserError, match="drawn scenes would need .* lower data.size"):
        read(corpus="scenes", size=10**12)
