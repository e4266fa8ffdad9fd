"""Captions as Flickr8k and COCO publish them."""

import json
from pathlib import Path
from typing import Any

import pytest

from clew.data.corpora.samples import sample_path
from clew.data.formats import detect_format
from clew.data.formats.caption_files import CaptionRow, read_flickr, read_listed_captions
from clew.data.formats.coco_files import read_coco
from clew.data.notes import Notes
from tests.data.written import refusal, write

FLICKR = "a.jpg#1\tA dog .\nb.jpg#0\tA cat .\na.jpg#0\tTwo #2 dogs .\n\nc.jpg.1@0@A bird @ sea .\n"


def test_photographs_get_their_captions_in_order(tmp_path: Path) -> None:
    captions = write(tmp_path / "token.txt", FLICKR)
    images = write(tmp_path / "train.txt", "a.jpg\n\nc.jpg.1\n")
    assert list(read_listed_captions(images, captions)) == [
        CaptionRow("a.jpg", ("Two #2 dogs .", "A dog ."), f"{images}:1"),
        CaptionRow("c.jpg.1", ("A bird @ sea .",), f"{images}:3"),
    ]
    assert [(row.image, row.place) for row in read_flickr(captions)] == [
        ("a.jpg", f"{captions}:1"),
        ("b.jpg", f"{captions}:2"),
        ("c.jpg.1", f"{captions}:5"),
    ]


def test_lines_and_pictures_without_a_caption_are_faults(tmp_path: Path) -> None:
    captions = write(tmp_path / "token.txt", "a.jpg#1\tA dog .\nnonsense\n")
    images = write(tmp_path / "train.txt", "a.jpg\nz.jpg\n")
    assert refusal(lambda: read_listed_captions(images, captions)).startswith(
        f"{captions}:2: expected photograph#number, a tab and a caption; fix it"
    )
    notes = Notes(faults="skip")
    assert [row.image for row in read_listed_captions(images, captions, notes=notes)] == ["a.jpg"]
    assert notes.sentences[1] == f"{images}:2: the photograph z.jpg has no caption in {captions}"
    empty = write(tmp_path / "empty.txt", "\n\n")
    assert refusal(lambda: read_flickr(empty)) == f"{empty}: there is no caption in it; give a file with captions"


COCO: dict[str, Any] = {
    "info": {"year": 2014},
    "images": [
        {"id": 9, "file_name": "nine.jpg"},
        {"id": 4, "file_name": "four.jpg"},
        {"id": 5, "file_name": "five.jpg"},
    ],
    "annotations": [
        {"image_id": 4, "id": 1, "caption": " A dog ."},
        {"image_id": 9, "id": 2, "caption": "A cat."},
        {"image_id": 4, "id": 3, "caption": "Two dogs."},
    ],
}


def test_annotations_are_joined_with_their_images(tmp_path: Path) -> None:
    path, notes = write(tmp_path / "captions_val2014.json", json.dumps(COCO)), Notes()
    assert list(read_coco(path, notes)) == [
        CaptionRow("nine.jpg", ("A cat.",), f"{path}: image 9"),
        CaptionRow("four.jpg", ("A dog .", "Two dogs."), f"{path}: image 4"),
    ]
    assert notes.report() == [f"skipped 1 x picture without a caption (first: {path}: image 5)"]


