"""What words that a verb does not have were meant to be: a setting, an option or a verb of two words that is spelt much
like them."""

import argparse
import os
from collections.abc import Sequence
from difflib import get_close_matches

from clew.cli.verbs import NAMED_TWICE, below


def option_meant(parser: argparse.ArgumentParser, unknown: Sequence[str], words: Sequence[str]) -> str:
    """`; did you mean training.steps=10?` of `--steps 10` where a verb takes settings, `--out` of `--output`; else
    nothing."""
    option = next((word for word in unknown if word.startswith("--")), "")
    name, equals, value = option.lstrip("-").partition("=")
    if near := get_close_matches(f"--{name}", parser._option_string_actions, n=1, cutoff=0.75):
        return f"; did you mean {near[0]}?"
    if not any(action.dest == "settings" for action in parser._actions) or (field := setting_named(name)) is None:
        return ""
    following = words[words.index(option) + 1] if option in words[:-1] else "--"
    if not equals and not following.startswith("--") and "=" not in following:
        equals, value = "=", following
    return f"; did you mean {field}{equals}{value}?"


def verb_meant(verb: str, words: Sequence[str]) -> str:
    """`; did you mean `clew runs compare`?` of `clew runs comprae`, unless that is a file or a folder; else nothing."""
    if not words or os.path.exists(words[0]):
        return ""
    seconds = {
        name.partition(" ")[2]: name
        for name in [*below(verb), *(name for name, own in NAMED_TWICE.items() if own == verb)]
    }
    near = get_close_matches(words[0], seconds, n=1, cutoff=0.75)
    return f"; did you mean `clew {seconds[near[0]]}`?" if near else ""


def setting_named(name: str) -> str | None:
    """The setting that a name is, or is a known name of."""
    from clew.runs.config import every_field, meant_by

    plain = name.replace("-", "_")
    return plain if plain in every_field() else meant_by(plain)
