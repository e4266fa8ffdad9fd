"""Foreign files are opened in one place, which never waits and never reads more than allowed."""

import os
import socket
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.core.files import (
    cache_folder,
    check_regular,
    file_hash,
    open_file,
    read_bytes,
    read_json,
    read_text,
    removed_with,
)

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.json")
    return tmp_path / "pipe.json"


@pytest.mark.parametrize("read", [open_file, read_bytes, read_text, read_json, file_hash, check_regular])
def test_a_pipe_instead_of_a_file_is_rejected_without_waiting(read, pipe: Path) -> None:
    with pytest.raises(
        UserError, match="pipe.json is a pipe, and must be a regular file; put the file itself in its place"
    ):
        read(pipe)


def test_devices_and_links_to_them_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "zeros"):
        with pytest.raises(UserError, match="is a device, and must be a regular file"):
            read_bytes(path)


def test_a_socket_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.json")
        with pytest.raises(UserError, match="socket.json is a socket, and must be a regular file"):
            read_json(Path("socket.json"))


def test_a_file_too_large_for_its_kind_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(
        UserError,
        match=r"config.json has 1,099,511,627,776 bytes, and a file of its kind has 67,108,864 at most"
        "; it is damaged or the wrong file",
    ):
        read_json(tmp_path / "config.json")


def test_regular_files_and_links_to_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'{"a":\r\n "\xc3\xa4"}')
    (tmp_path / "b").symlink_to("a")
    assert read_json(tmp_path / "b") == {"a": "ä"}
    assert read_text(tmp_path / "b") == '{"a":\n "ä"}'
    assert file_hash(tmp_path / "a") == file_hash(tmp_path / "b")


def test_missing_files_and_folders_raise_the_systems_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        open_file(tmp_path)


def modes(folder: Path) -> set[int]:
    return {path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]}


def test_cached_texts_are_private_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded text and documents, their lengths, and lists of examples, with any default permissions of new files."""
    from clew.data.caching.encoded import encode_corpus
    from clew.data.caching.encoded_documents import encode_documents
    from clew.data.documents import documents_at
    from clew.data.files import measures
    from clew.data.files.text_files import find_text
    from clew.data.notes import Notes
    from clew.runs.in_memory import keep
    from clew.text.train import train_character

    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "above" / "cache"))
    monkeypatch.setattr(measures, "LARGE", 0)
    text = "a line of a private text\n\n" * 50
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    os.utime(tmp_path / "text.txt", (1, 1))  # old enough that its length is cached
    before = os.umask(0)
    try:
        encode_corpus(find_text(tmp_path / "text.txt"), train_character(text), cache_folder())
        encode_documents(documents_at(tmp_path / "text.txt", Notes()), train_character(text), cache_folder())
        keep([{"text": "private"}])
    finally:
        os.umask(before)
    names = {path.name for path in (tmp_path / "above" / "cache").iterdir()}
    assert {"measures", "examples"} < names and len(names) > 4
    assert modes(tmp_path / "above") == {0o700, 0o600}


def test_an_existing_cache_is_made_private_and_nothing_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "cache" / ("0a" * 16)
    old.mkdir(parents=True)
    (old / "000000.tokens").write_bytes(b"ids")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "cache" / "measures").symlink_to(tmp_path / "theirs")
    for path in (tmp_path / "cache", old, tmp_path / "theirs"):
        path.chmod(0o755)
    (old / "000000.tokens").chmod(0o644)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    assert {
        path: path.stat().st_mode & 0o777
        for path in (tmp_path / "cache", old, old / "000000.tokens", tmp_path / "theirs")
    } == {
        tmp_path / "cache": 0o700,
        old: 0o700,
        old / "000000.tokens": 0o600,
        tmp_path / "theirs": 0o755,
    }


def test_a_folder_with_other_entries_keeps_its_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project").chmod(0o755)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "project"))
    (tmp_path / "project" / "notes.txt").write_text("theirs")
    cache_folder()
    assert modes(tmp_path / "project") & {0o755}


def test_an_empty_variable_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "clew"


class Owner:
    pass


def test_a_folder_is_removed_with_its_owner_but_not_by_a_forked_process(tmp_path: Path) -> None:
    folder, owner = tmp_path / "temporary", Owner()
    folder.mkdir()
    finalizer = removed_with(owner, folder)
    if (child := os.fork()) == 0:
        finalizer()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.is_dir()
    del owner
    assert not folder.exists()


def test_a_shared_folder_stays_open_but_clews_files_in_it_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared" / "examples").mkdir(parents=True)
    (tmp_path / "shared" / "notes.txt").write_text("theirs")
    (tmp_path / "shared" / "notes.txt").chmod(0o644)
    (tmp_path / "shared").chmod(0o1777)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "shared"))
    cache_folder()
    modes_found = {name: (tmp_path / "shared" / name).stat().st_mode & 0o7777 for name in ("", "examples", "notes.txt")}
    assert modes_found == {"": 0o1777, "examples": 0o700, "notes.txt": 0o644}
