"""Help that fits the terminal: sentences fold at its width, examples go on behind a backslash, so that they can still
be pasted."""

import argparse
import re
import textwrap
from typing import Any

NARROW = 60
"""Columns below which what an option does stands under its name."""
LEAST = 24
WORD = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+""")
"""A word of a shell's line; spaces inside quotes part nothing."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Folds paragraphs, and keeps examples on lines of their own."""

    def __init__(self, prog: str):
        super().__init__(prog)
        self._width = max(self._width, LEAST)
        if self._width < NARROW:
            self._max_help_position = 6

    def _format_usage(self, *arguments: Any, **more: Any) -> str:
        whole = " ".join(super()._format_usage(*arguments, **more).split())
        width = self._width
        return (
            "\n".join(
                textwrap.wrap(whole, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
            )
            + "\n\n"
        )

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line if line else "" for line in folded(text, width - len(indent)))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        whole = super()._format_action_invocation(action)
        if not self._is_wide(action, whole):
            return whole
        return f"{', '.join(action.option_strings)} {action.dest.upper()}" if action.option_strings else whole

    def _expand_help(self, action: argparse.Action) -> str:
        said = super()._expand_help(action)
        if action.option_strings and self._is_wide(action, super()._format_action_invocation(action)):
            return f"{said}; one of {', '.join(map(str, action.choices or ()))}"
        return said

    def _is_wide(self, action: argparse.Action, invocation: str) -> bool:
        """Whether the choices of an option have no room beside its name."""
        return action.choices is not None and action.metavar is None and len(invocation) + 2 > self._width


def folded(text: str, width: int) -> list[str]:
    """Lines of at most so many columns: paragraphs joined and folded, indented lines by themselves."""
    lines: list[str] = []
    waiting: list[str] = []

    def write() -> None:
        lines.extend(textwrap.wrap(" ".join(waiting), width, break_long_words=False, break_on_hyphens=False))
        waiting.clear()

    for line in text.strip("\n").split("\n"):
        if line and not line.startswith(" ") and not ends_early(waiting, line):
            waiting.append(line)
            continue
        write()
        if not line or not line.startswith(" "):
            waiting += [line] if line else []
            lines += [] if line else [""]
        elif len(line) > width:
            lines += continued(line, width)
        else:
            lines.append(line)
    write()
    return lines


def ends_early(before: list[str], line: str) -> bool:
    """Whether a line begins anew although none is empty before it: a heading, a colon and two spaces, as `begin with:  clew ...`."""
    return bool(before) and ":  " in line


def continued(line: str, width: int) -> list[str]:
    """An indented line in pieces; all but the last of a command end in a backslash."""
    indent = line[: len(line) - len(line.lstrip())]
    words = WORD.findall(line)
    mark = (
        " \\" if words[0] in ("clew", "echo", "printf", "curl", "python", "torchrun", "cat") or "clew" in words else ""
    )
    lines, now = [], indent + words[0]
    for word in words[1:]:
        if len(now) + 1 + len(word) + len(mark) > width:
            lines.append(now + mark)
            now = indent + "    " + word
        else:
            now += f" {word}"
    return [*lines, now]


def usage_of(parser: argparse.ArgumentParser) -> str:
    """The command with its options as one word: they are listed below."""
    words = [parser.prog, "[options]"]
    for action in parser._actions:
        if action.option_strings and action.required:
            words += [action.option_strings[-1], str(action.metavar or action.dest.upper())]
    for action in parser._get_positional_actions():
        name = str(action.metavar or action.dest)
        words.append({"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}.get(str(action.nargs), name))
    return " ".join(words).replace("%", "%%")
