from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.data.files.npy_files import RowWriter, open_rows, row_blocks


def test_written_rows_are_read_back_in_any_number(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(1234, 3)).astype("f4")
    path = tmp_path / "x.npy"
    with RowWriter(path, 3) as file:
        for start in range(0, len(rows), 7):
            file.write(rows[start : start + 7])
    np.testing.assert_array_equal(np.load(path), rows)
    np.testing.assert_array_equal(np.concatenate(list(row_blocks(open_rows(path)))), rows)
    with RowWriter(tmp_path / "none.npy", 5):
        pass
    assert open_rows(tmp_path / "none.npy").shape == (0, 5)


def test_a_failed_writer_keeps_the_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((1, 2), dtype="f4"))
    with pytest.raises(KeyboardInterrupt), RowWriter(path, 2) as file:
        file.write(np.zeros((3, 2)))
        raise KeyboardInterrupt
    assert np.load(path).shape == (1, 2) and [each.name for each in tmp_path.iterdir()] == ["x.npy"]


def test_files_without_rows_of_numbers_are_rejected(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "several.npz", a=np.ones(2), b=np.ones(3))
    np.save(tmp_path / "flat.npy", np.ones(4))
    np.save(tmp_path / "whole.npy", np.ones((3, 3)))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:-8])
    sentences = {
        "objects.npy": "not a complete .npy file of numbers",
        "cut.npy": "not a complete .npy file of numbers",
        "several.npz": "the file has several arrays; give a .npy file, which has one",
        "flat.npy": r"expected one vector per row, found an array of float64 \(4,\)",
    }
    for name, sentence in sentences.items():
        with pytest.raises(UserError, match=sentence):
            open_rows(tmp_path / name)
