"""Run the laws (property tests) on what your own Python file adds to the tables: cells, scores, positions, wirings,
norms, poolings, mixers, character encoders, tree layers, models and tasks.

For every broken law the smallest failing case is shown, and the exit code is 1. A task is tested on a few examples of
its data: counts agree with the loss, results do not depend on padding or on other examples of the batch, and
predictions and answers survive JSON. Instruments, corpus formats, optimisers and schedules have no laws: they are only
named.

  clew check mine.py

CONTRIBUTING.md shows how to write your own cell, task, source, instrument or corpus format.
"""

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE.py",
        help='a file with lines such as CELLS["mine"] = Mine or TASKS["mine"] = text_task(...)',
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per law")


def run(options: argparse.Namespace) -> int:
    from clew.cli.options.code import load_code
    from clew.core.errors import UserError
    from clew.laws.check import KINDS, find_additions

    if options.code is not None:
        raise UserError("`clew check FILE.py` takes the file as its argument; leave --code out")
    additions = find_additions(lambda: load_code(Path(options.file)))
    if not additions:
        kinds = ", ".join(KINDS)
        raise UserError(
            f'{options.file} adds nothing to the tables with laws ({kinds}); add a line such as CELLS["mine"] = Mine'
        )
    for each in additions:
        if each.replaces:
            say(f"note: {options.file} replaces the {each.kind} '{each.name}' of clew")
    results = [result for each in additions for result in each.check()]
    for each in additions:
        if not each.has_laws:
            say(f"{options.file} adds {each.kind} '{each.name}', which no law checks; try it: {trial(each, options)}")
    if options.json:
        for result in results:
            fields = {
                "kind": result.kind,
                "name": result.name,
                "law": result.law,
                "meaning": result.meaning,
                "holds": result.holds,
            }
            print(json.dumps({**fields, "case": None if result.broken is None else str(result.broken)}))
    else:
        for member in dict.fromkeys(f"{result.kind} '{result.name}'" for result in results):
            show(member, [result for result in results if f"{result.kind} '{result.name}'" == member])
    return 0 if all(result.holds for result in results) else 1


TRIALS = {
    "instrument": "clew look {} RUN",
    "corpus format": "clew data FILE",
    "optimiser": "clew train RECIPE training.optimiser={}",
    "schedule": "clew train RECIPE training.schedule={}",
}
"""A command that uses an entry of a table without laws."""


def trial(addition: Any, options: argparse.Namespace) -> str:
    return f"{TRIALS[addition.kind].format(shlex.quote(addition.name))} --code {shlex.quote(options.file)}"


def show(member: str, results: list[Any]) -> None:
    """Print the broken laws, each with its smallest case, and then those that hold, with a line for each setting in
    which they were checked."""
    for result in results:
        if not result.holds:
            print(result)
    holding: dict[str, list[str]] = {}
    for result in results:
        if result.holds:
            law, _, setting = result.law.partition(", ")
            holding.setdefault(setting, []).append(law)
    laws = holding.pop("", [])
    count = sum(result.holds for result in results)
    print(f"{member}: {count} of {len(results)} laws hold" + (f": {', '.join(laws)}" if laws else ""))
    while holding:
        setting, laws = next(iter(holding.items()))
        settings = [other for other in holding if holding[other] == laws]
        print(f"    {'; '.join(settings)}: {', '.join(laws)}")
        for same in settings:
            del holding[same]
