"""Disks in memory that are visible only to one process and its children, and that disappear with them."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from benchmarks.faults.children import run_child

NEW_NAMESPACE, NEW_USER = 0x00020000, 0x10000000
PRIVATE, RECURSIVE, REMOUNT, READ_ONLY = 1 << 18, 1 << 14, 1 << 5, 1

_system = ctypes.CDLL(None, use_errno=True)


def with_own_mounts(function: Callable[[], int | None]) -> Callable[[], int | None]:
    """Wrap a function that runs in a child, so that other processes do not see its mounts."""

    def run() -> int | None:
        flags = NEW_NAMESPACE if os.geteuid() == 0 else NEW_NAMESPACE | NEW_USER
        _check(_system.unshare(flags))
        _check(_system.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None))
        return function()

    return run


def mount_memory(folder: Path, size: int) -> None:
    folder.mkdir(exist_ok=True)
    _check(_system.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()))


def remount(folder: Path, options: str, read_only: bool = False) -> None:
    flags = REMOUNT | (READ_ONLY if read_only else 0)
    _check(_system.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, options.encode()))


def can_mount(folder: Path) -> bool:
    """Whether the system allows it; many do not."""
    return run_child(with_own_mounts(lambda: mount_memory(folder / "disk", 2**20)), folder).status == 0


def _check(status: int) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
