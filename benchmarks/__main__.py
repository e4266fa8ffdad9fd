"""`python -m benchmarks [NAME ...]` runs the workloads and prints the table."""

import sys
from importlib import import_module

import torch

from benchmarks.side_by_side import device

WORKLOADS = ("lstm_train", "gpt_train", "seq2seq_train", "decode")

if __name__ == "__main__":
    names = sys.argv[1:] or WORKLOADS
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        sys.exit(f"unknown workload {unknown[0]!r}; known: {', '.join(WORKLOADS)}")
    torch.manual_seed(0)
    where = torch.cuda.get_device_name() if device().type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{where}, torch {torch.__version__}", flush=True)
    for name in names:
        for comparison in import_module(f"benchmarks.{name}").run():
            print(comparison, flush=True)
