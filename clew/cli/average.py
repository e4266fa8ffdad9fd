"""Average the weights of a run's checkpoints, or of several runs of one model, into a run directory of its own.

For example:

  clew runs average runs/shakespeare-lstm --out runs/averaged
  clew runs average runs/shakespeare-lstm --last 2 --best --out runs/averaged
  clew runs average runs/shakespeare-lstm --checkpoints 1000 1500 --out runs/averaged
  clew runs average runs/shakespeare-lstm runs/shakespeare-lstm-2 --out runs/averaged

Of one run, all whole checkpoints that it still has are taken unless some are chosen; of several, the weights
that each is used with. What is written is used as any run is: `clew evaluate`, `clew generate`. The validation
loss of every source is printed beside the average's. The mean of one run's late checkpoints is often better than
each of them; the mean of runs that began from different seeds is usually worse than any.
"""

import argparse
import json
from pathlib import Path

from clew.cli.terminal.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="a run directory, or several of one model")
    add("--last", type=int, metavar="K", help="the newest K whole checkpoints of each")
    add("--checkpoints", type=int, nargs="+", metavar="STEP", default=[], help="the checkpoints of these steps")
    add("--best", action="store_true", help="the weights of the best evaluation too, where they are not among these")
    add("--out", metavar="DIR", required=True, help="where the average goes")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where it is evaluated")
    add("--json", action="store_true", help="one JSON object a source, and one for the average")


def run(options: argparse.Namespace) -> int:
    from clew.cli.terminal.tables import show_table
    from clew.core.errors import UserError
    from clew.training.checkpoint_average import average_runs

    if options.last is not None and options.last < 1:
        raise UserError(f"--last ({options.last}) must be at least 1")
    if options.last is not None and options.checkpoints:
        raise UserError("--last and --checkpoints exclude each other; give one of them")
    code = None if options.code is None else Path(options.code)
    done = average_runs(
        [Path(run) for run in options.runs],
        Path(options.out),
        last=options.last,
        steps=options.checkpoints,
        best=options.best,
        device=options.device,
        code=code,
        say=say,
    )
    names = [*(source.name for source in done.sources), f"average of {len(done.sources)}"]
    steps = [*(source.step for source in done.sources), max(source.step for source in done.sources)]
    scores = [None] * len(names) if done.losses is None or done.loss is None else [*done.losses, done.loss]
    if options.json:
        for name, step, score in zip(names, steps, scores, strict=True):
            numbers = {} if score is None else {f"valid.{measure}": value for measure, value in score.measures.items()}
            print(json.dumps({"weights": name, "step": step, **numbers}, ensure_ascii=False))
    else:
        measures = list(done.loss.measures) if done.loss is not None else []
        cells = [
            [] if score is None else [f"{score.measures[measure]:.4f}" for measure in measures] for score in scores
        ]
        rows = [[name, str(step), *cell] for name, step, cell in zip(names, steps, cells, strict=True)]
        show_table(
            ["weights", "step", *(f"valid {measure.replace('_', ' ')}" for measure in measures)],
            rows,
            right=range(1, 2 + len(measures)),
        )
    say(f"written to {done.folder}")
    return 0
