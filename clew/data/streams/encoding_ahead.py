"""Encodes the windows of a stream ahead of time: while a model trains on one window, a thread reads and encodes the
next, or has worker processes encode several.

The result does not depend on the number of processes: each window is a shard, as in the cache of encoded texts, and
shards come in order. A shard's file is deleted as soon as it is mapped, so that only a few windows are on disk at a
time and a killed run leaves almost nothing behind.

The data loader's workers cannot do the encoding: they take positions in turn, while a stream has a single order.
"""

import atexit
import os
import shutil
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from tempfile import mkdtemp
from threading import Event, Thread
from typing import NamedTuple

from clew.core.batches import slice_of_part
from clew.core.errors import UserError
from clew.core.files import private_folder
from clew.data.caching.encoded import TokenFile
from clew.data.caching.encoding import Entry, dtype_of
from clew.data.caching.shards import Shard, Shards
from clew.data.caching.stores import is_running
from clew.data.encoding_processes import Job, encode_shards
from clew.data.files.text_files import Piece, close_document
from clew.data.streams.text_streams import Window
from clew.text.tokenizer import Tokenizer

FOLDER = "streams"
"""The folder in the cache with a folder for each process that trains on a stream."""
PATIENCE = 0.1
"""Seconds between two checks of whether to stop."""


class EncodedWindow(NamedTuple):
    window: Window  # without its documents
    text: TokenFile


class Unreadable(Exception):
    """The source could not be read; the cause says why."""


class Stopped(Exception):
    """The windows are no longer needed."""


class EncodingAhead:
    """An iterator of encoded windows; it can be iterated once.

    `close`, or the end of the program, stops the thread and its worker processes. With `parts` above 1, only share
    number `part` of every window's documents is encoded, in order.
    """

    def __init__(
        self, windows: Iterator[Window], tokenizer: Tokenizer, cache: Path, workers: int, part: int = 0, parts: int = 1
    ):
        self.windows, self.tokenizer, self.cache, self.workers = windows, tokenizer, cache, workers
        self.part, self.parts = part, parts
        self.stop = Event()
        self.ready: Queue[EncodedWindow | BaseException | None] = Queue(1)
        self.thread = Thread(target=self.encode_windows, name="clew-stream", daemon=True)
        self.thread.start()
        atexit.register(self.close)

    def __iter__(self) -> Iterator[EncodedWindow]:
        while (item := self.ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def close(self) -> None:
        atexit.unregister(self.close)
        self.stop.set()
        with suppress(Empty):
            self.ready.get_nowait()
        self.thread.join()

    def encode_windows(self) -> None:
        """Encode all windows; the thread's target."""
        folder = None
        try:
            folder = own_folder(self.cache)
            pending: deque[Window] = deque()
            for entry in encode_shards(self.jobs(folder, pending), self.tokenizer, self.workers, self.check_stop):
                self.put(EncodedWindow(pending.popleft(), mapped(folder, entry, self.tokenizer)))
            self.put(None)
        except Stopped:
            pass
        except Unreadable as error:
            assert error.__cause__ is not None
            self.put_last(error.__cause__)
        except OSError as error:
            message = (
                f"a stream's encoded windows cannot be stored in {self.cache}: {error.strerror or error}; free some"
                " space, make the folder writable, or set the environment variable CLEW_CACHE to another folder"
            )
            self.put_last(UserError(message))
        except BaseException as error:  # raised in the thread that iterates
            self.put_last(error)
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def jobs(self, folder: Path, pending: deque[Window]) -> Iterator[Job]:
        for window in self.read():
            self.check_stop(0)
            own = slice_of_part(len(window.documents), self.part, self.parts)
            pieces = [close_document(Piece(document)) for document in window.documents[own]]
            window.documents = []
            pending.append(window)
            yield Job(folder / f"{window.number:06}.tokens", pieces, begins=True)

    def read(self) -> Iterator[Window]:
        try:
            yield from self.windows
        except OSError as error:  # from the source, not from the cache
            raise Unreadable from error

    def check_stop(self, num_characters: int) -> None:
        if self.stop.is_set():
            raise Stopped

    def put(self, item: EncodedWindow | BaseException | None) -> None:
        while True:
            self.check_stop(0)
            with suppress(Full):
                return self.ready.put(item, timeout=PATIENCE)

    def put_last(self, error: BaseException) -> None:
        with suppress(Stopped):
            self.put(error)


def mapped(folder: Path, entry: Entry, tokenizer: Tokenizer) -> TokenFile:
    """Map a shard and delete its file immediately, except on Windows, which keeps mapped files."""
    path = folder / entry["file"]
    tokens = Shards(
        [Shard(path, entry["num_tokens"], entry["num_begins"])], dtype_of(tokenizer).name, tokenizer.end is not None
    )
    if entry["num_tokens"]:
        tokens.map(0)
        if os.name != "nt":
            path.unlink()
    characters = entry["num_characters"]
    return TokenFile(
        tokens,
        characters,
        characters - entry["before_targets"],
        entry["num_unknown"],
        characters - entry["first_tokens"],
    )


def own_folder(cache: Path) -> Path:
    """Create a folder for this process's shards, and remove those of killed processes on this host."""
    parent = private_folder(cache / FOLDER)
    host = socket.gethostname()
    for old in parent.glob(f"*@{host}@*"):
        if not is_running(old.name.partition("@")[0]):
            shutil.rmtree(old, ignore_errors=True)
    return Path(mkdtemp(prefix=f"{os.getpid()}@{host}@", dir=parent))
