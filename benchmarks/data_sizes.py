"""`python -m benchmarks.data_sizes [--tasks pairs] [--sizes 10000 1000000] [--draw FILE.svg]`: memory and start-up
time of `clew train` by the number of examples.

The examples are generated: sentences of random words, with a translation, a label or tags. A start is the whole command
`clew train` with a tiny model and three steps, including its process. The first start reads and encodes the data, the
second finds everything in the cache. `peak` is the peak resident memory; `imports` is the part that a process takes
before it reads anything. `--held` lets two processes read every encoded example and prints their proportional set size
(PSS), in which each of them counts half of a shared page.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.process_memory import peak_kilobytes
from clew.drawing.pages import picture
from clew.drawing.parts import Lines, Series
from clew.runs.directory import read_config
from clew.training.problems import prepare_problem

WORDS = 20_000
CHUNK = 100_000
HELD_OUT = 50
TINY = ("text.tokenizer=word", "text.size=8000", "training.steps=3", "training.evaluate_every=3", "device=cpu")
RECIPES = {
    "pairs": ("translate", "model.dim=32", "training.batch_tokens=1024", "decoding.max_new=20"),
    "labelled": ("classify", "model.dim=32", "data.text=text", "data.label=label"),
    "tagged": ("tag", "model.dim=32", "data.words=1", "data.tags=2"),
}
"""The recipe of each task, and its settings."""


class Start(NamedTuple):
    seconds: float
    processor: float
    peak: float  # megabytes


def sentences(count: int, seed: int, shortest: int = 4, longest: int = 15) -> Iterator[list[str]]:
    """Yield sentences of random words, whose frequencies are as unequal as those of a natural language."""
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(sorted({"".join(random.choice(letters, random.integers(2, 10))) for _ in range(WORDS)}))
    for first in range(0, count, CHUNK):
        lengths = random.integers(shortest, longest + 1, min(CHUNK, count - first))
        sampled = words[np.minimum(random.pareto(0.9, lengths.sum()) * 20, len(words) - 1).astype(np.int64)].tolist()
        start = 0
        for length in lengths.tolist():
            yield sampled[start : start + length]
            start += length


def write_examples(task: str, path: Path, count: int, seed: int = 1) -> None:
    with path.open("w", encoding="utf-8") as file:
        if task == "pairs":
            file.write("source\ttarget\n")
            for source, target in zip(sentences(count, seed), sentences(count, seed + 100), strict=True):
                file.write(f"{' '.join(source)}\t{' '.join(target)}\n")
        elif task == "labelled":
            file.write("text\tlabel\n")
            for words in sentences(count, seed, 10, 40):
                file.write(f"{' '.join(words)}\t{'long' if len(words[0]) > 5 else 'short'}\n")
        else:
            for words in sentences(count, seed):
                file.writelines(f"{word} {'LONG' if len(word) > 5 else 'SHORT'}\n" for word in words)
                file.write("\n")


def settings_of(task: str, folder: Path, runs: str) -> list[str]:
    recipe, *more = RECIPES[task]
    ending = "conll" if task == "tagged" else "tsv"
    return [
        recipe,
        f"data.train={folder / f'train.{ending}'}",
        f"data.valid={folder / f'valid.{ending}'}",
        *more,
        *TINY,
        "--out",
        runs,
    ]


def run_command(arguments: list[str], environment: dict[str, str]) -> Start:
    """Run a command and measure its whole process."""
    began, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(arguments, env=environment, stdout=output, stderr=subprocess.STDOUT)
        while True:
            finished, status, usage = os.wait4(process.pid, os.WNOHANG)
            if finished:
                break
            peak = max(peak, peak_kilobytes(process.pid))
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"{' '.join(arguments)} failed:\n{output.read()}")
    return Start(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, peak / 1024)


@contextmanager
def temporary_examples(task: str, count: int, parent: str | None) -> Iterator[tuple[Path, dict[str, str]]]:
    """Create a folder with the files, and yield it with the environment of commands that keep their cache there."""
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder, ending = Path(name), "conll" if task == "tagged" else "tsv"
        write_examples(task, folder / f"train.{ending}", count)
        write_examples(task, folder / f"valid.{ending}", HELD_OUT, seed=2)
        yield folder, {**os.environ, "CLEW_CACHE": str(folder / "cache"), "CLEW_STATE": str(folder / "state")}


def measure(task: str, count: int, parent: str | None, with_two_processes: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "clew", "train"]
    with temporary_examples(task, count, parent) as (folder, environment):
        imports = run_command([sys.executable, "-c", "import clew.training.run"], environment)
        first, second = (
            run_command([*command, *settings_of(task, folder, str(folder / run))], environment)
            for run in ("first", "second")
        )
        size = sum(file.stat().st_size for file in folder.glob("train.*")) / 2**20
        cache = sum(file.stat().st_size for file in (folder / "cache").rglob("*") if file.is_file()) / 2**20
        shared = measure_two_processes(folder, environment) if with_two_processes else {}
    return {
        "task": task,
        "examples": count,
        "file": round(size),
        "cache": round(cache),
        "imports": round(imports.peak),
        **{f"first_{name}": round(value, 1) for name, value in first._asdict().items()},
        **{f"second_{name}": round(value, 1) for name, value in second._asdict().items()},
        **shared,
    }


def measure_two_processes(folder: Path, environment: dict[str, str]) -> dict[str, int]:
    """Measure the memory of two processes that have each read all encoded examples."""
    arguments = [sys.executable, "-m", "benchmarks.data_sizes", "--hold", str(folder / "second")]
    processes = [
        subprocess.Popen(
            arguments,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        for _ in range(2)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        memory = [memory_of(process.pid) for process in processes]
    finally:
        for process in processes:
            process.communicate("\n")
    return {"two_rss": sum(each["Rss"] for each in memory), "two_pss": sum(each["Pss"] for each in memory)}


def read_and_wait(run: Path) -> None:
    """Prepare the data of a run, read every encoded example, and wait for a line of input."""
    problem = prepare_problem(read_config(run), run)
    for batch in range(problem.batches.per_epoch(0)):
        problem.batches.get(0, batch)
    print("ready", flush=True)
    sys.stdin.readline()


def memory_of(process: int) -> dict[str, int]:
    """Return the values of /proc/PID/smaps_rollup in megabytes, by name."""
    fields = (line.split() for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:])
    return {name.rstrip(":"): int(value) // 1024 for name, value, *_ in fields}


def draw_rows(rows: list[dict[str, Any]]) -> str:
    """Draw memory and seconds over the number of examples, as one SVG."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))

    def series(name: str, key: str, dashed: bool = False) -> list[Series]:
        by_task = {task: [row for row in rows if row["task"] == task] for task in tasks}
        return [
            Series(
                f"{task}, {name}",
                [row["examples"] for row in task_rows],
                [row[key] for row in task_rows],
                dashed=dashed,
            )
            for task, task_rows in by_task.items()
        ]

    memory = [*series("first start", "first_peak"), *series("second start", "second_peak", True)]
    seconds = [*series("first start", "first_processor"), *series("second start", "second_processor", True)]
    return picture(
        "Data of any size",
        "cost of a start, by the number of examples",
        [
            Lines(
                memory,
                "examples",
                "peak resident megabytes",
                "Memory",
                log_x=True,
                y_range=(0.0, max(row["first_peak"] for row in rows)),
            ),
            Lines(seconds, "examples", "seconds of CPU time", "Start-up", log_x=True, log_y=True),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--held", action="store_true", help="also measure two processes that read the same data")
    parser.add_argument("--place", help="parent of the temporary folder with data and cache")
    parser.add_argument(
        "--rows", type=Path, help="JSON Lines file of rows; new ones are added, and --draw draws all of them"
    )
    parser.add_argument("--draw", type=Path, help="draw all rows to this SVG file")
    parser.add_argument("--hold", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold is not None:
        return read_and_wait(options.hold)
    rows = []
    if options.rows is not None and options.rows.exists():
        rows = [json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    for task in options.tasks:
        for count in options.sizes:
            rows.append(measure(task, count, options.place, options.held))
            print(json.dumps(rows[-1]), flush=True)
            if options.rows is not None:
                options.rows.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    if options.draw is not None:
        options.draw.write_text(draw_rows(rows), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
