"""Pictures with captions from files of every format, or from Python; and how the files of labelled pictures are found.

A data file names pictures by paths from its own folder, or from `pictures`, a folder or a tar archive. No picture is
opened here; one that is not there is a fault at its line.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.data.examples import Captioned, Picture
from clew.data.files.given_files import at_home
from clew.data.format import Format
from clew.data.formats import FORMATS, find_format
from clew.data.formats.caption_files import CaptionRow, read_listed
from clew.data.labelled_inputs import InputFiles
from clew.data.notes import Notes
from clew.data.pictures.picture_decoding import ENDINGS
from clew.data.pictures.picture_files import picture_size
from clew.data.pictures.references import PictureRef, check_folder, find_picture, path_of
from clew.data.readers import FilePath, built, holds_no, listed_rows, table_rows
from clew.data.records import Column, check_found
from clew.data.values import Faulty, as_captions, as_text

CAPTION_FILES = tuple(
    f"{name}{ending}" for name in ("captions", "metadata") for ending in (".jsonl", ".json", ".csv", ".tsv", ".txt")
)
"""What a folder of pictures calls the file of their captions."""


def read_captioned(
    data: FilePath | Iterable[Any],
    *,
    image: Column | None = None,
    caption: Column | None = None,
    captions: FilePath | None = None,
    pictures: FilePath | None = None,
    may_lack: bool = False,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[Captioned]:
    """Pictures with captions: COCO's JSON, a list in JSON, Flickr8k's file, or a table with columns `image` and
    `caption`, or `captions` where JSON lines have lists. Rows of one picture become one example. From Python: (path,
    caption) or (path, captions).

    Where `captions` names a file as Flickr8k's, the data file is a list of photographs. Pictures that `may_lack` are
    passed over.
    """
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        yield from built(listed_rows(data, Captioned, [("picture", "captions")]), made_captioned, data, notes)
        return
    path = caption_file(at_home(data))
    folder = path.parent if pictures is None else check_folder(at_home(pictures))
    if captions is not None:
        rows = read_listed(path, at_home(captions), notes)
    else:
        rows = caption_rows(path, image, caption, format, header, notes)
    found: dict[PictureRef, tuple[str, dict[str, None]]] = {}
    for row in rows:
        picture = find_picture(row.image, folder)
        if picture is None:
            miss_picture(row.image, folder, row.place, notes, may_lack)
            continue
        _, texts = found.setdefault(picture, (row.place, {}))
        for text in row.captions:
            if text in texts:
                notes.skip("caption that its picture has twice", row.place)
            texts[text] = None
    for picture, (place, texts) in found.items():
        yield Captioned(picture, tuple(texts), place)
    check_found(bool(found), path, False, notes)


def caption_rows(
    path: Path, image: Column | None, caption: Column | None, format: str | None, header: bool | None, notes: Notes
) -> Iterator[CaptionRow]:
    format = find_format(path, format, tables_alone=True)
    if (reader := FORMATS[format].captions) is not None:
        yield from (CaptionRow(*row) for row in reader(path, notes))
        return
    if not has_columns(FORMATS[format]):
        raise holds_no(
            path, format, "pictures with captions", lambda other: other.captions is not None or has_columns(other)
        )
    for values, place in table_rows(
        path, "pictures with captions", {"image": image, "caption": caption}, format, header, notes
    ):
        try:
            yield CaptionRow(as_text(values, "image").strip(), as_captions(values["caption"]), place)
        except Faulty as fault:
            notes.fault(fault.reason, place, str(fault))


def has_columns(format: Format) -> bool:
    return format.records is not None and not format.is_single


def caption_file(path: Path) -> Path:
    """The file of captions in a folder of pictures; a file is itself."""
    if not path.is_dir():
        return path
    found = next((path / name for name in CAPTION_FILES if (path / name).is_file()), None)
    if found is None:
        raise UserError(
            f"{path}: no file with captions in this folder; name it captions.jsonl, .json, .csv or .tsv, or give its"
            " path"
        )
    return found


def made_captioned(values: Mapping[str, Any], place: str) -> Captioned:
    return Captioned(given_picture(values["picture"]), as_captions(values["captions"]), place)


def given_picture(given: Any) -> Picture:
    """What Python gives for a picture: one, or the path of a file."""
    if not isinstance(given, (Path, str)):
        picture: Picture = given
        return picture
    if (found := find_picture(str(given), Path())) is None:
        raise Faulty("missing picture", missing(str(given), Path.cwd()))
    return found


def miss_picture(name: str, folder: Path, place: str, notes: Notes, may_lack: bool) -> None:
    if may_lack:
        notes.skip(f"picture that is not in {folder}", place)
    else:
        notes.fault("missing picture", place, missing(name, folder))


def found_picture(name: str, folder: Path) -> PictureRef:
    """The picture that a data file names."""
    found = find_picture(name, folder)
    if found is None:
        raise Faulty("missing picture", missing(name, folder))
    return found


def missing(name: str, folder: Path) -> str:
    return (
        f"there is no picture '{name}' in {folder}; data.pictures names the folder or .tar archive, where it is another"
    )


PICTURE_FILES = InputFiles(
    name="picture",
    column="image",
    endings=ENDINGS,
    at=lambda path: PictureRef(str(path)),
    find=found_picture,
    given=given_picture,
    path=path_of,
    check=picture_size,
)
