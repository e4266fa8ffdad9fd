"""A folder with one subfolder per class: its files, each with its class. Knows no kind of file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from clew.core.errors import UserError
from clew.data.lines import near
from clew.data.notes import Notes


def files_by_class(folder: Path, what: str, endings: Sequence[str], notes: Notes) -> Iterator[tuple[Path, str]]:
    """Yield every file at class/file or deeper with its label, in the order of names. Files with other endings are
    skipped and counted. `what` names a file in messages: picture, sound."""
    has_files = False
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if any(part.startswith(".") for part in inside.parts) or path.is_dir():
            continue
        if path.suffix.lower() not in endings or not path.is_file():
            notes.skip(f"file without a {what}'s extension", str(path))
        elif len(inside.parts) == 1:
            notes.skip(f"{what} outside the class folders", str(path))
        else:
            has_files = True
            yield path, inside.parts[0]
    if not has_files:
        layout = f"one folder per class, as in class/{what}{endings[0]}"
        raise UserError(f"{folder}: no {what} in this folder; expected {layout}; {near(folder / '*')}")
