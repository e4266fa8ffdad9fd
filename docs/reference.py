"""Docstrings as the reference shows them: plain text with code, equations and listings set apart also where they are
not indented.

The formatter takes away the indentation that all lines below a docstring's first one share, so that a docstring which
is a line and an equation has none. Such a paragraph is known by its lines: each has an equals sign or columns, and it
does not end as prose does.
"""

import re
from typing import Any

import griffe


class Reference(griffe.Extension):
    """Runs on every module and object that is read for the site."""

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        """What a module hands on from another one is shown there alone."""
        mod.exports = None

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            first, *others = obj.docstring.value.split("\n\n")
            # The tables of modules show a docstring's first line; its first paragraph is one sentence or two, broken
            # over lines.
            obj.docstring.value = "\n\n".join([literal(" ".join(first.split("\n"))), *map(set_apart, others)])


def set_apart(paragraph: str) -> str:
    """A block of code as it is, an equation indented as one, and prose without accidental markup."""
    lines = paragraph.splitlines()
    if paragraph.startswith("    "):
        return paragraph
    is_listing = all(re.search(r" = |\S {2,}\S", line) for line in lines) and not paragraph.rstrip().endswith(
        (".", ":", ";", ",")
    )
    return "\n".join("    " + line for line in lines) if is_listing else literal(paragraph)


def literal(text: str) -> str:
    """`counts[k][row]` and `<s>` in prose are no link and no tag; what is between backticks is code already."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("][", "]\\[").replace("<", "&lt;") for part in parts)
