"""What readers pass over and what they refuse: one policy for every format.

An empty line holds nothing: it is skipped, and counted. A faulty record (a field that is asked for and empty, too many
or too few fields, bad JSON, a head that is no word) is refused with its place; with `faults="skip"` it is left out, and
counted. What spoils the rest of a file (bytes that are no text, a quote that never closes, files of unequal length) is
always refused.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from clew.core.errors import UserError, unknown

Faults = Literal["refuse", "skip"]
SENTENCES = 5


@dataclass
class Notes:
    """Filled while readers are consumed; `str(notes)` is the report, empty where nothing was passed over."""

    faults: Faults = "refuse"
    skipped: Counter[str] = field(default_factory=Counter)
    """How many, by reason; faulty records too."""
    first: dict[str, str] = field(default_factory=dict)
    """Where the first was, by reason."""
    sentences: list[str] = field(default_factory=list)
    """The first few faults, in words."""
    num_faults: int = 0

    def __post_init__(self) -> None:
        if self.faults not in ("refuse", "skip"):
            raise unknown("value for data.faults", self.faults, ("refuse", "skip"))

    def skip(self, reason: str, place: str) -> None:
        """Something empty, which is no fault."""
        self.skipped[reason] += 1
        self.first.setdefault(reason, place)

    def fault(self, reason: str, place: str, sentence: str) -> None:
        """A record that cannot be used: raises, or counts it for the reader to leave out."""
        if self.faults == "refuse":
            raise UserError(f"{place}: {sentence}; mend it, or leave such records out with data.faults=skip")
        self.skip(reason, place)
        self.num_faults += 1
        if len(self.sentences) < SENTENCES:
            self.sentences.append(f"{place}: {sentence}")

    def to_json(self) -> dict[str, Any]:
        """What was passed over, for `add`."""
        return {
            "skipped": dict(self.skipped),
            "first": self.first,
            "sentences": self.sentences,
            "num_faults": self.num_faults,
        }

    def add(self, other: Mapping[str, Any]) -> None:
        """What other readers passed over, as they say in JSON."""
        self.skipped.update(other["skipped"])
        self.first = {**other["first"], **self.first}
        self.sentences = [*self.sentences, *other["sentences"]][:SENTENCES]
        self.num_faults += other["num_faults"]

    def report(self) -> list[str]:
        """A line a reason: how many were passed over, and where the first was."""
        return [
            f"skipped {count:,} x {reason} (first: {self.first[reason]})"
            for reason, count in self.skipped.most_common()
        ]

    def __str__(self) -> str:
        return "\n".join(self.report())
