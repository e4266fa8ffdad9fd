from base64 import b64encode
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from benchmarks.pictures import compare, fixed_parts
from clew.drawing.parts import Part
from clew.drawing.png import png

PICTURE = (
    '<svg width="640"><path d="M12.5 3V40.25" fill="#1f77b4"/><text id="v0123456789ab-1">loss 0.512 in 3'
    " seconds</text></svg>"
)


def image(level: int) -> str:
    return f"data:image/png;base64,{b64encode(png(np.full((2, 2), level, dtype=np.uint8))).decode()}"


def compared(folder: Path, before: str, after: str) -> list[str]:
    for name, text in (("before", before), ("after", after)):
        (folder / name).mkdir()
        (folder / name / "picture.svg").write_text(text, encoding="utf-8")
    return compare(folder / "before", folder / "after", 1e-3)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("M12.5", "M12.8"),
        ('width="640"', 'width="641"'),
        ("#1f77b4", "#1f77b5"),
        ("loss", "error"),
        ("<path", "<line"),
        ("V40.25", "V40.25 50"),
    ],
)
def test_a_changed_picture_is_reported(tmp_path: Path, then: str, now: str) -> None:
    assert then in PICTURE
    (line,) = compared(tmp_path, PICTURE, PICTURE.replace(then, now))
    assert line.startswith("picture.svg: ")


def test_last_digits_ids_and_times_are_ignored(tmp_path: Path) -> None:
    after = (
        PICTURE.replace("0.512", "0.513")
        .replace("40.25", "40.26")
        .replace("v0123456789ab", "vba9876543210")
        .replace("3 sec", "4 sec")
    )
    assert compared(tmp_path, PICTURE, after) == []


def test_embedded_images_are_compared_by_their_pixels(tmp_path: Path) -> None:
    assert compared(tmp_path, f"<image {image(100)}/>", f"<image {image(200)}/>") == [
        "picture.svg: 4 of 4 pixels of an image differ"
    ]


def test_a_picture_that_is_missing_or_new_is_reported(tmp_path: Path) -> None:
    compared(tmp_path, PICTURE, PICTURE)
    (tmp_path / "before" / "picture.svg").rename(tmp_path / "before" / "old.svg")
    assert compare(tmp_path / "before", tmp_path / "after", 1e-3) == [
        "old.svg: no longer drawn",
        "picture.svg: new",
    ]


def test_a_part_of_every_kind_is_among_the_fixed_ones() -> None:
    assert {type(part) for part in fixed_parts().values()} == set(get_args(Part))
