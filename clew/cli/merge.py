"""Make one run of an adapter and the run that it stands on.

For example:

  clew runs merge runs/finetune-classify --out runs/merged

An adapter's run (transfer.adapter=lora) holds what was trained alone, a few megabytes, and needs the run of
transfer.from beside it. What is written holds all weights, needs nothing but itself, and is used as any run is:
transfer.from and embedding.from take it too.
"""

import argparse
from pathlib import Path

from clew.cli.terminal.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="the run directory of an adapter")
    parser.add_argument("--out", metavar="DIR", required=True, help="where the merged run goes")


def run(options: argparse.Namespace) -> int:
    from clew.runs.merging import merge_run

    merged = merge_run(
        Path(options.folder), Path(options.out), code=None if options.code is None else Path(options.code)
    )
    count = sum(parameter.numel() for parameter in merged.task.parameters())
    say(f"{count:,} parameters written to {merged.folder}")
    return 0
