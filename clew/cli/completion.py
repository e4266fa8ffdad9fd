"""Print the completion script for a shell, which completes verbs, options, recipes, run folders and files.

For example:

  clew completion bash
  clew completion zsh
  clew completion fish > ~/.config/fish/completions/clew.fish

For bash, add `eval "$(clew completion bash)"` to ~/.bashrc. For zsh, add `source <(clew completion zsh)` to
~/.zshrc, after the line with compinit.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from clew.cli.options.forms import read_instruments
from clew.cli.verbs import ABOUT, FIRST, FORMS, find_verb, subverbs

WORDS = "CLEW_COMPLETE"
"""The environment variable in which a shell passes the words so far, one per line, the unfinished one last."""

BASH = r"""_clew() {
    local IFS=$'\n'
    COMPREPLY=($(CLEW_COMPLETE="${COMP_WORDS[*]:1:COMP_CWORD}" clew completion 2> /dev/null))
}
complete -o default -F _clew clew
"""
ZSH = r"""#compdef clew
_clew() {
    local -a candidates
    candidates=("${(@f)$(CLEW_COMPLETE="${(F)words[2,CURRENT]}" clew completion 2> /dev/null)}")
    if [[ -n "${candidates[1]}" ]]; then
        compadd -a candidates
    else
        _files
    fi
}
compdef _clew clew
"""
FISH = r"""function __clew_complete
    set -l words (commandline -opc) (commandline -ct)
    CLEW_COMPLETE=(string join \n -- $words[2..] | string collect) clew completion 2> /dev/null
end
complete -c clew -a '(__clew_complete)'
"""
SHELLS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=SHELLS, help="bash, zsh or fish")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError

    if (words := os.environ.get(WORDS)) is not None:
        print("\n".join(candidates(words.split("\n"))))
        return 0
    if options.shell is None:
        raise UserError(f"no shell was given; name it: clew completion {'|'.join(SHELLS)}")
    print(SHELLS[options.shell], end="")
    return 0


def candidates(words: list[str]) -> list[str]:
    """Return the candidates for the last word; empty if it may be any file."""
    from clew.cli.main import verb_parser

    *before, unfinished = words
    if not before:
        known: Iterator[str] = iter([*FIRST, *(name for name in FORMS if name not in ABOUT), "--help", "--version"])
    elif (call := find_verb(before)) is None:
        return []
    else:
        second = [name.partition(" ")[2] for name in subverbs(before[0])] if len(before) == 1 else []
        known = iter([*second, *arguments(verb_parser(call.verb), call.words, unfinished)])
    return [word for word in known if word.startswith(unfinished)]


def arguments(parser: argparse.ArgumentParser, before: list[str], unfinished: str) -> Iterator[str]:
    """Yield values of the preceding option, or options, or values of the positional argument."""
    by_name = {name: action for action in parser._actions for name in action.option_strings}
    option = by_name.get(before[-1]) if before else None
    if option is not None and option.nargs != 0:
        yield from values(option, unfinished)
    elif unfinished.startswith("-"):
        yield from (name for name in by_name if name.startswith("--") or unfinished == name)
    else:
        places = [action for action in parser._actions if not action.option_strings]
        place = sum(not belongs_to_option(number, before, by_name) for number in range(len(before)))
        if places:
            yield from values(places[min(place, len(places) - 1)], unfinished)


def belongs_to_option(number: int, words: list[str], by_name: dict[str, argparse.Action]) -> bool:
    """Whether a word is an option, or the value of the option before it."""
    option = by_name.get(words[number - 1]) if number else None
    return words[number].startswith("-") or (option is not None and option.nargs != 0)


def values(action: argparse.Action, unfinished: str) -> Iterator[str]:
    """Yield the values of an argument, by its choices or its name in the help."""
    from clew.recipes import RECIPES

    if action.choices is not None:
        yield from map(str, action.choices)
        return
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if action.dest == "instrument":
        yield from read_instruments()
        yield from run_folders(unfinished)
    if "RECIPE" in metavar or metavar == "NAME|WORD" or (metavar == "RUN" and "recipe" in str(action.help)):
        yield from RECIPES
    if "RUN" in metavar or action.dest in ("runs", "folder"):
        yield from run_folders(unfinished)


def run_folders(unfinished: str) -> Iterator[str]:
    """Yield the runs in the typed folder, or in `runs`."""
    typed = unfinished.rpartition("/")[0]
    place = Path(typed or "runs")
    if place.is_dir():
        yield from sorted(str(folder) for folder in place.iterdir() if (folder / "config.json").is_file())
