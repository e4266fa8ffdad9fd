"""`python -m benchmarks.encoding [--processes 1 2] [--megabytes 32]`: speed of encoding a text into shards of token
ids, by the number of processes.

The text is Tiny Shakespeare, repeated with its lines in a new order each time; the tokenizer is byte-level BPE with
8,192 tokens. By default the `tokenizers` library uses one thread, so that the ratio shows the effect of processes
alone. With --no-one-thread it uses all cores.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from clew.data.caching import encoded
from clew.data.corpora import find_corpus
from clew.data.files.text_files import TextString, find_text
from clew.text.tokenizer import Tokenizer
from clew.text.train import train_bpe

SHARD = 2**20
"""Characters per shard; fewer than usual, so that a short text has as many shards as a long one."""


def write_text(path: Path, megabytes: float) -> None:
    lines = np.array("".join(find_text(find_corpus("tinyshakespeare").train)).splitlines(keepends=True))
    random = np.random.default_rng(1)
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 2**20:
            file.writelines(random.permutation(lines).tolist())


def seconds(path: Path, tokenizer: Tokenizer, workers: int) -> tuple[float, list[int]]:
    """Return the time of encoding, including the start of the processes, and the first token ids."""
    with tempfile.TemporaryDirectory() as cache:
        source = find_text(path)
        began = time.perf_counter()
        corpus = encoded.encode_corpus(source, tokenizer, cache, workers=workers)
        return time.perf_counter() - began, corpus.tokens[:100].tolist()


def measure(processes: list[int], megabytes: float, repeats: int) -> dict[int, float]:
    """Return megabytes per second for each number of processes: the median of interleaved repeats."""
    encoded.SHARD = SHARD
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        write_text(path, megabytes)
        tokenizer = train_bpe(TextString("".join(find_text(find_corpus("tinyshakespeare").train))), size=8192)
        size = path.stat().st_size / 2**20
        speeds: dict[int, list[float]] = {number: [] for number in processes}
        ids = set()
        for _ in range(repeats):
            for number in processes:
                duration, first_ids = seconds(path, tokenizer, number)
                speeds[number].append(size / duration)
                ids.add(tuple(first_ids))
        assert len(ids) == 1, "the token ids depend on the number of processes"
    return {number: statistics.median(values) for number, values in speeds.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encoding", description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--megabytes", type=float, default=32.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--one-thread",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="one thread for the tokenizers library",
    )
    options = parser.parse_args()
    if options.one_thread:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
    speeds = measure(options.processes, options.megabytes, options.repeats)
    for number, speed in speeds.items():
        print(
            f"{number} process{'es' if number > 1 else ''}: {speed:.2f} MB/s,"
            f" {speed / speeds[options.processes[0]]:.2f} times the first"
        )
