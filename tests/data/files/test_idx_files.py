"""Arrays in MNIST's format, and Fashion-MNIST as a corpus of them."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from clew.data import corpora
from clew.data.corpora import read_corpus
from clew.data.corpora.picture_contents import IdxPictures
from clew.data.files.idx_files import idx_pictures, read_idx
from clew.data.notes import Notes
from tests.data.written import refusal, write


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


PICTURES = np.random.default_rng(0).integers(0, 256, (24, 3, 4), dtype=np.uint8)
LABELS = np.arange(24, dtype=np.uint8) % 10


def test_an_array_is_read_zipped_or_not(tmp_path: Path) -> None:
    for array in (PICTURES, LABELS):
        assert np.array_equal(read_idx(write(tmp_path / "a-ubyte", idx(array))), array)
        assert np.array_equal(read_idx(write(tmp_path / "a-ubyte.gz", gzip.compress(idx(array)))), array)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not an IDX file, which begins with two zero bytes, a type and a number of axes; give another file"),
        (b"Hello, world", "not an IDX file, which begins with two zero bytes"),
        (
            b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0",
            "its values have the type 0x0d, and only bytes (0x08) are read; give another file",
        ),
        (b"\0\0\x08\x03\0\0\0\x01", "the file ends within its header; copy it again"),
        (idx(PICTURES)[:-1], "the header says 24 x 3 x 4 bytes, but the file has 287; copy it again"),
        (idx(PICTURES) + b"\0", "the header says 24 x 3 x 4 bytes, but the file has more; copy it again"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "an array of 4294967295 x 4294967295 x 4294967295 bytes would need"),
    ],
    ids=["empty", "text", "floats", "header", "cut", "longer", "huge"],
)
def test_invalid_idx_files_are_rejected(content: bytes, sentence: str, tmp_path: Path) -> None:
    for path in (write(tmp_path / "a-ubyte", content), write(tmp_path / "a-ubyte.gz", gzip.compress(content))):
        assert refusal(lambda path=path: read_idx(path)).startswith(f"{path}: {sentence}")  # type: ignore[misc]
    assert "cannot be unpacked" in refusal(
        lambda: read_idx(write(tmp_path / "b.gz", gzip.compress(idx(PICTURES))[:-9]))
    )


@pytest.mark.parametrize("packaged", [False, True])
def test_fashion_mnist_is_found_in_the_data_folder_and_in_debians_folder(
    packaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "fashion-mnist"
    for part, stop in (("train", 24), ("t10k", 10)):
        write(folder / f"{part}-images-idx3-ubyte.gz", gzip.compress(idx(PICTURES[:stop])))
        write(folder / f"{part}-labels-idx1-ubyte", idx(LABELS[:stop]))
    monkeypatch.setattr(corpora, "DEBIAN", str(tmp_path if packaged else tmp_path / "none"))
    monkeypatch.setenv("CLEW_DATA", str(tmp_path / "none" if packaged else tmp_path))
    parts = read_corpus("fashion-mnist")
    assert {part: len(examples) for part, examples in parts.items()} == {"train": 22, "valid": 2, "test": 10}
    first = parts["test"][9]
    assert first.labels == ("ankle boot",) and np.array_equal(first.input.pixels("grey")[..., 0], PICTURES[9])
    assert first.input.pixels().shape == (3, 4, 3) and first.id == f"{folder / 't10k-images-idx3-ubyte.gz'}: picture 10"


def test_labels_that_do_not_match_the_pictures_are_rejected(tmp_path: Path) -> None:
    images, labels = write(tmp_path / "images", idx(PICTURES)), write(tmp_path / "labels", idx(LABELS[:5]))
    content = IdxPictures(tuple("abcdefgh"))
    assert refusal(lambda: content.read((images, labels), {}, Notes())) == (
        f"{labels}: expected a label for each of the 24 pictures in {images}, found 5"
    )
    whole, notes = write(tmp_path / "whole", idx(LABELS)), Notes(faults="skip")
    assert len(list(content.read((images, whole), {}, notes))) == 20
    assert notes.sentences[0] == f"{images}: picture 9: its class is number 8, but there are 8 classes, counted from 0"
    assert (
        refusal(lambda: idx_pictures(whole))
        == f"{whole}: expected pictures (pictures, height, width), found 24 bytes; give another file"
    )
