"""Files inside a tar archive that is not packed: an index of where each begins, then any of them at once."""

import os
import tarfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from clew.core.errors import UserError, did_you_mean
from clew.core.files import LARGEST_WHOLE, open_file
from clew.data.lines import check_file


class Member(NamedTuple):
    """Where a file's bytes are."""

    start: int
    size: int


def is_tar(path: Path) -> bool:
    return path.suffix.lower() == ".tar" and path.is_file()


def find_member(path: Path, name: str) -> str | None:
    """A member's name in the archive: that name, or the only one which ends in it behind a folder."""
    members, by_end = archive_index(path)
    name = plain_name(name)
    return name if name in members else by_end.get(name)


def read_member(path: Path, name: str) -> bytes:
    members, _ = archive_index(path)
    if name not in members:
        raise UserError(
            f"{path}: no file '{name}' in this archive{did_you_mean(name, members)} there are {len(members):,}"
        )
    start, size = members[name]
    if size > LARGEST_WHOLE:
        raise UserError(
            f"{path}/{name} has {size:,} bytes, and {LARGEST_WHOLE:,} are read at most; it is damaged, or another file"
        )
    with open_file(path) as file:
        file.seek(start)
        data = file.read(size)
    if len(data) < size:
        raise UserError(f"{path}: the archive is cut off inside {name}; copy it again")
    return data


def archive_index(path: Path) -> tuple[Mapping[str, Member], Mapping[str, str]]:
    """The files of an archive by name, and by the last part of it where no other file has the same. Kept until the
    archive changes."""
    check_file(path)
    found = os.stat(path)
    return indexed(str(path), found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=8)
def indexed(path: str, changed: int, size: int) -> tuple[Mapping[str, Member], Mapping[str, str]]:
    members: dict[str, Member] = {}
    try:
        with open_file(Path(path)) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for info in archive:
                if info.isreg() and not info.issparse():
                    members[plain_name(info.name)] = Member(info.offset_data, info.size)
    except (tarfile.TarError, ValueError, EOFError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f"{path}: this is no tar archive that can be read ({error}); copy it again, and unpack a .tar.gz to a .tar"
            " first"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    by_end: dict[str, str] = {}
    twice = set()
    for name in members:
        end = name.rpartition("/")[2]
        if by_end.setdefault(end, name) != name:
            twice.add(end)
    return members, {end: name for end, name in by_end.items() if end not in twice}


def plain_name(name: str) -> str:
    while name.startswith("./"):
        name = name[2:]
    return name
