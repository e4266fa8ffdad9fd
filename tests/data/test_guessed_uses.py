"""How `clew data` interprets scores, classes, vectors and delimiters."""

from pathlib import Path

import numpy as np
import pytest

from clew.data.descriptions import describe
from clew.data.files.given_files import given_file
from clew.data.uses import guess_use, lone_label
from clew.data.vectors import width_of_vectors
from tests.data.written import write


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ([f"{number / 5:.3f}" for number in range(26)], {"task.labels": "number"}),
        (["0", "1.5", "2.25", "5"], {"task.labels": "number"}),
        (["1", "2", "3", "4", "5"], {}),
        (["1.0", "2.0", "3.0"], {}),
    ],
)
def test_scores_with_fractions_are_numbers_and_whole_ones_are_classes(
    values: list[str], settings: dict[str, str], tmp_path: Path
) -> None:
    rows = "".join(f"a first text {n}\ta second text {n}\t{values[n % len(values)]}\n" for n in range(100))
    use = guess_use(describe(write(tmp_path / "a.tsv", "sentence1\tsentence2\tscore\n" + rows)))
    assert use is not None and use.recipe == "classify"
    assert use.settings == {"data.text": "sentence1", "data.second": "sentence2", "data.label": "score", **settings}


def test_files_of_vectors_are_detected_and_texts_are_not(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(30, 20)).astype("<f4")
    lines = "".join(f"w{n} {' '.join(f'{value:.4f}' for value in row)}\n" for n, row in enumerate(values))
    binary = b"30 20\n" + b"".join(b"w%d " % n + row.tobytes() for n, row in enumerate(values))
    assert width_of_vectors(write(tmp_path / "glove.txt", lines)) == 20
    assert width_of_vectors(write(tmp_path / "a.vec", f"30 20\n{lines}")) == 20
    assert width_of_vectors(write(tmp_path / "a.bin", binary)) == 20
    for text in ("It is a text.\nIn lines.\n", "1 2\n3 4\n", "12 eggs\n13 eggs\n", f"30 21\n{lines}"):
        assert width_of_vectors(write(tmp_path / "a.txt", text)) is None


def test_scores_that_rarely_repeat_are_numbers(tmp_path: Path) -> None:
    rows = "".join(f"a first text {n},a second text {n},{n * 37 % 50 / 10}\n" for n in range(60))
    use = guess_use(describe(write(tmp_path / "sts.csv", "sentence1,sentence2,score\n" + rows)))
    assert use is not None and use.settings["task.labels"] == "number" and use.settings["data.label"] == "score"


def test_two_texts_and_a_score_are_found_without_a_header(tmp_path: Path) -> None:
    rows = "".join(f"main\tfile\t{n:04}\t{n * 37 % 50 / 10}\tA man {n} plays.\tA man {n} does.\n" for n in range(60))
    use = guess_use(describe(write(tmp_path / "sts.tsv", rows)))
    assert use is not None and use.recipe == "classify"
    assert use.settings == {"data.text": "5", "data.second": "6", "data.label": "4", "task.labels": "number"}


@pytest.mark.parametrize(("mark", "name"), [(",", "comma"), (";", "semicolon"), ("|", "bar"), ("~", "'~'")])
def test_a_table_is_described_by_its_delimiter(mark: str, name: str, tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", f"text{mark}label\n" + "".join(f"some text {n}{mark}l{n % 2}\n" for n in range(20))
    )
    text = str(describe(given_file(path, delimiter="~" if mark == "~" else None)))
    assert f"a.csv: {name}-separated values, 20 records" in text


def test_a_label_with_one_class_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,label\n" + "".join(f"some text {n},only\n" for n in range(20)))
    assert guess_use(describe(path)) is None
    assert lone_label(describe(path)) == ("label", "only")
