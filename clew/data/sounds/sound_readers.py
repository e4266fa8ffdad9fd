"""Sounds with what is said in them: tables, whose paths are relative to the table; and how the files of labelled sounds
are found. No sound is opened here; one that is not there is a fault at its line."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew.core.errors import UserError
from clew.data.examples import Transcribed
from clew.data.files.given_files import at_home
from clew.data.labelled_inputs import InputFiles
from clew.data.notes import Notes
from clew.data.readers import FilePath, built, listed_rows, table_rows
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
    """Sounds with texts: a table with columns `sound` and `text`. From Python: (path, text)."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        rows = listed_rows(data, Transcribed, [("sound", "text")])
        return built(
            rows, lambda values, place: Transcribed(values["sound"], as_text(values, "text"), place), data, notes
        )
    path = at_home(data)
    rows = table_rows(path, "transcribed sounds", {"sound": sound, "text": text}, format, header, notes)

    def make(values: Mapping[str, Any], place: str) -> Transcribed:
        return Transcribed(found_sound(as_text(values, "sound").strip(), path.parent), as_text(values, "text"), place)

    return built(rows, make, data, notes)


def given_path(sound: Any) -> str:
    """A sound from Python as a data file names it."""
    if not isinstance(sound, (Path, str)):
        raise UserError(
            f"examples are written to a file, which names sounds by their paths, and a {type(sound).__name__} has none"
        )
    return str(Path(sound).expanduser().absolute())


def found_sound(name: str, folder: Path) -> str:
    """The path of the sound file that a table names."""
    path = folder / Path(name).expanduser()
    if not path.is_file():
        raise Faulty("no such sound", f"there is no file {path}; paths are relative to {folder}")
    return str(path)


SOUND_FILES = InputFiles(
    name="sound",
    column="sound",
    endings=ENDINGS,
    at=str,
    find=found_sound,
    given=lambda sound: sound,
    path=given_path,
    check=sound_length,
)
