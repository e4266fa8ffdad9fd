"""The memory of this machine, and whether something fits into it. Knows no model."""

import os
from pathlib import Path

from clew.core.errors import UserError

LIMIT = Path("/sys/fs/cgroup/memory.max")


def host_memory(limit: Path = LIMIT) -> int | None:
    """Return the bytes of memory of the machine, or of the container; None if unknown."""
    if not hasattr(os, "sysconf"):
        return None
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    written = limit.read_text().strip() if limit.is_file() else "max"
    return min(memory, int(written)) if written.isdecimal() else memory


def gigabytes(number: int) -> str:
    return f"{number / 1e9:,.1f} GB" if number < 1e15 else f"{min(number, 10**300) / 1e9:.1e} GB"


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse what would need more than half of the memory, before any of it is allocated."""
    memory = host_memory()
    if memory is not None and needed > memory // 2:
        raise UserError(
            f"{what} would need {gigabytes(needed)}, and this machine has {gigabytes(memory)} of memory; {remedy}"
        )
