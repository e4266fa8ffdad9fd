"""`python -m benchmarks.ragged_compile [section.field=value ...]`: the cost of compiling for batches of many shapes.

The Transformer of `tatoeba-transformer` is trained in clew's own loop for 120 steps, in each of these variants:

  eager      batches padded to their longest row; nothing is compiled or captured
  captured   few shapes (training.bucket); passes are CUDA graphs, except on a CPU, which has none
  bucketed   few shapes, compiled and captured as by training.compile=true
  again      the same in a second process, which finds the code of the first in the cache
  ragged     batches padded to their longest row, under torch.compile without `dynamic`: a graph for each shape
             until it makes one for all lengths, or gives up; not captured

Each variant runs in its own process and, except for `again`, compiles into an empty cache. Time is measured from the
first step, without loading torch and the data. After --limit seconds a variant ends with its current step. Tokens are
counted without padding. A graph is counted when its Python code is traced, even if its compiled code is in the cache.
Overrides apply to all variants: `model.num_layers=1` is a quick test. TORCH_LOGS=recompiles explains recompilations.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters, get_compilation_metrics

from clew.core.batches import Batches
from clew.core.devices import choose_device
from clew.core.errors import counted
from clew.recipes.resolving import config_of
from clew.runs.config import Config
from clew.training.captured import signature
from clew.training.compiled import Carrying
from clew.training.loop import train
from clew.training.precision import precision
from clew.training.problems import prepare_problem
from clew.training.trainer import trainer_of
from clew.training.watchers import Watchers

CACHE = "TORCHINDUCTOR_CACHE_DIR"
STEPS = 120
"""The default of --steps. Step numbers in the table refer to it, and are scaled for other values."""


@dataclass(frozen=True)
class Variant:
    """`plain` uses torch.compile instead of clew's compilation; `cache` names the variant whose cache is reused."""

    settings: tuple[str, ...]
    plain: bool = False
    cache: str = ""


RAGGED, FEW = ("training.bucket=false", "training.capture=false"), ("training.bucket=true", "training.capture=true")
VARIANTS = {
    "eager": Variant((*RAGGED, "training.compile=false")),
    "captured": Variant((*FEW, "training.compile=false")),
    "bucketed": Variant((*FEW, "training.compile=true")),
    "again": Variant((*FEW, "training.compile=true"), cache="bucketed"),
    "ragged": Variant((*RAGGED, "training.compile=true"), plain=True),
}


@dataclass(frozen=True)
class Measurement:
    """Seconds and tokens of each step, the number of batch shapes, and what was compiled.

    `cached_files` is the number of files in the cache at the start.
    """

    seconds: Sequence[float]
    tokens: Sequence[int]
    shapes: int
    graphs: int
    recompilations: int
    cached_files: int


def measure(config: Config, plain: bool = False, limit: float = float("inf")) -> Measurement:
    """Train as `clew train` does between two evaluations, in a process that has not compiled anything yet."""
    settings, device = config.training, choose_device(config.device)[0]
    cached_files = sum(path.is_file() for path in Path(os.environ[CACHE]).rglob("*")) if CACHE in os.environ else 0
    problem = prepare_problem(config)
    mark, between = timer(device)
    with precision(settings, device) as autocast:
        trainer = trainer_of(config, Path(), problem, device, autocast, Watchers())
        state = trainer.state
        steps = train(
            torch.compile(Carrying(trainer.task, False)) if plain else trainer.forward,
            trainer.batches,
            state.optimiser,
            state.schedule,
            trainer.options,
            steps=settings.steps,
            progress=state.progress,
        )
        tokens, marks, began = list[int](), [mark()], time.perf_counter()
        for record in steps:
            tokens.append(record.count)
            marks.append(mark())
            if time.perf_counter() - began > limit:
                break
    if device.type == "cuda":
        torch.cuda.synchronize()
    return Measurement(
        [between(before, after) for before, after in zip(marks, marks[1:], strict=False)],
        tokens,
        num_shapes(problem.batches, len(tokens)),
        counters["stats"]["unique_graphs"],
        sum(metrics.recompile_reason is not None for metrics in get_compilation_metrics()),
        cached_files,
    )


