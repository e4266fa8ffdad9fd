"""Average the weights of a run's checkpoints, or of several runs of the same model, and write the result as a new
run.

For example:

  clew runs average runs/shakespeare-lstm --out runs/averaged
  clew runs average runs/shakespeare-lstm --last 2 --best --out runs/averaged
  clew runs average runs/shakespeare-lstm --checkpoints 1000 1500 --out runs/averaged
  clew runs average runs/shakespeare-lstm runs/shakespeare-lstm-2 --out runs/averaged

For one run, all complete checkpoints that it still has are averaged, unless options choose some; for several runs,
their final weights. The average can be used like any run, as in `clew evaluate` or `clew generate`. The validation
loss of every source is printed with that of the average. The average of a run's late checkpoints is often better than
each of them; the average of runs with different seeds is usually worse than any.
"""

import argparse
import json
from pathlib import Path

from clew.cli.terminal.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="a run directory, or several of the same model")
    add("--last", type=int, metavar="K", help="average the newest K complete checkpoints of each run")
    add("--checkpoints", type=int, nargs="+", metavar="STEP", default=[], help="average the checkpoints of these steps")
    add("--best", action="store_true", help="include the weights of the best evaluation")
    add("--out", metavar="DIR", required=True, help="the folder of the averaged run")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="the device to evaluate on")
    add("--json", action="store_true", help="print one JSON object per source, and one for the average")


def run(options: argparse.Namespace) -> int:
    from clew.cli.terminal.tables import show_table
    from clew.core.errors import UserError
    from clew.training.checkpoint_average import average_runs

    if options.last is not None and options.last < 1:
        raise UserError(f"--last ({options.last}) must be at least 1")
    if options.last is not None and options.checkpoints:
        raise UserError("--last and --checkpoints exclude each other; leave one of them out")
    code = None if options.code is None else Path(options.code)
    average = average_runs(
        [Path(run) for run in options.runs],
        Path(options.out),
        last=options.last,
        steps=options.checkpoints,
        best=options.best,
        device=options.device,
        code=code,
        say=say,
    )
    names = [*(source.name for source in average.sources), f"average of {len(average.sources)}"]
    steps = [*(source.step for source in average.sources), max(source.step for source in average.sources)]
    scores = [None] * len(names) if average.losses is None or average.loss is None else [*average.losses, average.loss]
    if options.json:
        for name, step, score in zip(names, steps, scores, strict=True):
            numbers = {} if score is None else {f"valid.{measure}": value for measure, value in score.measures.items()}
            print(json.dumps({"weights": name, "step": step, **numbers}, ensure_ascii=False))
    else:
        measures = list(average.loss.measures) if average.loss is not None else []
        cells = [
            [] if score is None else [f"{score.measures[measure]:.4f}" for measure in measures] for score in scores
        ]
        rows = [[name, str(step), *cell] for name, step, cell in zip(names, steps, cells, strict=True)]
        show_table(
            ["weights", "step", *(f"valid {measure.replace('_', ' ')}" for measure in measures)],
            rows,
            right=range(1, 2 + len(measures)),
        )
    say(f"wrote {average.folder}")
    return 0
