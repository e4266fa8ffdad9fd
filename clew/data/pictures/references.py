"""References to pictures in files or tar archives, which are opened only when the pixels are read."""

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clew.core.errors import UserError
from clew.core.files import open_file, read_bytes
from clew.data.examples import Picture
from clew.data.files.tar_files import find_member, is_tar, read_member
from clew.data.lines import check_file
from clew.data.pictures.picture_decoding import Mode, Size, decode_picture, size_of


class PictureRef(NamedTuple):
    """A picture file; or `member` of the tar archive at `path`."""

    path: str
    member: str = ""

    @property
    def key(self) -> str:
        return f"{self.path}/{self.member}" if self.member else self.path

    def pixels(self, mode: Mode = "rgb") -> np.ndarray:
        """Return the pixels (height, width, channels), decoded by `decode_picture`."""
        return decode_picture(self.data(), self.key, mode)

    def data(self) -> bytes:
        """Return the bytes of the file."""
        path = Path(self.path).expanduser()
        if self.member:
            return read_member(path, self.member)
        check_file(path)
        try:
            return read_bytes(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None

    def size(self) -> Size:
        """Return the height and width, reading only the header."""
        if self.member:
            return size_of(io.BytesIO(self.data()), self.key)
        path = Path(self.path).expanduser()
        check_file(path)
        try:
            with open_file(path) as file:
                return size_of(file, self.key)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def name_in_folder(picture: Picture) -> str:
    """Return a picture's name with the folder or archive that contains it, wherever that is. It decides which split the
    picture belongs to."""
    return "/".join(Path(picture.key).parts[-2:])


def find_picture(name: str, folder: Path) -> PictureRef | None:
    """Return the picture with a name in a data file, or None if there is no such file. The name is a path relative to
    `folder`; either may be or lead into a tar archive."""
    try:
        path = (folder / name).expanduser()
        if path.is_file() and path != folder:
            return PictureRef(str(path))
        archive = next((parent for parent in path.parents if is_tar(parent)), None)
    except (OSError, RuntimeError, ValueError):  # not a valid file name
        return None
    if archive is None:
        return None
    member = find_member(archive, path.relative_to(archive).as_posix())
    return None if member is None else PictureRef(str(archive), member)


def check_folder(folder: Path) -> Path:
    """Check that a folder or archive of pictures exists, and return it."""
    if not folder.is_dir() and not is_tar(folder):
        raise UserError(
            f"data.pictures={folder}: there is no such folder or .tar archive; give the path of the pictures"
        )
    return folder


def reference_name(picture: Any) -> str:
    """Return the name of a picture for a data file."""
    if not isinstance(picture, PictureRef):
        raise UserError(
            f"examples cannot be written to a file, which names pictures by path: a {type(picture).__name__} has no"
            " path; save it as a picture file first"
        )
    return picture.key
