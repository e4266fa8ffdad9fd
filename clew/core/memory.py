"""How much memory this machine has, and whether something fits into a part of it. Knows no model."""

import os
from pathlib import Path

from clew.core.errors import UserError

LIMIT = Path("/sys/fs/cgroup/memory.max")


def host_memory(limit: Path = LIMIT) -> int | None:
    """The bytes of the machine, or of the container that this runs in; None where they cannot be told."""
    if not hasattr(os, "sysconf"):
        return None
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    written = limit.read_text().strip() if limit.is_file() else "max"
    return min(memory, int(written)) if written.isdecimal() else memory


def gigabytes(number: int) -> str:
    return f"{number / 1e9:,.1f} GB" if number < 1e15 else f"{min(number, 10**300) / 1e9:.1e} GB"


def check_fits(needed: int, what: str, remedy: str) -> None:
    """Refuses what would take more than half of the memory, before any of it is there."""
    memory = host_memory()
    if memory is not None and needed > memory // 2:
        raise UserError(f"{what} would need {gigabytes(needed)}, and this machine has {gigabytes(memory)} of memory; {remedy}")
