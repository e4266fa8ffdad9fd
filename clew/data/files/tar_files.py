"""Files inside an uncompressed tar archive, read directly by an index of where each begins."""

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
    """The position of a file's bytes in the archive."""

    start: int
    size: int


def is_tar(path: Path) -> bool:
    return path.suffix.lower() == ".tar" and path.is_file()


def find_member(path: Path, name: str) -> str | None:
    """Find a member by its name, or by the last part of its name if no other member has the same."""
    members, by_file_name = archive_index(path)
    name = plain_name(name)
    return name if name in members else by_file_name.get(name)


def read_member(path: Path, name: str) -> bytes:
    members, _ = archive_index(path)
    if name not in members:
        raise UserError(
            f"{path}: no file '{name}' in this archive{did_you_mean(name, members)} there are {len(members):,}"
        )
    start, size = members[name]
    if size > LARGEST_WHOLE:
        raise UserError(
            f"{path}/{name} has {size:,} bytes, and at most {LARGEST_WHOLE:,} are read; check that the archive is whole"
            " and the right one"
        )
    with open_file(path) as file:
        file.seek(start)
        data = file.read(size)
    if len(data) < size:
        raise UserError(f"{path}: the archive ends within {name}; copy it again")
    return data


def archive_index(path: Path) -> tuple[Mapping[str, Member], Mapping[str, str]]:
    """Index the files of an archive by name, and their names by the last part if it is unique. The index is cached
    until the archive changes."""
    check_file(path)
    stat = os.stat(path)
    return build_index(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def build_index(path: str, changed: int, size: int) -> tuple[Mapping[str, Member], Mapping[str, str]]:
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
            f"{path}: not a readable tar archive ({error}); copy it again, or decompress a .tar.gz to a .tar first"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    by_file_name: dict[str, str] = {}
    ambiguous = set()
    for name in members:
        file_name = name.rpartition("/")[2]
        if by_file_name.setdefault(file_name, name) != name:
            ambiguous.add(file_name)
    return members, {file_name: name for file_name, name in by_file_name.items() if file_name not in ambiguous}


def plain_name(name: str) -> str:
    while name.startswith("./"):
        name = name[2:]
    return name
