"""Text in pictures: made printable, escaped, shortened and measured. Text is never interpreted as markup."""

import unicodedata
from functools import lru_cache
from html import escape

JOINERS, REPLACEMENT = "\u200c\u200d", "\ufffd"
SIGNS = {"\n": "⏎", "\r": "␍", "\t": "⇥", "\xa0": "⍽"}
"""Signs for white space that would be invisible, or would break a line."""


def printable_letters(text: str) -> str:
    """The text without characters that a terminal would execute or that XML cannot contain."""
    return "".join(c if c.isprintable() or c in JOINERS else " " if c.isspace() else REPLACEMENT for c in text)


def visible(text: str) -> str:
    """The text with everything made visible: spaces at its ends as dots, other white space as signs, and unprintable
    characters (controls, marks that change the writing direction, lone surrogates) as escapes."""
    shown = "".join(SIGNS.get(c, c if c.isprintable() or c in JOINERS else escaped(c)) for c in text)
    inner = shown.strip(" ")
    if len(inner) == len(shown):
        return shown
    before = len(shown) - len(shown.lstrip(" ")) if inner else len(shown)
    return "·" * before + inner + "·" * (len(shown) - before - len(inner))


def escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def markup(text: str) -> str:
    """The text, escaped for use between tags or in a quoted attribute."""
    return escape(visible(text))


def verbatim(text: str) -> str:
    """The same, with white space as it is: for preformatted text, or a page in an attribute."""
    return escape(text)


def shortened_name(name: str, most: int) -> str:
    """A long name with its middle left out, since names usually differ at their ends."""
    if len(name) <= most:
        return name
    end = (most - 1) // 2
    return f"{name[: most - 1 - end]}…{name[len(name) - end :]}"


def text_width(text: str, size: float) -> int:
    """An upper bound of the width in common fonts, of which DejaVu Sans is the widest."""
    return max(8, round(size * sum(map(em, text))))


@lru_cache(10_000)
def em(character: str) -> float:
    if has_no_width(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.15
    if character in "iIjlfrt.,:;'`|!()[]{}-/ ":
        return 0.43
    if character in "mwMW@%&…—":
        return 1.0
    return 0.72 if character.isupper() or not character.isascii() else 0.65


def has_no_width(character: str) -> bool:
    return character in JOINERS or unicodedata.category(character) in ("Mn", "Me")


def wrapped(text: str, width: float, size: float) -> list[str]:
    """The lines of a paragraph, at most `width` wide; wider words are broken."""
    most = (width - 0.5) / size
    lines, line, used = [], "", 0.0
    for word in text.split(" "):
        for piece, wide in pieces(word, most):
            if line and used + em(" ") + wide > most:
                lines.append(line)
                line, used = piece, wide
            else:
                line, used = (f"{line} {piece}", used + em(" ") + wide) if line else (piece, wide)
    return [*lines, line]


def pieces(word: str, most: float) -> list[tuple[str, float]]:
    """A word in pieces of at most `most` em, each with its width."""
    split, start, used = [], 0, 0.0
    for place, wide in enumerate(map(em, word)):
        if used + wide > most and place > start:
            split.append((word[start:place], used))
            start, used = place, 0.0
        used += wide
    return [*split, (word[start:], used)]