def test_a_list_has_one_object_per_picture(tmp_path: Path) -> None:
    rows = [{"image": "a.jpg", "captions": ["A dog.", "Two dogs."]}, {"file": "b.jpg", "caption": "A cat."}]
    path = write(tmp_path / "captions.json", json.dumps(rows, indent=1))
    assert list(read_coco(path)) == [
        CaptionRow("a.jpg", ("A dog.", "Two dogs."), f"{path}: picture 1"),
        CaptionRow("b.jpg", ("A cat.",), f"{path}: picture 2"),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"images": [', "this is not JSON: expecting value at column 13"),
        ("[" * 100_000, "this is not JSON: it is nested too deeply"),
        ('{"images": []}', "the file has the fields images, but no list 'annotations'; the shape is {"),
        ('"a"', "the file is a string, not an object with the list 'annotations'; the shape is {"),
        ('{"images": [], "annotations": []}', "there is no record in it; give a file with records in it"),
        ("[]", "there is no record in it; give a file with records in it"),
    ],
    ids=["cut", "deep", "half", "string", "empty", "empty list"],
)
def test_a_file_of_another_structure_is_rejected(content: str, sentence: str, tmp_path: Path) -> None:
    path = write(tmp_path / "captions.json", content)
    assert refusal(lambda: read_coco(path)).startswith(f"{path}: {sentence}")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            {**COCO, "annotations": [7]},
            "annotation 1: expected an object with a number in 'image_id', found 7; fix it",
        ),
        ({**COCO, "annotations": [{"image_id": 4}]}, "annotation 1: the field for data.caption is empty; fix it"),
        (
            {**COCO, "annotations": [{"image_id": 4, "caption": " "}]},
            "annotation 1: the field for data.caption is empty; fix it",
        ),
        (
            {**COCO, "annotations": [{"image_id": 4, "caption": {}}]},
            "annotation 1: the field for data.caption is empty; fix it",
        ),
        (
            {**COCO, "annotations": [{"image_id": 77, "caption": "A dog."}]},
            "image 77: it has a caption, but its id is not in 'images'; fix it",
        ),
        ({**COCO, "images": [{"id": 4}]}, "image {'id': 4}: the field for data.image is null; fix it"),
        (
            {**COCO, "images": [COCO["images"][0]] * 2},
            "image {'file_name': 'nine.jpg', 'id': 9}: another picture above has the same id;",
        ),
        ([5], "picture 1: expected an object, found a number; the shape is"),
        ([{"image": "a.jpg"}], "picture 1: the field for data.caption is empty; fix it"),
        ([{"captions": ["A dog."]}], "picture 1: the field for data.image is null; fix it"),
        (
            [{"image": "a.jpg", "captions": ["A dog.", 3, {}]}],
            "picture 1: data.caption takes a text, found an object; fix it",
        ),
        ([{"image": "a.jpg", "captions": ["\ud800"]}], "picture 1: the field for data.caption has half a character"),
    ],
)
def test_a_faulty_record_is_reported_with_its_place(content: Any, sentence: str, tmp_path: Path) -> None:
    path = write(tmp_path / "captions.json", json.dumps(content))
    assert refusal(lambda: read_coco(path)).startswith(f"{path}: {sentence}")


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("Flickr8k.token.txt", FLICKR, "flickr"),
        ("Flickr8k.token", FLICKR.replace("\t", "@"), "flickr"),
        ("captions_val2014.json", json.dumps(COCO), "coco"),
        ("captions_val2014.json", json.dumps({"images": COCO["images"], "annotations": []}, indent=1), "coco"),
        ("captions.json", '[\n{"image": "a.jpg",\n"captions": [\n"A dog."]}]', "coco"),
        ("captions.jsonl", '{"image": "a.jpg", "captions": ["A dog."]}\n', "jsonl"),
        ("rows.json", '{"image": "a.jpg", "captions": ["A dog."]}\n', "jsonl"),
        ("rows.json", '[{"text": "a"}]', "json"),
        ("mail.txt", "me@home.org wrote to you\nyou@home.org wrote back\n", "lines"),
        ("notes.txt", "see a.jpg#1\n", "lines"),
    ],
)
def test_caption_formats_are_detected_by_content(name: str, content: str, format: str, tmp_path: Path) -> None:
    assert detect_format(write(tmp_path / name, content)) == format


def test_the_embedded_sample_is_detected_and_read() -> None:
    path = sample_path("coco") / "captions.json"
    assert detect_format(path) == "coco"
    rows = list(read_coco(path))
    assert len(rows) == 76 and sum(len(row.captions) for row in rows) == 380
