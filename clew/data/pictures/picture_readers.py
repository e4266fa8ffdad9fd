"""Readers of pictures with captions, from files of every format or from Python; and how the files of labelled pictures
are found.

A data file names pictures by paths relative to its own folder, or to `pictures`, a folder or a tar archive. No picture
is opened here; a missing picture is an error at its line.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.data.examples import Captioned, Picture
from clew.data.files.given_files import expand_home
from clew.data.format import Format
from clew.data.formats import FORMATS, find_format
from clew.data.formats.caption_files import CaptionRow, read_listed_captions
from clew.data.labelled_inputs import InputFiles
from clew.data.notes import Notes
from clew.data.pictures.picture_decoding import ENDINGS
from clew.data.pictures.picture_files import picture_size
from clew.data.pictures.references import PictureRef, check_folder, find_picture, reference_name
from clew.data.readers import FilePath, build_examples, listed_rows, table_rows, wrong_format
from clew.data.records import Column, check_found
from clew.data.values import Faulty, as_captions, as_text

CAPTION_FILES = tuple(
    f"{name}{ending}" for name in ("captions", "metadata") for ending in (".jsonl", ".json", ".csv", ".tsv", ".txt")
)
"""Names of the file of captions in a folder of pictures."""


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
    """Read pictures with captions.

    A file is COCO's JSON, a list in JSON, Flickr8k's file, or a table with columns `image` and `caption`, or `captions`
    if JSON lines have lists. Rows with the same picture become one example. From Python: (path, caption) or (path,
    captions).

    If `captions` names a file in Flickr8k's format, the data file is a list of photographs. With `may_lack`, missing
    pictures are skipped.
    """
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        yield from build_examples(
            listed_rows(data, Captioned, [("picture", "captions")]), captioned_example, data, notes
        )
        return
    path = caption_file(expand_home(data))
    folder = path.parent if pictures is None else check_folder(expand_home(pictures))
    if captions is not None:
        rows = read_listed_captions(path, expand_home(captions), notes)
    else:
        rows = caption_rows(path, image, caption, format, header, notes)
    texts_by_picture: dict[PictureRef, tuple[str, dict[str, None]]] = {}
    for row in rows:
        picture = find_picture(row.image, folder)
        if picture is None:
            report_missing(row.image, folder, row.place, notes, may_lack)
            continue
        _, texts = texts_by_picture.setdefault(picture, (row.place, {}))
        for text in row.captions:
            if text in texts:
                notes.skip("duplicate caption of a picture", row.place)
            texts[text] = None
    for picture, (place, texts) in texts_by_picture.items():
        yield Captioned(picture, tuple(texts), place)
    check_found(bool(texts_by_picture), path, False, notes)


def caption_rows(
    path: Path, image: Column | None, caption: Column | None, format: str | None, header: bool | None, notes: Notes
) -> Iterator[CaptionRow]:
    format = find_format(path, format, tables_alone=True)
    if (reader := FORMATS[format].captions) is not None:
        yield from (CaptionRow(*row) for row in reader(path, notes))
        return
    if not has_columns(FORMATS[format]):
        raise wrong_format(
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
    """Return the file of captions in a folder of pictures; a path of a file is returned unchanged."""
    if not path.is_dir():
        return path
    file = next((path / name for name in CAPTION_FILES if (path / name).is_file()), None)
    if file is None:
        raise UserError(
            f"{path}: this folder has no file of captions; name it captions.jsonl, .json, .csv or .tsv, or give its"
            " path"
        )
    return file


def captioned_example(values: Mapping[str, Any], place: str) -> Captioned:
    return Captioned(picture_from(values["picture"]), as_captions(values["captions"]), place)


def picture_from(value: Any) -> Picture:
    """Return a picture passed from Python, as a picture or as the path of a file."""
    if not isinstance(value, (Path, str)):
        picture: Picture = value
        return picture
    if (file := find_picture(str(value), Path())) is None:
        raise Faulty("missing picture", missing(str(value), Path.cwd()))
    return file


def report_missing(name: str, folder: Path, place: str, notes: Notes, may_lack: bool) -> None:
    if may_lack:
        notes.skip(f"picture that is not in {folder}", place)
    else:
        notes.fault("missing picture", place, missing(name, folder))


def named_picture(name: str, folder: Path) -> PictureRef:
    """Return the picture that a data file names."""
    picture = find_picture(name, folder)
    if picture is None:
        raise Faulty("missing picture", missing(name, folder))
    return picture


def missing(name: str, folder: Path) -> str:
    return (
        f"there is no picture '{name}' in {folder}; if pictures are in another folder or a .tar archive, set"
        " data.pictures"
    )


PICTURE_FILES = InputFiles(
    name="picture",
    column="image",
    endings=ENDINGS,
    at=lambda path: PictureRef(str(path)),
    find=named_picture,
    from_value=picture_from,
    path=reference_name,
    check=picture_size,
)
