"""Run the laws on what a Python file of yours adds to the tables: cells, scores, positions, wirings, norms, poolings,
mixers, readers of characters, tree layers, models and tasks.

For every law that is broken the smallest failing case is shown, and the exit code is 1. A task is tried on a few
examples of the data that it reads: counts agree with the loss, padding and other examples of a batch do not show,
predictions and answers survive JSON.

  clew check mine.py

CONTRIBUTING.md walks through a cell, a task, a source, an instrument and a corpus format of one's own.
"""

import argparse
import json
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE.py",
        help='a file with lines such as CELLS["mine"] = Mine or TASKS["mine"] = text_task(...)',
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a law")


def run(options: argparse.Namespace) -> int:
    from clew.cli.options.code import load_code
    from clew.core.errors import UserError
    from clew.laws.check import KINDS, check_additions

    if options.code is not None:
        raise UserError("clew check takes the file itself: clew check FILE.py, without --code")
    results = check_additions(lambda: load_code(Path(options.file)))
    if not results:
        kinds = ", ".join(KINDS)
        raise UserError(
            f'{options.file} adds nothing to a table that has laws ({kinds}); a line such as CELLS["mine"] = Mine does'
        )
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


def show(member: str, results: list[Any]) -> None:
    """What is broken, each with its smallest case, and then what holds in one line."""
    for result in results:
        if not result.holds:
            print(result)
    holding = list(dict.fromkeys(result.law for result in results if result.holds))
    count = sum(result.holds for result in results)
    print(f"{member}: {count} of {len(results)} laws hold" + (f": {', '.join(holding)}" if holding else ""))
