"""What is kept in a run directory as one JSON file: how it is written and read again. Knows nothing of what is kept."""

from pathlib import Path
from typing import ClassVar, Self

from clew.core.errors import UserError
from clew.core.files import read_text


class Kept:
    """A value that is `to_json` and comes back `from_json`; `what` it is, for the sentence on a file that holds something else."""

    what: ClassVar[str]

    def to_json(self) -> str:
        raise NotImplementedError

    @classmethod
    def from_json(cls, text: str) -> Self:
        raise NotImplementedError

    def save(self, path: Path) -> Path:
        """Written aside and renamed, so that a reader sees all of it or nothing."""
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
