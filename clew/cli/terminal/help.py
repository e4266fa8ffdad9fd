"""Help that fits the terminal: paragraphs are wrapped, and long examples continue after a backslash, so that they can
still be pasted."""

import argparse
import re
import textwrap
from typing import Any

NARROW = 60
"""Columns below which the help of an option goes below its name."""
LEAST = 24
WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")
"""A word of a shell command, which may contain quoted spaces."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Wraps paragraphs, and keeps examples on separate lines."""

    def __init__(self, prog: str):
        super().__init__(prog)
        self._width = max(self._width, LEAST)
        if self._width < NARROW:
            self._max_help_position = 6

    def _format_usage(self, *arguments: Any, **keywords: Any) -> str:
        usage = " ".join(super()._format_usage(*arguments, **keywords).split())
        width = self._width
        return (
            "\n".join(
                textwrap.wrap(usage, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
            )
            + "\n\n"
        )

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line if line else "" for line in folded(text, width - len(indent)))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        invocation = super()._format_action_invocation(action)
        if not self._is_wide(action, invocation):
            return invocation
        return f"{', '.join(action.option_strings)} {action.dest.upper()}" if action.option_strings else invocation

    def _expand_help(self, action: argparse.Action) -> str:
        text = super()._expand_help(action)
        if action.option_strings and self._is_wide(action, super()._format_action_invocation(action)):
            return f"{text}; one of {', '.join(map(str, action.choices or ()))}"
        return text

    def _is_wide(self, action: argparse.Action, invocation: str) -> bool:
        """Whether the choices of an option do not fit beside its name."""
        return action.choices is not None and action.metavar is None and len(invocation) + 2 > self._width


def folded(text: str, width: int) -> list[str]:
    """Wrap a text at a width: paragraphs are joined and wrapped, and indented lines stay separate."""
    lines: list[str] = []
    paragraph: list[str] = []

    def write() -> None:
        lines.extend(textwrap.wrap(" ".join(paragraph), width, break_long_words=False, break_on_hyphens=False))
        paragraph.clear()

    for line in text.strip("\n").split("\n"):
        if line and not line.startswith(" ") and not starts_anew(paragraph, line):
            paragraph.append(line)
            continue
        write()
        if not line or not line.startswith(" "):
            paragraph += [line] if line else []
            lines += [] if line else [""]
        elif len(line) > width:
            lines += continued(line, width)
        else:
            lines.append(line)
    write()
    return lines


def starts_anew(paragraph: list[str], line: str) -> bool:
    """Whether a line starts a new paragraph without an empty line before it: a label, a colon and two spaces, as in
    `first command:  clew ...`."""
    return bool(paragraph) and ":  " in line


def continued(line: str, width: int) -> list[str]:
    """Split an indented line; if it is a command, all but the last line end in a backslash."""
    indent = line[: len(line) - len(line.lstrip())]
    words = WORD.findall(line)
    mark = (
        " \\" if words[0] in ("clew", "echo", "printf", "curl", "python", "torchrun", "cat") or "clew" in words else ""
    )
    lines, current = [], indent + words[0]
    for word in words[1:]:
        if len(current) + 1 + len(word) + len(mark) > width:
            lines.append(current + mark)
            current = indent + "    " + word
        else:
            current += f" {word}"
    return [*lines, current]


def usage_line(parser: argparse.ArgumentParser) -> str:
    """Return the usage line, with `[options]` for the options, which the help lists below it."""
    words = [parser.prog, "[options]"]
    for action in parser._actions:
        if action.option_strings and action.required:
            words += [action.option_strings[-1], str(action.metavar or action.dest.upper())]
    for action in parser._get_positional_actions():
        name = str(action.metavar or action.dest)
        words.append({"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}.get(str(action.nargs), name))
    return " ".join(words).replace("%", "%%")
