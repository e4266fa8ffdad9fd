"""Tables of sounds with what is said in them. A sound's path is relative to its table."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from clew.data.examples import Transcribed
from clew.data.notes import Notes
from clew.data.readers import FilePath, as_path, built, listed_rows, table_rows
from clew.data.records import Column
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
        return built(rows, lambda values, place: Transcribed(values["sound"], as_text(values, "text"), place), data, notes)
    path = as_path(data)
    rows = table_rows(path, "transcribed sounds", {"sound": sound, "text": text}, format, header, notes)
    return built(rows, lambda values, place: Transcribed(found_sound(values, path), as_text(values, "text"), place), data, notes)


def found_sound(values: Mapping[str, Any], table: Path) -> str:
    """The path of a row's sound file."""
    name = as_text(values, "sound").strip()
    path = table.parent / Path(name).expanduser()
    if not path.is_file():
        raise Faulty("no such sound", f"there is no file {path}; paths are relative to {table.parent}")
    return str(path)
