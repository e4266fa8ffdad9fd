"""Run the laws (property tests) on what your own Python file adds to the tables: cells, scores, positions, wirings,
norms, poolings, mixers, character encoders, tree layers, models and tasks.

For every broken law the smallest failing case is shown, and the exit code is 1. A task is tested on a few examples of
its data: counts agree with the loss, results do not depend on padding or on other examples of the batch, and
predictions and answers survive JSON.

  clew check mine.py

CONTRIBUTING.md shows how to write your own cell, task, source, instrument or corpus format.
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
    parser.add_argument("--json", action="store_true", help="print one JSON object per law")


def run(options: argparse.Namespace) -> int:
    from clew.cli.options.code import load_code
    from clew.core.errors import UserError
    from clew.laws.check import KINDS, check_additions

    if options.code is not None:
        raise UserError("`clew check FILE.py` takes the file as its argument; leave --code out")
    results = check_additions(lambda: load_code(Path(options.file)))
    if not results:
        kinds = ", ".join(KINDS)
        raise UserError(
            f'{options.file} adds nothing to the tables with laws ({kinds}); add a line such as CELLS["mine"] = Mine'
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
    """Print the broken laws, each with its smallest case, and then those that hold, in one line."""
    for result in results:
        if not result.holds:
            print(result)
    holding = list(dict.fromkeys(result.law for result in results if result.holds))
    count = sum(result.holds for result in results)
    print(f"{member}: {count} of {len(results)} laws hold" + (f": {', '.join(holding)}" if holding else ""))
