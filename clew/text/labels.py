"""A table of labels: names to ids and back, saved beside a run's tokenizers."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property

from clew.core.errors import UserError, unknown
from clew.text.json_value import JsonValue
from clew.text.tokenizer import few

UNSEEN = -1
"""The id of a label that is not in the training part."""


class Labels(JsonValue):
    """Labels in the order of their ids."""

    unit = "label"
    what = "a table of labels"

    def __init__(self, names: Sequence[str]):
        self.names = tuple(names)
        if not self.names:
            raise UserError("there are no labels; give labelled examples")

    @classmethod
    def of(cls, labels: Iterable[str]) -> "Labels":
        """The table of these labels, each once, in alphabetical order."""
        return cls(sorted(set(labels)))

    @property
    def vocabulary(self) -> int:
        """The number of labels."""
        return len(self.names)

    def id(self, name: str, place: str = "", remedy: str = "") -> int:
        """The id of a label. Refuses a label that is not in the training part; `place` and `remedy` complete the
        message."""
        if name not in self._ids:
            complaint = unknown("label", name, self.names)
            raise UserError(
                f"{place}: {complaint}; the training part does not have it{remedy}" if place else str(complaint)
            )
        return self._ids[name]

    def find(self, name: str) -> int:
        """The id of a label, or UNSEEN if the training part does not have it: a gold label that is never predicted."""
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
        if (
            not isinstance(names, list)
            or not all(isinstance(name, str) for name in names)
            or len(set(names)) < len(names)
        ):
            raise ValueError("labels should be a list of names, each once")
        return cls(names)

    def __repr__(self) -> str:
        return f"Labels({self.vocabulary}: {few(self.names)})"
