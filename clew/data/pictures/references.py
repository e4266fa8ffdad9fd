"""Pictures that examples name: a file, or a member of a tar archive, opened when they are read and not before."""

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
        """The pixels (height, width, channels), as `decode_picture` gives them."""
        return decode_picture(self.data(), self.key, mode)

    def data(self) -> bytes:
        """The file as it is."""
        path = Path(self.path).expanduser()
        if self.member:
            return read_member(path, self.member)
        check_file(path)
        try:
            return read_bytes(path)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None

    def size(self) -> Size:
        """Height and width, from the header alone."""
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
    """What decides in which part a picture comes to stand: its name with the folder or archive around it, wherever
    these are."""
    return "/".join(Path(picture.key).parts[-2:])


def find_picture(name: str, folder: Path) -> PictureRef | None:
    """The picture that a data file calls by a name: a path from `folder`, which may be a tar archive or lead into one;
    None where there is no such file."""
    try:
        path = (folder / name).expanduser()
        if path.is_file() and path != folder:
            return PictureRef(str(path))
        archive = next((parent for parent in path.parents if is_tar(parent)), None)
    except (OSError, RuntimeError, ValueError):  # a name that no file can have
        return None
    if archive is None:
        return None
    member = find_member(archive, path.relative_to(archive).as_posix())
    return None if member is None else PictureRef(str(archive), member)


def check_folder(folder: Path) -> Path:
    """The folder or archive in which pictures are looked up."""
    if not folder.is_dir() and not is_tar(folder):
        raise UserError(
            f"data.pictures={folder}: there is no such folder, nor an archive that ends in .tar; name where the"
            " pictures are"
        )
    return folder


def path_of(picture: Any) -> str:
    """A picture as a data file names it."""
    if not isinstance(picture, PictureRef):
        raise UserError(
            f"examples are written to a file, which names pictures by their paths, and a {type(picture).__name__} has"
            " none"
        )
    return picture.key
