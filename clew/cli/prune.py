"""Remove attention heads from a run, to make it smaller and faster, and measure the loss of quality.

  clew runs prune runs/shakespeare-gpt --heads 0.5 --out half
  clew runs prune runs/multi30k-transformer --heads 0.7 --by leave_one_out --out runs/fewer
  clew runs prune runs/shakespeare-gpt --off 1.2 2.5 --out without

--heads is the share of heads to keep. The heads to which the training loss is least sensitive are removed first (Michel
et al. 2019), or with --by leave_one_out those without which the validation score is best. Every share in the table is
measured on the validation part, with heads switched off and without further training. A run without its own data needs
settings of the section data (data.train=FILE). A run that only embeds is measured by the similarity of its vectors to
the original's.

The pruned run has smaller weight matrices, and the table in pruning.json and pruning.html. It can be used like any run;
`clew train ... transfer.from=DIR` fine-tunes it.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say

BATCHES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add("settings", metavar="data.field=value", nargs="*", default=[], help="data to use instead of the run's own")
    add("--heads", type=float, metavar="SHARE", help="the share of heads to keep, from 0 to 1")
    add(
        "--off",
        nargs="+",
        metavar="HEAD",
        help="remove these heads instead: LAYER.HEAD, from 1; in a decoder decoder.L.H and cross.L.H",
    )
    add(
        "--by",
        default="importance",
        choices=["importance", "leave_one_out"],
        help="which heads to remove first (default: importance)",
    )
    add(
        "--batches",
        type=int,
        default=BATCHES,
        metavar="N",
        help=f"measure importance on N training batches (default: {BATCHES})",
    )
    add(
        "--points",
        type=int,
        default=10,
        metavar="N",
        help="measure N shares besides all heads (default: 10; 0 measures none)",
    )
    add("--out", metavar="DIR", required=True, help="the folder of the pruned run")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="the device to run on")
    add("--json", action="store_true", help="print one JSON object per share, and one for the pruned run")


def run(options: argparse.Namespace) -> int:
    from clew.cli.evaluation.prune_measures import head_scores, measuring_of, seconds_per_batch
    from clew.core.files import write_json
    from clew.inspection.importance import curve_view, quality_curve, rank_heads
    from clew.metrics.units import with_unit
    from clew.runs.directory import check_empty
    from clew.runs.loaded import load_run
    from clew.runs.pruning import prunable_layers, prune_run

    check(options)
    check_empty(Path(options.out))
    original = load_run(
        options.folder, device=options.device, code=None if options.code is None else Path(options.code)
    )
    heads = [name for layer in prunable_layers(original) for name in layer.heads]
    named = list(dict.fromkeys(options.off or ()))
    count = check_count(options, original, heads, named)
    measuring = measuring_of(original, options.settings, options.batches)
    importance: dict[str, float] = {}
    if named:
        order, kept = [*named, *(name for name in heads if name not in named)], {len(heads), count}
    else:
        importance = {
            name: value for name, value in head_scores(original, measuring, options.by).items() if name in heads
        }
        shares = [point / options.points for point in range(options.points + 1)] if options.points else [1.0]
        order, kept = rank_heads(importance), {len(heads), count, *(round(share * len(heads)) for share in shares)}
    off = order[: len(heads) - count]
    say(f"measuring {len(kept)} numbers of heads")
    points = quality_curve(original, order, kept, lambda: measuring.measure(original))
    chosen = next(point for point in points if point.kept == count)
    pruned = prune_run(
        original, off, Path(options.out), {f"best.valid.{name}": value for name, value in chosen.measures.items()}
    )
    measured = measuring.measure(pruned)
    seconds = [seconds_per_batch(measuring, run) for run in (original, pruned)]
    sizes = [sum(parameter.numel() for parameter in run.task.parameters()) for run in (original, pruned)]
    about = (
        f"{original.folder}: {count} of {len(heads)} heads kept; {measuring.about}. {sizes[0]:,} parameters became"
        f" {sizes[1]:,}; a batch took {1000 * seconds[0]:.1f} ms and now takes {1000 * seconds[1]:.1f} ms"
    )
    view = curve_view(points, measuring.name, importance, about, with_unit(measuring.name, chosen.measures))
    facts = {
        "off": off,
        "kept": count,
        "heads": len(heads),
        "measures": measured,
        "parameters": sizes,
        "seconds_per_batch": seconds,
    }
    write_json(Path(options.out) / "pruning.json", {**facts, "by": "name" if named else options.by, **view.facts})
    view.save(Path(options.out) / "pruning.html")
    show(options, points, facts, about)
    return 0


def check(options: argparse.Namespace) -> None:
    from clew.core.errors import UserError

    if (options.heads is None) == (not options.off):
        raise UserError("give either --heads SHARE, the share of heads to keep, or --off with the heads to remove")
    if options.heads is not None and not 0 <= options.heads < 1:
        raise UserError(f"--heads ({options.heads:g}) is the share of heads to keep and must be at least 0 and below 1")
    for name, least in (("batches", 1), ("points", 0)):
        if getattr(options, name) < least:
            raise UserError(f"--{name} ({getattr(options, name)}) must be at least {least}")
    for setting in options.settings:
        if not setting.startswith("data."):
            raise UserError(f"{setting} cannot be changed in a trained run; only settings of the section data can")


def check_count(options: argparse.Namespace, run: Any, heads: list[str], named: list[str]) -> int:
    """Return the number of heads to keep; at least one must go, and the named ones must exist."""
    from clew.core.errors import UserError
    from clew.layers.attending.heads import grouped

    grouped(run.task, named)
    count = len(heads) - len(named) if named else round(options.heads * len(heads))
    if count == len(heads):
        raise UserError(f"--heads {options.heads:g} keeps all {count} heads of {run.folder}; keep a smaller share")
    return count


def show(options: argparse.Namespace, points: Sequence[Any], facts: dict[str, Any], about: str) -> None:
    from clew.cli.terminal.tables import show_table

    if options.json:
        for point in points:
            print(json.dumps({"kept": point.kept, "heads": point.total, **point.measures}))
        print(json.dumps({"out": options.out, **facts}))
        return
    names = list(points[0].measures)
    rows = []
    for point in points:
        star = "*" if point.kept == facts["kept"] else " "
        rows.append([f"{point.kept} of {point.total}{star}", *(f"{point.measures[name]:.4f}" for name in names)])
    show_table(["heads kept", *names], rows, right=range(len(names) + 1))
    print(about)
    say(f"wrote {options.out}")
