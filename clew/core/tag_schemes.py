"""Phrases as tags, one per word: IOB1, IOB2 and BIOES. Readers, scores and constraints share them; knows no file and no
model.

    words     Ada   Lovelace  Byron  met    Babbage
    IOB1      I-PER I-PER     B-PER  O      I-PER      B- only directly after a phrase of the same label (Ramshaw and
                                                       Marcus 1995)
    IOB2      B-PER I-PER     B-PER  O      B-PER      B- on every first word (Ratnaparkhi 1998)
    BIOES     B-PER E-PER     S-PER  O      S-PER      and E- on the last, S- on a phrase of one word

A tag is `O`, or a prefix and a label joined by a hyphen (`B-PER`); a prefix alone has the label "". Labels may contain
hyphens.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clew.core.errors import UserError, named, unknown
from clew.core.trees import Span

OUTSIDE = "O"
SCHEMES = {"iob2": "BIO", "iob1": "BIO", "bioes": "BIOES"}
"""The prefixes of each scheme."""


class TagFault(NamedTuple):
    place: int  # counted from 0
    sentence: str


class Transitions(NamedTuple):
    """Allowed transitions: `between[a][b]` if tag b may follow tag a, `first[b]` and `last[a]` for the ends of a
    sentence."""

    between: tuple[tuple[bool, ...], ...]
    first: tuple[bool, ...]
    last: tuple[bool, ...]


def tag_spans(tags: Sequence[str]) -> list[Span]:
    """Return the phrases of tags in any scheme, valid or not: a phrase continues until something separates two words.

    Two words are separated if the second is O, B- or S-, if the first is O, E- or S-, or if their labels differ. So an
    I- at the start of a phrase begins one, and every tag except O is in exactly one phrase.

    For B-, I- and O (IOB1, IOB2) and for I-, E- and O (IOE) these are conlleval's phrases. conlleval does not know
    BIOES: there S- separates nothing, and E- does not separate a following B- of its label, so that S-X S-X, or B-X E-X
    B-X E-X, is one phrase there and two here. Convert BIOES to IOB2 to compare with its results. Its tags [ and ]
    belong to no scheme here.
    """
    phrases: list[Span] = []
    before = (OUTSIDE, "")
    for place, tag in enumerate(tags):
        prefix, label = tag_parts(tag)
        if prefix != OUTSIDE:
            if prefix in "BS" or before[0] in "OES" or before[1] != label:
                phrases.append(Span(label, place, place))
            phrases[-1] = phrases[-1]._replace(end=place + 1)
        before = (prefix, label)
    return phrases


def span_tags(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Return the tags of phrases that do not overlap, in a sentence of `length` words."""
    check_scheme(scheme)
    tags = [OUTSIDE] * length
    before = Span("", -1, -1)
    for span in sorted(spans, key=lambda span: span.start):
        if not max(before.end, 0) <= span.start < span.end <= length:
            raise UserError(
                f"{span} must have words, lie within the {length} of its sentence and not overlap another span"
            )
        prefixes = ["I"] * (span.end - span.start)
        if scheme != "iob1" or (before.end, before.label) == (span.start, span.label):
            prefixes[0] = "B"
        if scheme == "bioes":
            prefixes[-1] = "S" if len(prefixes) == 1 else "E"
        tags[span.start : span.end] = [f"{prefix}-{span.label}" if span.label else prefix for prefix in prefixes]
        before = span
    return tags


def convert_tags(tags: Sequence[str], scheme: str) -> list[str]:
    """Convert tags to another scheme; invalid tags are read as by `tag_spans`."""
    return span_tags(tag_spans(tags), len(tags), scheme)


class PlainTags(NamedTuple):
    """Conversion of tags of any scheme to IOB2 by table: `names` are the IOB2 tags, `first[b]` is the index of the one
    that tag b becomes at the start of a sentence, and `after[a][b]` after tag a. A tag and the one before it determine
    the result, even for invalid tags."""

    names: tuple[str, ...]
    first: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]


def plain_tags(tags: Sequence[str]) -> PlainTags:
    """Return the conversion table of these tags."""
    labels = dict.fromkeys(tag_parts(tag)[1] for tag in tags if tag != OUTSIDE)
    names = (OUTSIDE, *(f"{prefix}-{label}" if label else prefix for label in labels for prefix in "BI"))
    first, *after = (
        tuple(names.index(convert_tags([before, tag], "iob2")[1]) for tag in tags) for before in (OUTSIDE, *tags)
    )
    return PlainTags(names, first, tuple(after))


def find_tag_fault(tags: Sequence[str], scheme: str) -> TagFault | None:
    """Return the first tag that the scheme does not allow at its position, or None."""
    check_scheme(scheme)
    before = OUTSIDE
    for place, tag in enumerate(tags):
        if not may_follow(before, tag, scheme):
            after = f"after {named(before)}" if place else "at the start of a sentence"
            return TagFault(place, f"the tag {named(tag)} cannot stand {after} in {scheme.upper()}")
        before = tag
    if not may_follow(before, OUTSIDE, scheme):
        return TagFault(
            len(tags) - 1, f"the tag {named(before)} cannot stand at the end of a sentence in {scheme.upper()}"
        )
    return None


def detect_scheme(sentences: Iterable[Sequence[str]]) -> str | None:
    """Return the scheme that the fewest sentences violate, IOB2 if there are no phrases; None if tags are not phrase
    tags (parts of speech)."""
    broken = dict.fromkeys(SCHEMES, 0)
    for tags in sentences:
        if not all(is_phrase_tag(tag) for tag in tags):
            return None
        for scheme in SCHEMES:
            broken[scheme] += find_tag_fault(tags, scheme) is not None
    return min(broken, key=broken.__getitem__)


def allowed_transitions(tags: Sequence[str], scheme: str) -> Transitions:
    """Return the transitions that a scheme allows among these tags."""
    check_scheme(scheme)
    return Transitions(
        tuple(tuple(may_follow(before, tag, scheme) for tag in tags) for before in tags),
        tuple(may_follow(OUTSIDE, tag, scheme) for tag in tags),
        tuple(may_follow(tag, OUTSIDE, scheme) for tag in tags),
    )


def may_follow(before: str, tag: str, scheme: str) -> bool:
    """Whether a tag may follow another. A sentence begins after O and ends before O."""
    (prefix_before, label_before), (prefix, label) = tag_parts(before), tag_parts(tag)
    if prefix not in SCHEMES[scheme]:
        return False
    continues = prefix_before in "BI" and label_before == label
    if scheme == "iob1":
        return continues or prefix != "B"
    if scheme == "iob2":
        return continues or prefix != "I"
    return continues if prefix in "IE" else prefix_before not in "BI"


def tag_parts(tag: str) -> tuple[str, str]:
    """Split a tag into prefix and label."""
    if not is_phrase_tag(tag):
        raise UserError(f"the tag {named(tag)} belongs to no scheme; a tag is O, or B-, I-, E- or S- and a label")
    return tag[0], tag[2:]


def is_phrase_tag(tag: str) -> bool:
    return tag == OUTSIDE or tag in ("B", "I", "E", "S") or tag[:2] in ("B-", "I-", "E-", "S-")


def check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise unknown("scheme", scheme, SCHEMES)
