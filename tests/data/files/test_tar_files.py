"""Members of an archive are found by name and read one at a time; files that are not archives are rejected."""

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from clew.data.files.tar_files import find_member, read_member
from clew.data.pictures.picture_files import picture_size, read_picture
from clew.data.pictures.references import PictureRef, check_folder, find_picture
from tests.data.pictures.written_pictures import encoded, pixels, write_picture
from tests.data.written import refusal, write


def archive(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w") as tar:
        folder = tarfile.TarInfo("./folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return path


def test_members_are_found_by_their_full_name_or_its_last_part(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "a.tar", **{".__a.txt": b"one", "x__b.txt": b"two", "y__b.txt": b"three", "y__c.txt": b"four"}
    )
    assert [
        find_member(path, name) for name in ("a.txt", "./a.txt", "b.txt", "x/b.txt", "c.txt", "link.png", "d.txt")
    ] == [*("a.txt", "a.txt", None, "x/b.txt", "y/c.txt", None, None)]
    assert [read_member(path, name) for name in ("a.txt", "y/b.txt")] == [b"one", b"three"]
    assert refusal(lambda: read_member(path, "link.png")).startswith(
        f"{path}: no file 'link.png' in this archive; there are 4"
    )


def test_a_picture_in_an_archive_is_read_like_its_file(tmp_path: Path) -> None:
    array = pixels(5, 9)
    path = archive(tmp_path / "photographs.tar", **{".__a.png": encoded(array, "PNG"), "b.png": b"text"})
    alone = find_picture(str(write_picture(tmp_path / "a.png", array)), Path())
    for folder, name in ((path, "a.png"), (tmp_path, "photographs.tar/a.png"), (Path(), str(path / "a.png"))):
        picture = find_picture(name, folder)
        assert picture == PictureRef(str(path), "a.png") and alone is not None
        assert np.array_equal(picture.pixels(), array) and torch.equal(read_picture(picture), read_picture(alone))
        assert picture_size(picture) == picture_size(alone) == (5, 9)
    broken = find_picture("b.png", path)
    assert broken is not None and refusal(broken.pixels).startswith(
        f"{path}/b.png: this is not a picture in a known format"
    )


@pytest.mark.parametrize(
    "name", ["c.png", "", "a\0.png", "x" * 5000, "~nobody-here/a.png", "a.png/b.png", "none.tar/a.png", "pipe"]
)
def test_names_of_missing_or_invalid_files_are_not_found(name: str, tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png", pixels(2, 2))
    os.mkfifo(tmp_path / "pipe")
    assert find_picture(name, tmp_path) is None
    assert find_picture(name, archive(tmp_path / "photographs.tar", a=b"")) is None


def test_files_that_are_not_archives_are_rejected(tmp_path: Path) -> None:
    for content in (b"", b"Hello" * 1000, b"\x1f\x8b" + bytes(600)):
        path = write(tmp_path / "b.tar", content)
        sentence = refusal(lambda path=path: find_member(path, "z"))  # type: ignore[misc]
        assert sentence.startswith(f"{path}: not a readable tar archive (")
        assert sentence.endswith("); copy it again, or decompress a .tar.gz to a .tar first")
    cut = write(tmp_path / "c.tar", archive(tmp_path / "a.tar", a=bytes(5000)).read_bytes()[:3000])
    assert refusal(lambda: read_member(cut, "a")).startswith(f"{cut}: ")
    assert (
        refusal(lambda: check_folder(tmp_path / "d.tar"))
        == f"data.pictures={tmp_path / 'd.tar'}: there is no such folder or .tar archive; give the path"
        " of the pictures"
    )


def test_too_large_members_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.data.files.tar_files.LARGEST_WHOLE", 1000)
    path = archive(tmp_path / "a.tar", a=bytes(2000))
    assert refusal(lambda: read_member(path, "a")) == (
        f"{path}/a has 2,000 bytes, and at most 1,000 are read; check that the archive is whole and the right one"
    )


def test_a_changed_archive_is_indexed_again(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", a=b"one")
    assert find_member(path, "b") is None
    archive(path, a=b"one", b=b"two")
    assert find_member(path, "b") == "b" and read_member(path, "b") == b"two"
