"""What `clew data` makes of scores, classes, vectors and delimiters."""

from pathlib import Path

import numpy as np
import pytest

from clew.data.descriptions import describe
from clew.data.uses import find_use
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
def test_scores_with_fractions_are_numbers_and_others_are_classes(values: list[str], settings: dict[str, str], tmp_path: Path) -> None:
    rows = "".join(f"a first text {n}\ta second text {n}\t{values[n % len(values)]}\n" for n in range(100))
    use = find_use(describe(write(tmp_path / "a.tsv", "sentence1\tsentence2\tscore\n" + rows)))
    assert use is not None and use.recipe == "classify"
    assert use.settings == {"data.text": "sentence1", "data.second": "sentence2", "data.label": "score", **settings}


def test_files_of_vectors_are_told_and_texts_are_not(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(30, 20)).astype("<f4")
    lines = "".join(f"w{n} {' '.join(f'{value:.4f}' for value in row)}\n" for n, row in enumerate(values))
    binary = b"30 20\n" + b"".join(b"w%d " % n + row.tobytes() for n, row in enumerate(values))
    assert width_of_vectors(write(tmp_path / "glove.txt", lines)) == 20
    assert width_of_vectors(write(tmp_path / "a.vec", f"30 20\n{lines}")) == 20
    assert width_of_vectors(write(tmp_path / "a.bin", binary)) == 20
    for text in ("It is a text.\nIn lines.\n", "1 2\n3 4\n", "12 eggs\n13 eggs\n", f"30 21\n{lines}"):
        assert width_of_vectors(write(tmp_path / "a.txt", text)) is None
