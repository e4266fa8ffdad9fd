"""`python -m benchmarks.faults [NAME ...] [--count N] [--seed N]`: run trials of each kind of fault and print their
results.

A kind of fault is a file in this folder, with `run(count, seed) -> Result`, and an entry in KINDS.
"""

import argparse
import os
import sys
from importlib import import_module

KINDS = {
    "configs": 10_000,
    "texts": 10_000,
    "inputs": 1_000,
    "strangers": 5_000,
    "commands": 100,
    "kills": 300,
    "saves": 1000,
    "corruptions": 1000,
    "interruptions": 200,
    "orders": 50,
    "ranks": 22,
    "memory": 100_000,
    "divergence": 300,
}
"""The default number of trials of each kind; for `memory`, the number of steps."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"kinds of fault: {', '.join(KINDS)} (default: all)")
    parser.add_argument("--count", type=int, help="trials of each kind (default: see KINDS)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the trials")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in KINDS]:
        parser.error(f"unknown kind {unknown[0]!r}; known: {', '.join(KINDS)}")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # processes are forked, which does not work after a GPU was used
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # forking does not work with a tokenizer's threads either
    failed = False
    for name in options.names or KINDS:
        result = import_module(f"benchmarks.faults.{name}").run(options.count or KINDS[name], options.seed)
        failed |= bool(result.failures)
        print(result, flush=True)
    sys.exit(int(failed))