def timer(device: torch.device) -> tuple[Callable[[], Any], Callable[[Any, Any], float]]:
    """Return functions that mark a time and that compute the seconds between two marks.

    On CUDA the marks are events, so that no step waits for the previous one.
    """
    if device.type != "cuda":
        return time.perf_counter, lambda before, after: after - before

    def mark() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    return mark, lambda before, after: before.elapsed_time(after) / 1000


def num_shapes(batches: Batches, steps: int) -> int:
    """Count the batch shapes of the first `steps` steps. A batch with a mask and one without have different shapes."""
    return len({signature(batches.get(*position)) for position in islice(batches.positions(0, 0), steps)})


COLUMNS = (
    "variant",
    "steps",
    "shapes",
    "graphs",
    "recompiled",
    "first s",
    "median ms",
    "100th ms",
    "tokens/s",
    "total s",
    "cache",
)
WIDTHS = (9, 6, 7, 7, 11, 8, 10, 9, 10, 8, 14)


def row(cells: Sequence[str]) -> str:
    return "".join(
        f"{cell:{'<' if column == 0 else '>'}{width}}"
        for column, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    )


def cells(name: str, measurement: Measurement, steps: int) -> list[str]:
    """Format a variant's row. Cells of steps that were not reached are empty."""
    compiles = "training.compile=true" in VARIANTS[name].settings
    middle, hundredth, late = (within(measurement.seconds, *span, steps) for span in ((90, 110), (100, 100), (50, 120)))
    rate = "" if late is None else f"{sum(measurement.tokens[-len(late) :]) / sum(late):,.0f}"
    return [
        name,
        f"{len(measurement.seconds)}",
        f"{measurement.shapes}",
        f"{measurement.graphs}" if compiles else "",
        f"{measurement.recompilations}" if compiles else "",
        f"{measurement.seconds[0]:.2f}",
        "" if middle is None else f"{1000 * statistics.median(middle):.2f}",
        "" if hundredth is None else f"{1000 * hundredth[0]:.2f}",
        rate,
        f"{sum(measurement.seconds):.1f}",
        "" if not compiles else counted(measurement.cached_files, "file") if measurement.cached_files else "empty",
    ]


def within(seconds: Sequence[float], first: int, last: int, steps: int) -> Sequence[float] | None:
    """Return the times of steps `first` to `last` of 120, scaled to `steps`, or None if some were not reached."""
    low, high = (max(1, round(step * steps / STEPS)) for step in (first, last))
    return seconds[low - 1 : high] if len(seconds) >= high else None


def measure_in_process(name: str, options: argparse.Namespace, cache: Path) -> Measurement:
    """Measure a variant in its own process, which compiles into `cache`."""
    command = [sys.executable, "-m", "benchmarks.ragged_compile", "--only", name, "--device", options.device]
    command += ["--steps", str(options.steps), "--limit", str(options.limit), *options.settings]
    process = subprocess.run(
        command, env={**os.environ, CACHE: str(cache)}, stdout=subprocess.PIPE, text=True, check=True
    )
    return Measurement(**json.loads(process.stdout.splitlines()[-1]))


def config_for(name: str, options: argparse.Namespace) -> Config:
    defaults = (f"device={options.device}", f"training.steps={options.steps}", "training.evaluate_every=1000000")
    return config_of("tatoeba-transformer", [*defaults, *VARIANTS[name].settings, *options.settings])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("settings", metavar="section.field=value", nargs="*", help="overrides of the recipe, for all variants")
    add(
        "--ways",
        metavar="NAME",
        nargs="+",
        choices=list(VARIANTS),
        default=list(VARIANTS),
        help=f"variants to measure: {', '.join(VARIANTS)} (default: all)",
    )
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    add("--steps", type=int, default=STEPS)
    add("--limit", type=float, default=50.0, metavar="SECONDS", help="time limit per variant (default: 50)")
    add("--only", choices=list(VARIANTS), help="measure one variant in this process and print it as JSON")
    options = parser.parse_args(arguments)
    if options.only is not None:
        measurement = measure(config_for(options.only, options), VARIANTS[options.only].plain, options.limit)
        print(json.dumps(asdict(measurement)))
        return
    print(row(COLUMNS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.ways:
            cache = Path(folder) / (VARIANTS[name].cache or name)
            cache.mkdir(exist_ok=True)
            print(row(cells(name, measure_in_process(name, options, cache), options.steps)), flush=True)


if __name__ == "__main__":
    main()
