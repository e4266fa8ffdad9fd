"""A recipe: a named run, and the published result it is compared with."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """A named config. `settings` are nested like a config. `published` has the published result, its source and the
    test data. `needs` is a setting that the user has to give, with an explanation."""

    about: str
    settings: dict[str, Any] = field(default_factory=dict)
    published: str = ""
    takes: str = ""
    needs: str = ""

    @property
    def task(self) -> str:
        """The name of the task; without one in the settings, the default task."""
        return str(self.settings.get("task", {}).get("name", "language_model"))
