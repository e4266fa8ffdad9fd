"""Split one text into training, validation and test parts by characters, without holding it in memory."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clew.core.errors import UserError
from clew.data.files.measures import cached_extent
from clew.data.files.text_files import FIELD, Piece, Stamp, TextSource, find_text

Paths = Path | str | Sequence[Path | str]


@dataclass(frozen=True)
class TextPart:
    """The characters [start, stop) of a text."""

    whole: TextSource
    start: int
    stop: int

    def pieces(self) -> Iterator[Piece]:
        place = 0
        for piece in self.whole.pieces():
            begin, place = place, place + len(piece.text)
            text = piece.text[max(self.start - begin, 0) : self.stop - begin]
            if text:
                yield Piece(text, closes=piece.closes and place < self.stop)
            if place >= self.stop:
                return

    def __iter__(self) -> Iterator[str]:
        return (piece.text for piece in self.pieces())

    def stamp(self) -> Stamp | None:
        whole_stamp = getattr(self.whole, "stamp", None)
        stamp = None if whole_stamp is None else whole_stamp()
        return None if stamp is None else stamp._replace(text=f"{stamp.text}[{self.start}:{self.stop}]")

    def __str__(self) -> str:
        return str(self.whole)


@dataclass(frozen=True)
class Spread:
    """About `most` characters of texts that have `length` characters in all, in pieces spread evenly over them."""

    texts: Iterable[str]
    length: int
    most: int

    def __iter__(self) -> Iterator[str]:
        place = taken = 0
        for text in self.texts:
            place += len(text)
            if taken * self.length < self.most * place:
                taken += len(text)
                yield text


def split_text(
    train: Paths | TextSource,
    valid: Paths | TextSource | None = None,
    test: Paths | TextSource | None = None,
    *,
    valid_fraction: float = 0.1,
    test_fraction: float = 0.0,
    field: str = FIELD,
    cache: Path | None = None,
) -> dict[str, TextSource]:
    """Return the parts by name: `train`, and `valid` and `test` if there are any.

    A missing part is cut off the end of the training text, test last. The cuts are at int(fraction * characters). In
    JSON lines, `field` holds the text. The length of a large text may be remembered in `cache`.
    """
    check_fraction("valid_fraction", valid_fraction)
    check_fraction("test_fraction", test_fraction)
    whole = as_source(train, field)
    own_parts = {name: as_source(part, field) for name, part in (("valid", valid), ("test", test)) if part is not None}
    fractions = {
        "valid": 0.0 if "valid" in own_parts else valid_fraction,
        "test": 0.0 if "test" in own_parts else test_fraction,
    }
    return {**cut_parts(whole, fractions, cache), **own_parts}


def cut_parts(whole: TextSource, fractions: dict[str, float], cache: Path | None = None) -> dict[str, TextSource]:
    """Cut the parts that `fractions` names off the end of a text; a part of size 0 is left out."""
    held_out = sum(fractions.values())
    if held_out >= 1:
        sizes = " + ".join(f"{name}_fraction ({fraction})" for name, fraction in fractions.items())
        raise UserError(f"{sizes} must be below 1, or nothing is left to train on")
    if held_out == 0:
        return {"train": whole}
    length = cached_extent(whole, cache).num_characters
    # 1 - 0.05 - 0.05 is 0.8999999999999999 in floating point
    valid_start = int(round(1 - held_out, 9) * length)
    test_start = int(round(1 - fractions["test"], 9) * length)
    bounds = {"train": (0, valid_start), "valid": (valid_start, test_start), "test": (test_start, length)}
    spans = {name: span for name, span in bounds.items() if name == "train" or fractions[name]}
    for name, (start, stop) in spans.items():
        if start == stop:
            raise UserError(
                f"{whole}: the {name} part of its {length} characters is empty; give more text, or another"
                " data.valid_fraction or data.test_fraction"
            )
    return {name: TextPart(whole, *span) for name, span in spans.items()}


def as_source(text: Paths | TextSource, field: str = FIELD) -> TextSource:
    return find_text(text, field) if isinstance(text, (Path, str, list, tuple)) else text  # type: ignore[return-value]


def check_fraction(name: str, fraction: float) -> None:
    if not 0 <= fraction < 1:
        raise UserError(f"{name} ({fraction}) must be at least 0 and below 1")
