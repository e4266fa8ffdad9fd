"""Phrases as tags, one a word: IOB1, IOB2 and BIOES. Readers, scores and constraints share them; knows no file and no model.

    words     Ada   Lovelace  Byron  met    Babbage
    IOB1      I-PER I-PER     B-PER  O      I-PER      B- only right after a phrase of the same label (Ramshaw and Marcus 1995)
    IOB2      B-PER I-PER     B-PER  O      B-PER      B- on every first word (Ratnaparkhi 1998)
    BIOES     B-PER E-PER     S-PER  O      S-PER      and E- on the last, S- on a phrase of one word

A tag is `O`, or a prefix and a label with a hyphen between (`B-PER`); a prefix alone has the label "". Labels may have hyphens.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clew.core.errors import UserError, named, unknown
from clew.core.trees import Span

OUTSIDE = "O"
SCHEMES = {"iob2": "BIO", "iob1": "BIO", "bioes": "BIOES"}
"""The prefixes of each."""


class TagFault(NamedTuple):
    place: int  # counted from 0
    sentence: str


class Transitions(NamedTuple):
    """What may follow what: `between[a][b]` where tag a may stand before tag b, `first[b]` and `last[a]` at a sentence's ends."""

    between: tuple[tuple[bool, ...], ...]
    first: tuple[bool, ...]
    last: tuple[bool, ...]


def tag_spans(tags: Sequence[str]) -> list[Span]:
    """The phrases of tags in any scheme and however broken: each goes on while nothing parts it.

    Two words are parted where the second is O, B- or S-, where the first is O, E- or S-, and where their labels differ. So an I- that
    follows nothing starts a phrase, and every tag but O is in exactly one.

    Of B-, I- and O (IOB1, IOB2) and of I-, E- and O (IOE) these are conlleval's phrases. BIOES it does not know: S- parts nothing there and
    E- no phrase from a B- of its label, so that S-X S-X, or B-X E-X B-X E-X, is one phrase to it and two here. What it prints of BIOES
    compares once the tags are converted to IOB2. Its tags [ and ] are of no scheme here.
    """
    found: list[Span] = []
    before = (OUTSIDE, "")
    for place, tag in enumerate(tags):
        prefix, label = tag_parts(tag)
        if prefix != OUTSIDE:
            if prefix in "BS" or before[0] in "OES" or before[1] != label:
                found.append(Span(label, place, place))
            found[-1] = found[-1]._replace(end=place + 1)
        before = (prefix, label)
    return found


def span_tags(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """The tags of phrases that do not overlap, in a sentence of so many words."""
    check_scheme(scheme)
    tags = [OUTSIDE] * length
    before = Span("", -1, -1)
    for span in sorted(spans, key=lambda span: span.start):
        if not max(before.end, 0) <= span.start < span.end <= length:
            raise UserError(f"{span} must have words, lie in the {length} of its sentence and share none with another")
        prefixes = ["I"] * (span.end - span.start)
        if scheme != "iob1" or (before.end, before.label) == (span.start, span.label):
            prefixes[0] = "B"
        if scheme == "bioes":
            prefixes[-1] = "S" if len(prefixes) == 1 else "E"
        tags[span.start : span.end] = [f"{prefix}-{span.label}" if span.label else prefix for prefix in prefixes]
        before = span
    return tags


def convert_tags(tags: Sequence[str], scheme: str) -> list[str]:
    """The same phrases in another scheme; tags that break their own are read as `tag_spans` reads them."""
    return span_tags(tag_spans(tags), len(tags), scheme)


class PlainTags(NamedTuple):
    """IOB2 for tags of any scheme: `names` are its tags, `first[b]` is the number of the one that tag b becomes at a sentence's start, and
    `after[a][b]` after tag a. Two tags tell it, so that a table does what `convert_tags` does, also where a scheme is broken."""

    names: tuple[str, ...]
    first: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]


def plain_tags(tags: Sequence[str]) -> PlainTags:
    """Those that tags become, each label's once."""
    labels = dict.fromkeys(tag_parts(tag)[1] for tag in tags if tag != OUTSIDE)
    names = (OUTSIDE, *(f"{prefix}-{label}" if label else prefix for label in labels for prefix in "BI"))
    first, *after = (tuple(names.index(convert_tags([before, tag], "iob2")[1]) for tag in tags) for before in (OUTSIDE, *tags))
    return PlainTags(names, first, tuple(after))


def find_tag_fault(tags: Sequence[str], scheme: str) -> TagFault | None:
    """The first tag that the scheme does not allow where it stands."""
    check_scheme(scheme)
    before = OUTSIDE
    for place, tag in enumerate(tags):
        if not may_follow(before, tag, scheme):
            after = f"after {named(before)}" if place else "at the start of a sentence"
            return TagFault(place, f"the tag {named(tag)} cannot stand {after} in {scheme.upper()}")
        before = tag
    if not may_follow(before, OUTSIDE, scheme):
        return TagFault(len(tags) - 1, f"the tag {named(before)} cannot stand at the end of a sentence in {scheme.upper()}")
    return None


def detect_scheme(sentences: Iterable[Sequence[str]]) -> str | None:
    """The scheme that the fewest sentences break, IOB2 where there are no phrases; None where tags are no phrases' (parts of speech)."""
    broken = dict.fromkeys(SCHEMES, 0)
    for tags in sentences:
        if not all(is_phrase_tag(tag) for tag in tags):
            return None
        for scheme in SCHEMES:
            broken[scheme] += find_tag_fault(tags, scheme) is not None
    return min(broken, key=broken.__getitem__)


def allowed_transitions(tags: Sequence[str], scheme: str) -> Transitions:
    """What a scheme allows among these tags."""
    check_scheme(scheme)
    return Transitions(
        tuple(tuple(may_follow(before, tag, scheme) for tag in tags) for before in tags),
        tuple(may_follow(OUTSIDE, tag, scheme) for tag in tags),
        tuple(may_follow(tag, OUTSIDE, scheme) for tag in tags),
    )


def may_follow(before: str, tag: str, scheme: str) -> bool:
    """Whether a tag may stand after another. A sentence's first tag stands after O, and O after its last."""
    (prefix_before, label_before), (prefix, label) = tag_parts(before), tag_parts(tag)
    if prefix not in SCHEMES[scheme]:
        return False
    goes_on = prefix_before in "BI" and label_before == label
    if scheme == "iob1":
        return goes_on or prefix != "B"
    if scheme == "iob2":
        return goes_on or prefix != "I"
    return goes_on if prefix in "IE" else prefix_before not in "BI"


def tag_parts(tag: str) -> tuple[str, str]:
    """Prefix and label."""
    if not is_phrase_tag(tag):
        raise UserError(f"the tag {named(tag)} is of no scheme; a tag is O, or B-, I-, E- or S- and a label")
    return tag[0], tag[2:]


def is_phrase_tag(tag: str) -> bool:
    return tag == OUTSIDE or tag in ("B", "I", "E", "S") or tag[:2] in ("B-", "I-", "E-", "S-")


def check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise unknown("scheme", scheme, SCHEMES)
