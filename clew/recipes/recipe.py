"""A recipe: a named run, and the published result it is held against."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """`settings` are nested, as a config has them. `published` says the result, where it comes from and what it is measured on. `needs`
    is a setting that has to be given, and what it is."""

    about: str
    settings: dict[str, Any] = field(default_factory=dict)
    published: str = ""
    takes: str = ""
    needs: str = ""

    @property
    def task(self) -> str:
        """The name of what is learnt; no name in the settings is the first of all tasks."""
        return str(self.settings.get("task", {}).get("name", "language_model"))
