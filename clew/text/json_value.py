"""Values that a run directory stores as JSON files: saving and loading. Knows nothing about the values."""

from pathlib import Path
from typing import ClassVar, Self

from clew.core.errors import UserError
from clew.core.files import read_text


class JsonValue:
    """A value with `to_json` and `from_json`. `what` names it in the message about a file that holds something else."""

    what: ClassVar[str]

    def to_json(self) -> str:
        raise NotImplementedError

    @classmethod
    def from_json(cls, text: str) -> Self:
        raise NotImplementedError

    def save(self, path: Path) -> Path:
        """Write the file aside and rename it, so that a reader never sees half of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(path.name + ".partial")
        aside.write_text(self.to_json(), encoding="utf-8", errors="backslashreplace")
        aside.replace(path)
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        try:
            return cls.from_json(read_text(path))
        except UserError:
            raise
        except FileNotFoundError:
            raise UserError(f"{path} is missing; copy it again, or train again") from None
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(f"{path}: not {cls.what} ({error}); copy it again, or train again") from None
