"""What readers skip and what they refuse: one policy for every format.

An empty line is skipped and counted. A faulty record (a required field that is empty, too many or too few fields, bad
JSON, a head that is not a word) is refused with its place; with `faults="skip"`, it is left out and counted. An error
that spoils the rest of a file (bytes that are not text, an unclosed quote, files of unequal length) is always refused.
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
    """Counts of skipped records, filled while readers run. `str(notes)` is the report, empty if nothing was skipped."""

    faults: Faults = "refuse"
    skipped: Counter[str] = field(default_factory=Counter)
    """The number of skipped records by reason, faulty ones included."""
    first: dict[str, str] = field(default_factory=dict)
    """The place of the first one, by reason."""
    sentences: list[str] = field(default_factory=list)
    """The messages of the first few faults."""
    num_faults: int = 0

    def __post_init__(self) -> None:
        if self.faults not in ("refuse", "skip"):
            raise unknown("value for data.faults", self.faults, ("refuse", "skip"))

    def skip(self, reason: str, place: str) -> None:
        """Count something empty, which is not a fault."""
        self.skipped[reason] += 1
        self.first.setdefault(reason, place)

    def fault(self, reason: str, place: str, sentence: str) -> None:
        """Refuse a record that cannot be used, or count it, so that the reader leaves it out."""
        if self.faults == "refuse":
            raise UserError(f"{place}: {sentence}; fix it, or skip such records with data.faults=skip")
        self.skip(reason, place)
        self.num_faults += 1
        if len(self.sentences) < SENTENCES:
            self.sentences.append(f"{place}: {sentence}")

    def to_json(self) -> dict[str, Any]:
        """Return the counts, for `add`."""
        return {
            "skipped": dict(self.skipped),
            "first": self.first,
            "sentences": self.sentences,
            "num_faults": self.num_faults,
        }

    def add(self, other: Mapping[str, Any]) -> None:
        """Add the counts of other readers, as their `to_json` returned them."""
        self.skipped.update(other["skipped"])
        self.first = {**other["first"], **self.first}
        self.sentences = [*self.sentences, *other["sentences"]][:SENTENCES]
        self.num_faults += other["num_faults"]

    def report(self) -> list[str]:
        """Return a line for each reason: how many were skipped, and the place of the first."""
        return [
            f"skipped {count:,} x {reason} (first: {self.first[reason]})"
            for reason, count in self.skipped.most_common()
        ]

    def __str__(self) -> str:
        return "\n".join(self.report())
