"""Windows of a stream, encoded in advance in the background."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.data.streams.encoding_ahead import FOLDER, EncodingAhead
from clew.data.streams.text_streams import Window
from clew.text.train import train_bpe, train_character

TEXTS = [[f"document {window} {number}" for number in range(20)] for window in range(5)]


def windows() -> Iterator[Window]:
    return (Window(number, number, 0, [*texts], (number + 1, 0)) for number, texts in enumerate(TEXTS))


def encoded(cache: Path, workers: int) -> list[tuple[int, list[int], list[int]]]:
    tokenizer = train_bpe("document 0 1 2")
    with closing(EncodingAhead(windows(), tokenizer, cache, workers)) as ahead:
        return [
            (window.number, np.asarray(text.tokens).tolist(), text.tokens.boundaries.tolist()) for window, text in ahead
        ]


def test_a_window_has_the_ids_of_its_documents_each_with_an_end_token(tmp_path: Path) -> None:
    tokenizer = train_bpe("document 0 1 2")
    for number, ids, boundaries in encoded(tmp_path, 1):
        documents = [[*tokenizer.encode(text + "\n"), tokenizer.end] for text in TEXTS[number]]
        assert ids == sum(documents, [])
        assert boundaries == (np.cumsum([len(document) for document in documents]) - 1).tolist()
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_parts_join_to_the_whole_window(tmp_path: Path) -> None:
    tokenizer = train_bpe("document 0 1 2")
    whole = encoded(tmp_path, 1)
    parts = []
    for part in range(30):  # more parts than documents
        with closing(EncodingAhead(windows(), tokenizer, tmp_path, 1, part, 30)) as ahead:
            parts.append([np.asarray(text.tokens).tolist() for _, text in ahead])
    assert [sum(same, []) for same in zip(*parts, strict=True)] == [ids for _, ids, _ in whole]


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same_windows(tmp_path: Path) -> None:
    assert encoded(tmp_path, 3) == encoded(tmp_path, 1)
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_stopping_early_leaves_no_thread_and_no_file(tmp_path: Path) -> None:
    threads = threading.active_count()
    with closing(EncodingAhead(windows(), train_character("document 0123456789"), tmp_path, 1)) as ahead:
        next(iter(ahead))
    assert threading.active_count() == threads
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_connection_error_is_not_reported_as_a_cache_error(tmp_path: Path) -> None:
    def unreachable() -> Iterator[Window]:
        yield from list(windows())[:1]
        raise ConnectionError("the server closed the connection")

    ahead = EncodingAhead(unreachable(), train_character("document 0123456789"), tmp_path, 1)
    with closing(ahead), pytest.raises(ConnectionError, match="the server closed the connection"):
        list(ahead)


def test_an_error_in_the_stream_is_raised_where_the_window_is_used(tmp_path: Path) -> None:
    def broken() -> Iterator[Window]:
        yield from list(windows())[:2]
        raise UserError("the third shard is broken")

    with closing(EncodingAhead(broken(), train_character("document 0123456789"), tmp_path, 1)) as ahead:
        numbers = []
        with pytest.raises(UserError, match="the third shard is broken"):
            for window, _ in ahead:
                numbers.append(window.number)
    assert numbers == [0, 1]


def test_an_unwritable_cache_is_reported_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with (
        closing(EncodingAhead(windows(), train_character("document"), tmp_path / "file", 1)) as ahead,
        pytest.raises(
            UserError,
            match="windows cannot be stored in .*file: .*; free some space, make the folder writable, or set the",
        ),
    ):
        next(iter(ahead))


@pytest.mark.skipif(os.name == "nt", reason="processes are not looked for there")
def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    host = socket.gethostname()
    dead, remote, alive = (f"{2**22 + 1}@{host}@x", "1@elsewhere@x", f"{os.getpid()}@{host}@x")
    for name in (dead, remote, alive):
        (tmp_path / FOLDER / name).mkdir(parents=True)
    encoded(tmp_path, 1)
    assert {path.name for path in (tmp_path / FOLDER).iterdir()} == {remote, alive}
