"""Readers of sounds with transcripts, from tables whose paths are relative to the table; and how the files of labelled
sounds are found. No sound is opened here; a missing sound is an error at its line."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.data.examples import Transcribed
from clew.data.files.given_files import expand_home
from clew.data.labelled_inputs import InputFiles
from clew.data.notes import Notes
from clew.data.readers import FilePath, build_examples, listed_rows, table_rows
from clew.data.records import Column
from clew.data.sounds.sound_files import ENDINGS, sound_length
from clew.data.values import Faulty, as_text


def read_transcribed(
    data: FilePath | Iterable[Any],
    *,
    sound: Column | None = None,
    text: Column | None = None,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[Transcribed]:
    """Read sounds with transcripts: a table with columns `sound` and `text`. From Python: (path, text)."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        rows = listed_rows(data, Transcribed, [("sound", "text")])
        return build_examples(
            rows, lambda values, place: Transcribed(values["sound"], as_text(values, "text"), place), data, notes
        )
    path = expand_home(data)
    rows = table_rows(path, "transcribed sounds", {"sound": sound, "text": text}, format, header, notes)

    def make(values: Mapping[str, Any], place: str) -> Transcribed:
        return Transcribed(named_sound(as_text(values, "sound").strip(), path.parent), as_text(values, "text"), place)

    return build_examples(rows, make, data, notes)


def given_path(sound: Any) -> str:
    """Return the name of a sound passed from Python for a data file."""
    if not isinstance(sound, (Path, str)):
        raise UserError(
            f"examples cannot be written to a file, which names sounds by path: a {type(sound).__name__} has no path;"
            " save it as a sound file first"
        )
    return str(Path(sound).expanduser().absolute())


def named_sound(name: str, folder: Path) -> str:
    """Return the path of the sound file that a table names."""
    path = folder / Path(name).expanduser()
    if not path.is_file():
        raise Faulty("missing sound", f"there is no file {path}; paths are relative to {folder}")
    return str(path)


SOUND_FILES = InputFiles(
    name="sound",
    column="sound",
    endings=ENDINGS,
    at=str,
    find=named_sound,
    from_value=lambda sound: sound,
    path=given_path,
    check=sound_length,
)
