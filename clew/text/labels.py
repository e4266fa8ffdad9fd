"""A table of labels: names to ids and back, kept beside a run's tokenizers and as they are."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property

from clew.core.errors import UserError, unknown
from clew.text.kept import Kept
from clew.text.tokenizer import few

UNSEEN = -1
"""The id of a label that the training part has not."""


class Labels(Kept):
    """Labels in the order of their ids."""

    unit = "label"
    what = "a table of labels"

    def __init__(self, names: Sequence[str]):
        self.names = tuple(names)
        if not self.names:
            raise UserError("there are no labels; give labelled examples")

    @classmethod
    def of(cls, labels: Iterable[str]) -> "Labels":
        """Every label once, in the order of the alphabet."""
        return cls(sorted(set(labels)))

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return len(self.names)

    def id(self, name: str, place: str = "", remedy: str = "") -> int:
        """The id of a label; one that was not in the training part is refused, with where it stands and what may be done."""
        if name not in self._ids:
            complaint = unknown("label", name, self.names)
            raise UserError(f"{place}: {complaint}; the training part has it not{remedy}" if place else str(complaint))
        return self._ids[name]

    def find(self, name: str) -> int:
        """The id of a label, UNSEEN where the training part has it not: a gold label that no answer can be."""
        return self._ids.get(name, UNSEEN)

    def __contains__(self, name: str) -> bool:
        return name in self._ids

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: id for id, name in enumerate(self.names)}

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(json.dumps(self.names).encode()).hexdigest()

    def to_json(self) -> str:
        return json.dumps({"labels": self.names}, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Labels":
        names = json.loads(text)["labels"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ValueError("labels should be a list of names, each once")
        return cls(names)

    def __repr__(self) -> str:
        return f"Labels({self.vocabulary}: {few(self.names)})"
