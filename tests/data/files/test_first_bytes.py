"""Files that are not text are recognised by their bytes, with a command that converts them."""

import csv
import pickle
import shlex
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.data.files.first_bytes import FOREIGN, detect_kind
from clew.data.lines import read_lines
from tests.data.written import refusal, write


def run_command(sentence: str) -> None:
    """Run the command after `convert it: ` with this Python."""
    python, *words = shlex.split(sentence.partition("convert it: ")[2])
    assert python == "python"
    subprocess.run([sys.executable, *words], check=True)


def as_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as data:
        data.execute('create table "my texts" (text, label)')
        data.executemany('insert into "my texts" values (?, ?)', [("a, film", "good"), ("ä\nbook", "bad")])
    data.close()


def as_docx(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", "<w:p><w:r><w:t>One &amp; two</w:t></w:r></w:p><w:p><w:t>ä</w:t></w:p>")


def as_tar(path: Path) -> None:
    inside = write(path.parent / "inside.txt", "one\n")
    with tarfile.open(path, "w") as archive:
        archive.add(inside, "inside.txt")


@pytest.mark.parametrize(
    ("make", "about", "out", "lines"),
    [
        (as_sqlite, "an SQLite database", "my data.csv", ["text,label", '"a, film",good', '"ä', 'book",bad']),
        (as_docx, "a Word document", "my data.txt", ["One & two", "ä"]),
        (lambda path: np.save(path, np.array([[1, 2], [3, 4]])), "a NumPy array", "my data.csv", ["1,2", "3,4"]),
        (lambda path: np.savez(path, a=np.array([[1, 2]])), "an archive of NumPy arrays", "my data.csv", ["1,2"]),
        (as_tar, "a tar archive", "my data/inside.txt", ["one"]),
    ],
)
def test_the_suggested_conversion_command_works(
    make: Callable[[Path], None],
    about: str,
    out: str,
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    suffix = {"an archive of NumPy arrays": ".npz", "a NumPy array": ".npy"}.get(about, ".bin")
    path = tmp_path / f"my data{suffix}"
    make(path)
    sentence = refusal(lambda: read_lines(path))
    assert sentence.startswith(f"{path}: this is {about}, not text; ")
    run_command(sentence)
    assert list(read_lines(tmp_path / out)) == lines


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_named_and_never_opened(protocol: int, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
            return exec, (f"open({str(tmp_path / 'sprung')!r}, 'w')",)

    path = write(tmp_path / "a.csv", pickle.dumps({"text": Trap()}, protocol=protocol))
    assert (
        refusal(lambda: read_lines(path))
        == f"{path}: this is a pickle, not text; a pickle can run any program, so convert it only if you trust its"
        " author; convert it: python -c 'import sys, pandas;"
        f" pandas.DataFrame(pandas.read_pickle(sys.argv[1])).to_csv(sys.argv[2], index=False)' {path}"
        f" {tmp_path / 'a-converted.csv'}"
    )
    assert not (tmp_path / "sprung").exists()


BYTES = {
    "pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "hdf5": b"\x89HDF\r\n\x1a\n\0\0",
    "ole": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0",
    "rtf": b"{\\rtf1\\ansi text}",
    "7z": b"7z\xbc\xaf\x27\x1c\0\x04",
    "rar": b"Rar!\x1a\x07\x01\0",
    "lz4": b"\x04\x22\x4d\x18\x64\x40\xa7",
    "compress": b"\x1f\x9d\x90abc",
    "picture": b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "sound": b"RIFF\x24\0\0\0WAVEfmt ",
    "video": b"\0\0\0\x20ftypisom\0\0",
    "program": b"\x7fELF\x02\x01\x01\0",
    "safetensors": (60).to_bytes(8, "little") + b'{"w":{"dtype":"F32"',
    "stata": b"<stata_dta><header>",
    "spss": b"$FL2@(#) SPSS\0",
    "r": b"RDX3\nX\n\0\0\0\x03",
    "orc": b"ORC\x08\x03\x10\0",
}


@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a"])
def test_binary_files_are_recognised_whatever_their_name(kind: str, name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, BYTES[kind])
    with pytest.raises(UserError) as caught:
        list(read_lines(path))
    assert str(caught.value).startswith(f"{path}: this is {FOREIGN[kind].about}, not text; ")
    assert str(caught.value).endswith(FOREIGN[kind].remedy(path))


@pytest.mark.parametrize(
    "text",
    [
        "PAR1 is a place",
        "ORC raids",
        "MZ and others",
        "BZh is no word",
        "GIF89a they say",
        "Rar! he said",
        "ID3 tags",
        "MM",
        "a",
    ],
)
def test_a_text_that_begins_like_a_format_is_text(text: str, tmp_path: Path) -> None:
    assert detect_kind(text.encode()) is None
    assert list(read_lines(write(tmp_path / "a.txt", text))) == [text]


def test_every_foreign_kind_has_a_remedy(tmp_path: Path) -> None:
    for foreign in FOREIGN.values():
        assert foreign.remedy(tmp_path / "a.b").strip()


def test_a_converted_database_is_read_as_a_table(tmp_path: Path) -> None:
    as_sqlite(tmp_path / "a.db")
    run_command(refusal(lambda: read_lines(tmp_path / "a.db")))
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file))[1:] == [["a, film", "good"], ["ä\nbook", "bad"]]
