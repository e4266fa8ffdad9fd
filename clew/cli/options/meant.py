"""Suggestions for unknown words of a command: the setting, option or verb of two words with the closest spelling."""

import argparse
import os
from collections.abc import Sequence
from difflib import get_close_matches

from clew.cli.verbs import NAMED_TWICE, subverbs
from clew.core.errors import STRICT


def suggest_option(parser: argparse.ArgumentParser, unknown: Sequence[str], words: Sequence[str]) -> str:
    """Return `; did you mean training.steps=10?` for `--steps 10`, if the verb takes settings, `; did you mean
    --out?` for `--output`, and otherwise an empty string."""
    option = next((word for word in unknown if word.startswith("--")), "")
    name, equals, value = option.lstrip("-").partition("=")
    if near := get_close_matches(f"--{name}", parser._option_string_actions, n=1, cutoff=STRICT):
        return f"; did you mean {near[0]}?"
    if not any(action.dest == "settings" for action in parser._actions) or (field := find_setting(name)) is None:
        return ""
    following = words[words.index(option) + 1] if option in words[:-1] else "--"
    if not equals and not following.startswith("--") and "=" not in following:
        equals, value = "=", following
    return f"; did you mean {field}{equals}{value}?"


def suggest_verb(verb: str, words: Sequence[str]) -> str:
    """Return `; did you mean `clew runs compare`?` for `clew runs comprae`, unless a file or folder has that name, and
    otherwise an empty string."""
    if not words or os.path.exists(words[0]):
        return ""
    seconds = {
        name.partition(" ")[2]: name
        for name in [*subverbs(verb), *(name for name, own in NAMED_TWICE.items() if own == verb)]
    }
    near = get_close_matches(words[0], seconds, n=1, cutoff=STRICT)
    return f"; did you mean `clew {seconds[near[0]]}`?" if near else ""


def find_setting(name: str) -> str | None:
    """Return the setting with this name, or the one that the name is a known synonym of."""
    from clew.runs.config import every_field, meant_by

    plain = name.replace("-", "_")
    return plain if plain in every_field() else meant_by(plain)
