"""Memory and speed of training on a stream: a language model on a generated folder of Parquet files, killed and
resumed.

    python -m benchmarks.stream_memory --megabytes 500
    python -m benchmarks.stream_memory --megabytes 5000 --steps 400

The rows are random words of an embedded text. Each file has a single row group, as pandas writes it. An uninterrupted
run and a run that is killed with SIGKILL and resumed must end with the same weights. Each run is a process of its own;
its peak resident memory, including torch, is read from the operating system. The folder is deleted at the end. The disk
must have room for twice its size.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from pyarrow import parquet

from benchmarks.process_memory import peak_kilobytes
from clew.core.errors import UserError
from clew.data.corpora import find_corpus
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import read_metrics
from clew.training.checkpoints import checkpoint_folders

SHARD_BYTES = 128 * 2**20
ROWS = 4096
"""Rows generated at a time."""
WORDS = (50, 600)
"""The smallest and the largest number of words in a row."""


class FinishedRun(NamedTuple):
    code: int
    seconds: float
    peak: float  # gigabytes


def make_folder(folder: Path, megabytes: int, seed: int = 1) -> tuple[int, int]:
    """Write Parquet files of about `megabytes` in total, and return the number of files and of characters."""
    words = np.array(find_corpus("tinyshakespeare").train.read_text(encoding="utf-8").split(), dtype=object)
    random = np.random.default_rng(seed)
    files = characters = 0
    while sum(file.stat().st_size for file in folder.iterdir()) < megabytes * 10**6 * 0.99:
        path = folder / f"part-{files:05}.parquet"
        texts: list[str] = []
        size = 0
        while size < SHARD_BYTES:
            for length in random.integers(*WORDS, ROWS):
                texts.append(" ".join(words[random.integers(0, len(words), length)]))
            size = sum(map(len, texts))
        table = pa.table({"id": np.arange(len(texts)), "text": texts, "source": ["generated"] * len(texts)})
        parquet.write_table(table, path, row_group_size=len(texts))
        files, characters = files + 1, characters + size
    return files, characters


def settings_of(folder: Path, steps: int, workers: int) -> list[str]:
    return [
        f"data.train={folder}",
        "data.stream=true",
        "data.shuffle_window=1000",
        f"text.workers={workers}",
        "model.dim=64",
        "model.num_layers=2",
        "model.num_heads=2",
        "training.batch_size=32",
        f"training.steps={steps}",
        f"training.evaluate_every={steps // 2}",
        f"training.log_every={max(steps // 30, 1)}",
        f"training.save_every={max(steps // 8, 1)}",
        "training.evaluate_tokens=50000",
        "device=cpu",
    ]


def train(arguments: list[str], stop: Callable[[], bool] = lambda: False) -> FinishedRun:
    """Run `clew train text-gpt` in a process, and kill it as soon as `stop()` is true."""
    began, peak = time.perf_counter(), 0
    process = subprocess.Popen([sys.executable, "-m", "clew", "train", "text-gpt", *arguments, "--quiet"])
    while True:
        code = process.poll()
        if code is not None:
            return FinishedRun(code, time.perf_counter() - began, peak * 1024 / 1e9)
        peak = max(peak, peak_kilobytes(process.pid))
        if stop():
            process.send_signal(signal.SIGKILL)
        time.sleep(0.05)


def has_steps(folder: Path, steps: int) -> bool:
    path = folder / "metrics.jsonl"
    return path.is_file() and any(
        json.loads(line)["step"] >= steps for line in path.read_text().splitlines() if line.endswith("}")
    )


def tokens_per_second(folder: Path) -> float:
    return statistics.median(
        record["tokens_per_second"] for record in read_metrics(folder) if "tokens_per_second" in record
    )


def differences(first: Path, second: Path) -> list[str]:
    """Return the names of tensors that differ between the last checkpoints of two runs."""
    names = []
    for file in ("model.safetensors", "optimiser.safetensors"):
        ours, theirs = (read_weights(checkpoint_folders(folder)[0] / file) for folder in (first, second))
        assert ours.keys() == theirs.keys()
        names += [name for name in ours if not torch.equal(ours[name], theirs[name])]
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--workers", type=int, default=1, help="number of encoding processes")
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder (default: the system's)")
    options = parser.parse_args()
    parent = options.folder or Path(tempfile.gettempdir())
    if shutil.disk_usage(parent).free < 2 * options.megabytes * 10**6:
        raise UserError(f"{parent} has no room for {2 * options.megabytes} MB; name another folder with --folder")
    with tempfile.TemporaryDirectory(dir=parent, prefix="stream-memory-") as name:
        folder = Path(name)
        shards = folder / "shards"
        shards.mkdir()
        os.environ["CLEW_CACHE"] = str(folder / "cache")
        files, characters = make_folder(shards, options.megabytes)
        size = sum(file.stat().st_size for file in shards.iterdir())
        print(f"{files} Parquet files of {size / 1e6:,.0f} MB, {characters / 1e9:.2f} billion characters", flush=True)

        settings = settings_of(shards, options.steps, options.workers)
        reference, interrupted = folder / "reference", folder / "interrupted"
        uninterrupted = train([*settings, "--out", str(reference)])
        assert uninterrupted.code == 0, "the uninterrupted run failed"
        print(
            f"uninterrupted: {uninterrupted.seconds:.0f} s, peak {uninterrupted.peak:.2f} GB,"
            f" {tokens_per_second(reference):,.0f} tokens/s",
            flush=True,
        )
        killed_at = options.steps * 7 // 10
        killed = train([*settings, "--out", str(interrupted)], lambda: has_steps(interrupted, killed_at))
        print(f"killed after step {killed_at}: exit {killed.code}, peak {killed.peak:.2f} GB", flush=True)
        assert killed.code == -signal.SIGKILL
        resumed = train([*settings, "--out", str(interrupted), "--resume"])
        assert resumed.code == 0, "the resumed run failed"
        print(f"resumed: {resumed.seconds:.0f} s, peak {resumed.peak:.2f} GB", flush=True)
        different = differences(reference, interrupted)
        print(f"different tensors: {', '.join(different)}" if different else "weights and optimiser are bit-identical")
        print(f"files left in the cache of windows: {sum(1 for file in folder.glob('cache/streams/*/*'))}")


if __name__ == "__main__":
    main()
