"""Points in a process's life at which a fault strikes: an operation on the files below a folder, or a call of one of
clew's functions.

Both are watched in a child that ends by `os._exit`: nothing that is put in place here is ever taken away again.
"""

import builtins
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from clew.runs import directory

CLEW = str(Path(directory.__file__).parents[1]) + os.sep
REMOVALS = ("remove", "rmdir")


class Operation(NamedTuple):
    """The `number`-th change to the files below a folder: open, write, half a write, flush, rename, mkdir, remove,
    rmdir, truncate, tensors, half the tensors. It is told of before it happens; a half is told of when the other half
    is written."""

    number: int
    kind: str
    path: str


Strike = Callable[[Operation], None]


def watch_files(folder: Path, strike: Strike) -> None:
    """Calls `strike` before everything that changes a file below a folder; what it raises is raised in the operation's
    place."""
    top, count = str(folder), 0

    def meet(kind: str, path: Any) -> None:
        nonlocal count
        text = os.fsdecode(os.fspath(path)) if not isinstance(path, int) else os.readlink(f"/proc/self/fd/{path}")
        if is_below(text, top):
            count += 1
            strike(Operation(count - 1, kind, os.path.relpath(text, top)))

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.mkdir":
            meet("mkdir", arguments[0])
        elif event == "os.rename":
            meet("rename", arguments[1])
        elif event in ("os.remove", "os.rmdir"):
            name, at = arguments  # removing a tree goes by names in an open folder
            path = name if at == -1 else os.path.join(os.readlink(f"/proc/self/fd/{at}"), os.fsdecode(name))
            meet(event.removeprefix("os."), path)

    real_open, real_fsync, real_save = io.open, os.fsync, directory.save_file

    def open_watched(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+") or not is_below(os.fsdecode(os.fspath(file)), top):
            return real_open(file, mode, *arguments, **options)
        if "r" not in mode:  # an existing file that is opened to be flushed is not a change
            meet("open", file)
        return Watched(real_open(file, mode, *arguments, **options), file, meet)

    def fsync(descriptor: int) -> None:
        meet("flush", descriptor)
        real_fsync(descriptor)

    def save_file(tensors: Any, path: Any, metadata: Any = None) -> None:
        meet("tensors", path)
        real_save(tensors, path, metadata)
        whole = Path(path).read_bytes()
        os.truncate(path, len(whole) // 2)
        meet("half the tensors", path)
        with real_open(path, "wb") as file:
            file.write(whole)

    io.open = builtins.open = open_watched  # type: ignore[assignment]
    os.fsync = fsync  # type: ignore[assignment]
    directory.save_file = save_file  # type: ignore[assignment]
    sys.addaudithook(hear)


def is_below(path: str, top: str) -> bool:
    whole = os.path.abspath(path)
    return whole == top or whole.startswith(top + os.sep)


class Watched:
    """An open file that tells of every write before it and in its middle."""

    def __init__(self, file: Any, path: Any, meet: Callable[[str, Any], None]):
        self.file, self.path, self.meet = file, path, meet

    def write(self, content: Any) -> int:
        self.meet("write", self.path)
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        self.meet("half a write", self.path)
        self.file.write(content[len(content) // 2 :])
        return len(content)

    def truncate(self, size: int | None = None) -> int:
        self.meet("truncate", self.path)
        return self.file.truncate(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __iter__(self) -> Any:
        return iter(self.file)

    def __enter__(self) -> "Watched":
        self.file.__enter__()
        return self

    def __exit__(self, *reason: Any) -> Any:
        return self.file.__exit__(*reason)


def watch_calls(strike: Callable[[str], None]) -> None:
    """Calls `strike` with the name, such as `training.run.finish`, of every function of clew's when it is entered, in
    this thread."""
    names: dict[Any, str] = {}

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        name = names.get(code)
        if name is None:
            inside = code.co_filename.startswith(CLEW)
            place = code.co_filename.removeprefix(CLEW).removesuffix(".py").replace(os.sep, ".")
            name = names[code] = f"{place}.{code.co_name}" if inside else ""
        if name:
            strike(name)

    sys.setprofile(profile)
