import os
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.runs.folder.lock import LOCK, is_locked, locked
from tests.warm import CONTEXT


def hold_lock(folder: Path, pipe) -> None:
    with locked(folder):
        pipe.send("held")
        pipe.recv()


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the lock."""
    connection, child_connection = CONTEXT.Pipe()
    process = CONTEXT.Process(target=hold_lock, args=(tmp_path, child_connection))
    process.start()
    assert connection.recv() == "held"
    yield process
    if process.is_alive():
        connection.send("leave")
    process.join()
    connection.close()
    child_connection.close()


def test_a_second_writer_is_rejected_with_the_process_of_the_first(tmp_path: Path, holder) -> None:
    assert is_locked(tmp_path)
    with (
        pytest.raises(
            UserError, match=f"{tmp_path} is being written by process {holder.pid} on .*; wait for it or stop it"
        ),
        locked(tmp_path),
    ):
        pass
    assert is_locked(tmp_path)


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path, holder) -> None:
    holder.kill()
    holder.join()
    assert (tmp_path / LOCK).exists() and not is_locked(tmp_path)
    with locked(tmp_path):
        assert f'"pid": {os.getpid()}' in (tmp_path / LOCK).read_text()


def test_a_lock_is_removed_when_the_run_ends(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        assert is_locked(tmp_path)
        raise ZeroDivisionError
    assert not is_locked(tmp_path)
    assert not (tmp_path / LOCK).exists()


def test_a_lock_file_that_cannot_be_removed_blocks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with locked(tmp_path):
            assert is_locked(tmp_path)
    assert (tmp_path / LOCK).exists()
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
