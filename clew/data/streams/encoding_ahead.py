"""Windows of a stream as ids, encoded ahead of time: a thread reads and encodes the next one, or has processes encode
several, while a model trains on the one before.

What is encoded does not depend on how many processes do it: each window is a shard, as of a text that is encoded as a
whole, and they come in their order. A shard's file is deleted as soon as it is mapped, so that the disk holds a few
windows at a time, and a run that is killed leaves next to nothing.

The loader's workers do not encode: they take positions in turn, and a stream has one order.
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

from clew.core.batches import part_of
from clew.core.errors import UserError
from clew.core.files import private_folder
from clew.data.caching.encoded import TokenFile
from clew.data.caching.encoding import Entry, dtype_of
from clew.data.caching.shards import Shard, Shards
from clew.data.caching.stores import is_running
from clew.data.encoding_processes import Job, encode_shards
from clew.data.files.text_files import Piece, closed
from clew.data.streams.text_streams import Window
from clew.text.tokenizer import Tokenizer

FOLDER = "streams"
"""In the cache: a folder for each process that trains on a stream."""
PATIENCE = 0.1
"""Seconds between two looks at whether to stop."""


class EncodedWindow(NamedTuple):
    window: Window  # without its documents
    text: TokenFile


class Unreadable(Exception):
    """The source could not be read, for the reason that is its cause."""


class Stopped(Exception):
    """Nobody wants the windows any more."""


class EncodingAhead:
    """The windows, encoded; iterated once. `close` ends the thread and its processes, and so does the end of the
    program. Of `parts`, one has its part of every window's documents, in their order."""

    def __init__(
        self, windows: Iterator[Window], tokenizer: Tokenizer, cache: Path, workers: int, part: int = 0, parts: int = 1
    ):
        self.windows, self.tokenizer, self.cache, self.workers = windows, tokenizer, cache, workers
        self.part, self.parts = part, parts
        self.stop = Event()
        self.ready: Queue[EncodedWindow | BaseException | None] = Queue(1)
        self.thread = Thread(target=self.fill, name="clew-stream", daemon=True)
        self.thread.start()
        atexit.register(self.close)

    def __iter__(self) -> Iterator[EncodedWindow]:
        while (found := self.ready.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found

    def close(self) -> None:
        atexit.unregister(self.close)
        self.stop.set()
        with suppress(Empty):
            self.ready.get_nowait()
        self.thread.join()

    def fill(self) -> None:
        """What the thread does."""
        folder = None
        try:
            folder = own_folder(self.cache)
            encoding: deque[Window] = deque()
            for entry in encode_shards(self.jobs(folder, encoding), self.tokenizer, self.workers, self.go_on):
                self.put(EncodedWindow(encoding.popleft(), mapped(folder, entry, self.tokenizer)))
            self.put(None)
        except Stopped:
            pass
        except Unreadable as error:
            assert error.__cause__ is not None
            self.put_last(error.__cause__)
        except OSError as error:
            sentence = (
                f"a stream's encoded windows cannot be kept in {self.cache}: {error.strerror or error}; make room"
                " there, allow writing to it, or name another folder in the environment variable CLEW_CACHE"
            )
            self.put_last(UserError(sentence))
        except BaseException as error:  # told where the windows are used
            self.put_last(error)
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def jobs(self, folder: Path, encoding: deque[Window]) -> Iterator[Job]:
        for window in self.read():
            self.go_on(0)
            own = part_of(len(window.documents), self.part, self.parts)
            pieces = [closed(Piece(document)) for document in window.documents[own]]
            window.documents = []
            encoding.append(window)
            yield Job(folder / f"{window.number:06}.tokens", pieces, begins=True)

    def read(self) -> Iterator[Window]:
        try:
            yield from self.windows
        except OSError as error:  # of the source, and not of the cache
            raise Unreadable from error

    def go_on(self, done: int) -> None:
        if self.stop.is_set():
            raise Stopped

    def put(self, found: EncodedWindow | BaseException | None) -> None:
        while True:
            self.go_on(0)
            with suppress(Full):
                return self.ready.put(found, timeout=PATIENCE)

    def put_last(self, error: BaseException) -> None:
        with suppress(Stopped):
            self.put(error)


def mapped(folder: Path, entry: Entry, tokenizer: Tokenizer) -> TokenFile:
    """A shard, whose file goes at once where a file may go that is mapped."""
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
    """A new folder for this process's shards; those of processes of this host that were killed go."""
    parent = private_folder(cache / FOLDER)
    host = socket.gethostname()
    for old in parent.glob(f"*@{host}@*"):
        if not is_running(old.name.partition("@")[0]):
            shutil.rmtree(old, ignore_errors=True)
    return Path(mkdtemp(prefix=f"{os.getpid()}@{host}@", dir=parent))
