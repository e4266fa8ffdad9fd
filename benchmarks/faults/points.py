"""Points at which a fault can strike: an operation on files below a folder, or a call of one of clew's functions.

Both are watched in a child that ends with `os._exit`, so the patches made here are never removed.
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
    """The `number`-th change to the files below a folder.

    Its kind is open, write, half a write, flush, rename, mkdir, remove, rmdir, truncate, tensors or half the tensors.
    An operation is reported before it happens. A half is reported when one half has been written.
    """

    number: int
    kind: str
    path: str


Strike = Callable[[Operation], None]


def watch_files(folder: Path, strike: Strike) -> None:
    """Call `strike` before every change to a file below a folder. If it raises, the change is not made."""
    top, count = str(folder), 0

    def report(kind: str, path: Any) -> None:
        nonlocal count
        text = os.fsdecode(os.fspath(path)) if not isinstance(path, int) else os.readlink(f"/proc/self/fd/{path}")
        if is_below(text, top):
            count += 1
            strike(Operation(count - 1, kind, os.path.relpath(text, top)))

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.mkdir":
            report("mkdir", arguments[0])
        elif event == "os.rename":
            report("rename", arguments[1])
        elif event in ("os.remove", "os.rmdir"):
            name, descriptor = arguments  # shutil.rmtree removes names relative to an open folder
            is_absolute = descriptor == -1
            path = name if is_absolute else os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), os.fsdecode(name))
            report(event.removeprefix("os."), path)

    real_open, real_fsync, real_save = io.open, os.fsync, directory.save_file

    def watched_open(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+") or not is_below(os.fsdecode(os.fspath(file)), top):
            return real_open(file, mode, *arguments, **options)
        if "r" not in mode:  # opening an existing file to flush it is not a change
            report("open", file)
        return WatchedFile(real_open(file, mode, *arguments, **options), file, report)

    def fsync(descriptor: int) -> None:
        report("flush", descriptor)
        real_fsync(descriptor)

    def save_file(tensors: Any, path: Any, metadata: Any = None) -> None:
        report("tensors", path)
        real_save(tensors, path, metadata)
        content = Path(path).read_bytes()
        os.truncate(path, len(content) // 2)
        report("half the tensors", path)
        with real_open(path, "wb") as file:
            file.write(content)

    io.open = builtins.open = watched_open  # type: ignore[assignment]
    os.fsync = fsync  # type: ignore[assignment]
    directory.save_file = save_file  # type: ignore[assignment]
    sys.addaudithook(audit)


def is_below(path: str, top: str) -> bool:
    absolute = os.path.abspath(path)
    return absolute == top or absolute.startswith(top + os.sep)


class WatchedFile:
    """An open file that reports every write before it starts and in its middle."""

    def __init__(self, file: Any, path: Any, report: Callable[[str, Any], None]):
        self.file, self.path, self.report = file, path, report

    def write(self, content: Any) -> int:
        self.report("write", self.path)
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        self.report("half a write", self.path)
        self.file.write(content[len(content) // 2 :])
        return len(content)

    def truncate(self, size: int | None = None) -> int:
        self.report("truncate", self.path)
        return self.file.truncate(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __iter__(self) -> Any:
        return iter(self.file)

    def __enter__(self) -> "WatchedFile":
        self.file.__enter__()
        return self

    def __exit__(self, *reason: Any) -> Any:
        return self.file.__exit__(*reason)


def watch_calls(strike: Callable[[str], None]) -> None:
    """Call `strike` with the name of every function of clew that this thread enters, such as `training.run.finish`."""
    names: dict[Any, str] = {}

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        name = names.get(code)
        if name is None:
            is_clew = code.co_filename.startswith(CLEW)
            module = code.co_filename.removeprefix(CLEW).removesuffix(".py").replace(os.sep, ".")
            name = names[code] = f"{module}.{code.co_name}" if is_clew else ""
        if name:
            strike(name)

    sys.setprofile(profile)
