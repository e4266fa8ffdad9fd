"""A folder with one for each class in it: files with the class that they are of. Knows no kind of file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from clew.core.errors import UserError
from clew.data.lines import near
from clew.data.notes import Notes


def files_by_class(folder: Path, what: str, endings: Sequence[str], notes: Notes) -> Iterator[tuple[Path, str]]:
    """class/file, or deeper below the class, in the order of names, each with its label. What has another ending is
    passed over. `what` is a file's name in sentences: picture, sound."""
    found = False
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts) or path.is_dir():
            continue
        if path.suffix.lower() not in endings or not path.is_file():
            notes.skip(f"file that is no {what} by its ending", str(path))
        elif len(inside.parts) == 1:
            notes.skip(f"{what} outside of the folders of classes", str(path))
        else:
            found = True
            yield path, inside.parts[0]
    if not found:
        wanted = f"class/{what}{endings[0]}, a folder for each class"
        raise UserError(f"{folder}: no {what} in this folder; expected {wanted}; {near(folder / '*')}")
