"""Captions of the most similar training pictures."""

from typing import NamedTuple

import numpy as np
import pytest

from clew.baselines import nearest_pictures
from clew.baselines.nearest_pictures import NearestPictures, most_alike, picture_baselines
from clew.data.examples import Captioned
from clew.data.pictures.picture_decoding import Mode
from clew.metrics.measures import Measured


class Drawn(NamedTuple):
    """A picture with given pixels."""

    key: str
    levels: tuple[int, ...]
    """Values of rows of four pixels."""

    def pixels(self, mode: Mode = "rgb") -> np.ndarray:
        rows = np.repeat(np.array(self.levels, np.uint8), 4)
        return np.broadcast_to(rows[:, None, None], (len(rows), 32, 3)).copy()


def striped(row: int, brightness: int = 200) -> Drawn:
    """A bright row on a dark ground."""
    return Drawn(f"row {row} {brightness}", tuple(brightness if number == row else 20 for number in range(8)))


TRAINED = [
    Captioned(striped(row), (text,), id=f"{row} {text}")
    for row, text in ((0, "at the top"), (0, "up there"), (7, "at the bottom"))
]


def test_the_caption_is_that_of_the_most_similar_picture() -> None:
    model = NearestPictures(TRAINED)
    assert model.first([striped(0, 90), striped(7, 255), striped(0, 200)]) == [
        "at the top",
        "at the bottom",
        "at the top",
    ]


def test_captions_of_one_picture_are_kept_together() -> None:
    assert NearestPictures(TRAINED).captions == [["at the top", "up there"], ["at the bottom"]]


def test_a_picture_of_one_colour_gets_some_caption() -> None:
    assert NearestPictures(TRAINED).first([Drawn("black", (0, 0, 0))]) == ["at the top"]


def test_the_consensus_is_the_text_most_similar_to_the_others() -> None:
    assert (
        most_alike(["a cat", "a dog runs on grass", "a brown dog runs on green grass", "dogs play"])
        == "a dog runs on grass"
    )
    assert most_alike(["one", "two"]) == "one"


def test_baselines_are_measured_on_their_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(examples: list[Captioned], written: list[str]) -> Measured:
        return Measured(
            {"exact": sum(text in example.captions for example, text in zip(examples, written, strict=True))}, "words"
        )

    measured = [(each.words, each.measure(TRAINED[1:])) for each in picture_baselines(lambda: TRAINED, measure)]
    assert [words for words, _ in measured] == [
        "the caption of the nearest training picture has",
        "the consensus of its 20 nearest has",
    ]
    assert measured[0][1].values == {"baseline_nearest_picture_exact": 1}
    monkeypatch.setattr(nearest_pictures, "MOST_PICTURES", 1)
    assert list(picture_baselines(lambda: TRAINED, measure)) == []
