"""Print what makes a shell complete clew's commands: verbs, options, recipes, run folders and files.

For example:

  clew completion bash
  clew completion zsh
  clew completion fish > ~/.config/fish/completions/clew.fish

For bash, add `eval "$(clew completion bash)"` to ~/.bashrc. For zsh, add `source <(clew completion zsh)` to
~/.zshrc, behind the line with compinit.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from clew.cli.options.forms import read_instruments
from clew.cli.verbs import ABOUT, FIRST, FORMS, below, find_verb

WORDS = "CLEW_COMPLETE"
"""The environment variable in which a shell hands over the words so far, a line each, the unfinished one last."""

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
        raise UserError(f"name your shell: clew completion {'|'.join(SHELLS)}")
    print(SHELLS[options.shell], end="")
    return 0


def candidates(words: list[str]) -> list[str]:
    """What may stand in the place of the last word; nothing where any file may."""
    from clew.cli.main import verb_parser

    *before, unfinished = words
    if not before:
        found: Iterator[str] = iter([*FIRST, *(name for name in FORMS if name not in ABOUT), "--help", "--version"])
    elif (call := find_verb(before)) is None:
        return []
    else:
        second = [name.partition(" ")[2] for name in below(before[0])] if len(before) == 1 else []
        found = iter([*second, *arguments(verb_parser(call.verb), call.words, unfinished)])
    return [word for word in found if word.startswith(unfinished)]


def arguments(parser: argparse.ArgumentParser, before: list[str], unfinished: str) -> Iterator[str]:
    """Options, values of the option in front, or what stands at this place without one."""
    by_name = {name: action for action in parser._actions for name in action.option_strings}
    option = by_name.get(before[-1]) if before else None
    if option is not None and option.nargs != 0:
        yield from values(option, unfinished)
    elif unfinished.startswith("-"):
        yield from (name for name in by_name if name.startswith("--") or unfinished == name)
    else:
        places = [action for action in parser._actions if not action.option_strings]
        place = sum(not is_of_option(number, before, by_name) for number in range(len(before)))
        if places:
            yield from values(places[min(place, len(places) - 1)], unfinished)


def is_of_option(number: int, words: list[str], by_name: dict[str, argparse.Action]) -> bool:
    """Whether a word is an option, or the value of the one in front of it."""
    front = by_name.get(words[number - 1]) if number else None
    return words[number].startswith("-") or (front is not None and front.nargs != 0)


def values(action: argparse.Action, unfinished: str) -> Iterator[str]:
    """What an argument may be, by its choices or by what its help calls it."""
    from clew.recipes import RECIPES

    if action.choices is not None:
        yield from map(str, action.choices)
        return
    called = action.metavar if isinstance(action.metavar, str) else ""
    if action.dest == "instrument":
        yield from read_instruments()
        yield from run_folders(unfinished)
    if "RECIPE" in called or called == "NAME|WORD" or (called == "RUN" and "recipe" in str(action.help)):
        yield from RECIPES
    if "RUN" in called or action.dest in ("runs", "folder"):
        yield from run_folders(unfinished)


def run_folders(unfinished: str) -> Iterator[str]:
    """Runs in the folder that is typed, or in `runs`."""
    typed = unfinished.rpartition("/")[0]
    place = Path(typed or "runs")
    if place.is_dir():
        yield from sorted(str(folder) for folder in place.iterdir() if (folder / "config.json").is_file())
