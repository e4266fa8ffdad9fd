"""`python -m benchmarks.ragged_compile [section.field=value ...]`: what compiling costs where batches have many shapes.

The Transformer of `tatoeba-transformer` is trained in clew's own loop, 120 steps in each of these ways:

  eager      batches padded to their longest row; nothing is compiled or captured
  captured   few shapes (training.bucket), passes as CUDA graphs; on a CPU there are none
  bucketed   few shapes, compiled and captured as training.compile=true does it
  again      the same by a second process, which finds the code of the first in the cache
  ragged     batches padded to their longest row, under torch.compile without `dynamic`: a graph for each shape
             until it makes one for all lengths, or gives up; not captured

Each runs in a process of its own, and compiles into an empty cache but where it says otherwise. Seconds are counted
from the first step, so that loading torch and the data is left out. A way that is not done after --limit seconds is
stopped after its step. Tokens are real ones, without padding. A graph is counted where Python was traced, whether its
code was compiled or found. Settings override the recipe's in all ways: `model.num_layers=1` is a quick try.
TORCH_LOGS=recompiles says why a graph was compiled again.
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
"""The steps that are shown are numbered for this many, and scaled where --steps is another number."""


@dataclass(frozen=True)
class Way:
    """`plain` takes torch.compile as it comes instead of clew's own; `cache` names the way whose compiled code is
    found."""

    settings: tuple[str, ...]
    plain: bool = False
    cache: str = ""


RAGGED, FEW = ("training.bucket=false", "training.capture=false"), ("training.bucket=true", "training.capture=true")
WAYS = {
    "eager": Way((*RAGGED, "training.compile=false")),
    "captured": Way((*FEW, "training.compile=false")),
    "bucketed": Way((*FEW, "training.compile=true")),
    "again": Way((*FEW, "training.compile=true"), cache="bucketed"),
    "ragged": Way((*RAGGED, "training.compile=true"), plain=True),
}


@dataclass(frozen=True)
class Measured:
    """Seconds and tokens of each step, and what was compiled for how many shapes of batches; `kept` files were in the
    cache before."""

    seconds: Sequence[float]
    tokens: Sequence[int]
    shapes: int
    graphs: int
    recompilations: int
    kept: int


def measure(config: Config, plain: bool = False, limit: float = float("inf")) -> Measured:
    """Trains as `clew train` does between two evaluations, in a process that has compiled nothing before."""
    settings, device = config.training, choose_device(config.device)[0]
    kept = sum(path.is_file() for path in Path(os.environ[CACHE]).rglob("*")) if CACHE in os.environ else 0
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
    return Measured(
        [between(before, after) for before, after in zip(marks, marks[1:], strict=False)],
        tokens,
        num_shapes(problem.batches, len(tokens)),
        counters["stats"]["unique_graphs"],
        sum(metrics.recompile_reason is not None for metrics in get_compilation_metrics()),
        kept,
    )


def timer(device: torch.device) -> tuple[Callable[[], Any], Callable[[Any, Any], float]]:
    """A mark in time, and the seconds between two. On CUDA they are events, so that no step waits for the one
    before."""
    if device.type != "cuda":
        return time.perf_counter, lambda before, after: after - before

    def mark() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    return mark, lambda before, after: before.elapsed_time(after) / 1000


def num_shapes(batches: Batches, steps: int) -> int:
    """How many shapes the batches of so many steps have; one with a mask and one without are two."""
    return len({signature(batches.get(*position)) for position in islice(batches.positions(0, 0), steps)})


COLUMNS = (
    "way",
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
        f"{cell:{'<' if place == 0 else '>'}{width}}"
        for place, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    )


def cells(name: str, found: Measured, steps: int) -> list[str]:
    """A way's row: steps that it did not come to are left empty."""
    compiles = "training.compile=true" in WAYS[name].settings
    middle, hundredth, late = (within(found.seconds, *span, steps) for span in ((90, 110), (100, 100), (50, 120)))
    rate = "" if late is None else f"{sum(found.tokens[-len(late) :]) / sum(late):,.0f}"
    return [
        name,
        f"{len(found.seconds)}",
        f"{found.shapes}",
        f"{found.graphs}" if compiles else "",
        f"{found.recompilations}" if compiles else "",
        f"{found.seconds[0]:.2f}",
        "" if middle is None else f"{1000 * statistics.median(middle):.2f}",
        "" if hundredth is None else f"{1000 * hundredth[0]:.2f}",
        rate,
        f"{sum(found.seconds):.1f}",
        "" if not compiles else counted(found.kept, "file") if found.kept else "empty",
    ]


def within(seconds: Sequence[float], first: int, last: int, steps: int) -> Sequence[float] | None:
    """Of the steps from `first` to `last` of 120, or where these stand among `steps`; None where not all of them were
    done."""
    low, high = (max(1, round(step * steps / STEPS)) for step in (first, last))
    return seconds[low - 1 : high] if len(seconds) >= high else None


def measure_apart(name: str, options: argparse.Namespace, cache: Path) -> Measured:
    """A way in a process of its own, which compiles into `cache`."""
    command = [sys.executable, "-m", "benchmarks.ragged_compile", "--only", name, "--device", options.device]
    command += ["--steps", str(options.steps), "--limit", str(options.limit), *options.settings]
    found = subprocess.run(
        command, env={**os.environ, CACHE: str(cache)}, stdout=subprocess.PIPE, text=True, check=True
    )
    return Measured(**json.loads(found.stdout.splitlines()[-1]))


def config_for(name: str, options: argparse.Namespace) -> Config:
    own = (f"device={options.device}", f"training.steps={options.steps}", "training.evaluate_every=1000000")
    return config_of("tatoeba-transformer", [*own, *WAYS[name].settings, *options.settings])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("settings", metavar="section.field=value", nargs="*", help="overrides of the recipe, in all ways")
    add(
        "--ways",
        metavar="NAME",
        nargs="+",
        choices=list(WAYS),
        default=list(WAYS),
        help=f"some of {', '.join(WAYS)} (default: all)",
    )
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    add("--steps", type=int, default=STEPS)
    add("--limit", type=float, default=50.0, metavar="SECONDS", help="after which a way is stopped (default: 50)")
    add("--only", choices=list(WAYS), help="measure one way in this process and print it as JSON")
    options = parser.parse_args(arguments)
    if options.only is not None:
        print(json.dumps(asdict(measure(config_for(options.only, options), WAYS[options.only].plain, options.limit))))
        return
    print(row(COLUMNS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.ways:
            cache = Path(folder) / (WAYS[name].cache or name)
            cache.mkdir(exist_ok=True)
            print(row(cells(name, measure_apart(name, options, cache), options.steps)), flush=True)


if __name__ == "__main__":
    main()
