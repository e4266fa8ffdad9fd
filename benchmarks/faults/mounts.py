"""Disks in memory that only one process and its children see, and that are gone when they are."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from benchmarks.faults.children import done

NEW_NAMESPACE, NEW_USER = 0x00020000, 0x10000000
PRIVATE, RECURSIVE, REMOUNT, READ_ONLY = 1 << 18, 1 << 14, 1 << 5, 1

_system = ctypes.CDLL(None, use_errno=True)


def own_mounts(do: Callable[[], int | None]) -> Callable[[], int | None]:
    """`do`, in a process whose mounts nobody else sees."""

    def inside() -> int | None:
        apart = NEW_NAMESPACE if os.geteuid() == 0 else NEW_NAMESPACE | NEW_USER
        _check(_system.unshare(apart))
        _check(_system.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None))
        return do()

    return inside


def mount_memory(folder: Path, size: int) -> None:
    folder.mkdir(exist_ok=True)
    _check(_system.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()))


def remount(folder: Path, options: str, read_only: bool = False) -> None:
    flags = REMOUNT | (READ_ONLY if read_only else 0)
    _check(_system.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, options.encode()))


def can_mount(place: Path) -> bool:
    """Whether this system lets us; many do not."""
    return done(own_mounts(lambda: mount_memory(place / "disk", 2**20)), place).status == 0


def _check(status: int) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
