"""Compressed files: detected by their bytes, read like the file inside, and limited in size."""

import bz2
import gzip
import io
import lzma
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.data.documents import documents_at
from clew.data.files import unpacking
from clew.data.files.text_files import find_text
from clew.data.formats import detect_format
from clew.data.lines import read_lines
from clew.data.notes import Notes
from clew.data.readers import read_labelled, read_pairs
from tests.data.written import refusal, write

TABLE = "text,label\nä film,good\na book,bad\n"


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


PACKED = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zip": lambda content: zipped({"inside/a.csv": content, "__MACOSX/._a.csv": b"x", "inside/": b""}),
}


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("name", ["a.csv{}", "a.csv", "a.txt", "a"])
def test_a_packed_file_is_read_like_the_file_whatever_its_name(suffix: str, name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name.format(suffix), PACKED[suffix](TABLE.encode()))
    assert detect_format(path) == "csv"
    assert [(example.text, example.label) for example in read_labelled(path)] == [("ä film", "good"), ("a book", "bad")]


def test_zstd_is_read_if_a_package_supports_it(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.csv.zst"
    with pyarrow.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(TABLE.encode())
    assert [example.label for example in read_labelled(path)] == ["good", "bad"]


def test_without_a_zstd_package_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "ZSTD", {})
    path = write(tmp_path / "a.csv.zst", b"\x28\xb5\x2f\xfd\x04\x00")
    assert refusal(lambda: read_lines(path)) == (
        f"{path}: this is packed with zstd, which needs a package; run pip install 'clew[tables]', "
        f"or unpack it with zstd -d {path}"
    )


@pytest.mark.parametrize("suffix", PACKED)
def test_packed_files_in_folders_and_parallel_text_are_read(suffix: str, tmp_path: Path) -> None:
    write(tmp_path / "folder" / f"a.txt{suffix}", PACKED[suffix](b"one\ntwo\n"))
    assert "".join(find_text(tmp_path / "folder")) == "one\ntwo\n"
    assert list(documents_at(tmp_path / "folder", Notes())) == ["one", "two"]
    for language in ("en", "de"):
        write(tmp_path / f"train.{language}{suffix}", PACKED[suffix](f"{language} one\n{language} two\n".encode()))
    pairs = read_pairs(tmp_path / "train", source="en", target="de")
    assert [(pair.source, pair.target) for pair in pairs] == [("en one", "de one"), ("en two", "de two")]


def test_an_unpacked_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    for suffix in unpacking.SUFFIXES:
        assert list(read_lines(write(tmp_path / f"a.txt{suffix}", "plain\n"))) == ["plain"]


@pytest.mark.parametrize("suffix", PACKED)
def test_a_small_file_that_unpacks_to_a_large_one_is_rejected(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "SMALL", 2**18)
    path = write(tmp_path / f"bomb.txt{suffix}", PACKED[suffix](b"the same line again\n" * (2**20 // 20)))
    with pytest.raises(UserError, match="unpacks to more than 100 times its size, which no text does"):
        for _ in read_lines(path):
            pass


@pytest.mark.parametrize("suffix", PACKED)
def test_a_damaged_file_is_refused(suffix: str, tmp_path: Path) -> None:
    whole = PACKED[suffix](b"".join(b"%d line\n" % (number**3) for number in range(5000)))
    middle = len(whole) // 2
    for content in (
        whole[:middle],
        whole[:-4] + b"oops" if suffix != ".zip" else whole[:middle] + bytes(9) + whole[middle + 9 :],
    ):
        sentence = refusal(lambda content=content: read_lines(write(tmp_path / "a", content)))  # type: ignore[misc]
        assert sentence.startswith(f"{tmp_path / 'a'}: cannot be unpacked (")
        assert sentence.endswith("); it is damaged, so copy it again")


def test_an_archive_of_several_files_is_rejected_with_a_command_to_unpack_it(tmp_path: Path) -> None:
    path = write(tmp_path / "my data.zip", zipped({"train.csv": TABLE.encode(), "../test.csv": b"x"}))
    folder = tmp_path / "my data-files"
    command = f"python -m zipfile -e '{path}' '{folder}'"
    assert refusal(lambda: read_lines(path)) == (
        f"{path}: this zip archive has 2 files, and only one can be read: train.csv, ../test.csv; "
        f"unpack it with {command} and give one of the files"
    )
    subprocess.run([sys.executable, *shlex.split(command)[1:]], check=True)
    assert [example.label for example in read_labelled(folder / "train.csv")] == ["good", "bad"]


def test_empty_and_encrypted_archives_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", zipped({}))
    assert refusal(lambda: read_lines(path)) == f"{path}: this zip archive is empty; give one with a file in it"
    content = bytearray(zipped({"a.txt": b"text"}))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    locked = write(tmp_path / "b.zip", bytes(content))
    assert refusal(lambda: read_lines(locked)) == (
        f"{locked}: the file in this zip archive has a password; unpack it, and give that file"
    )


def test_reading_an_archive_writes_no_files(tmp_path: Path) -> None:
    path = write(tmp_path / "inner" / "a.zip", zipped({"../../escaped.txt": b"one\n"}))
    before = sorted(tmp_path.rglob("*"))
    assert list(read_lines(path)) == ["one"]
    assert sorted(tmp_path.rglob("*")) == before
