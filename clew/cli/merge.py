"""Merge an adapter into its base run, and write the result as a new run.

For example:

  clew runs merge runs/finetune-classify --out runs/merged

An adapter's run (transfer.adapter=lora) stores only the trained weights, a few megabytes, and needs the base run that
transfer.from names. The merged run stores all weights, does not need the base run, and can be used like any run, also
in transfer.from and embedding.from.
"""

import argparse
from pathlib import Path

from clew.cli.terminal.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="the run directory of an adapter")
    parser.add_argument("--out", metavar="DIR", required=True, help="the folder of the merged run")


def run(options: argparse.Namespace) -> int:
    from clew.runs.merging import merge_run

    merged = merge_run(
        Path(options.folder), Path(options.out), code=None if options.code is None else Path(options.code)
    )
    count = sum(parameter.numel() for parameter in merged.task.parameters())
    say(f"wrote {count:,} parameters to {merged.folder}")
    return 0
