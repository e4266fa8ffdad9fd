"""Train two small models, look inside them, and write a report on the lineage of sequence models with your own
measurements.

Without options, an LSTM and a GPT are trained on the characters of Shakespeare, in a few minutes on two cores.
runs/tour/report.html shows claims of papers and lectures next to the measurements of this run. --all adds every small
experiment, about an hour on two cores. Results are saved: repeat the command to resume an interrupted tour.

  clew tour
  clew tour --list
  clew tour --all
  clew tour --only reach bottleneck --out reach.html
  clew tour --scale quick --folder runs/quick-tour
"""

import argparse
import json
from pathlib import Path
from typing import Any

FOLDER = Path("runs") / "tour"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--all",
        action="store_true",
        help="add every experiment, each trained as long as its claim needs",
    )
    add("--only", nargs="+", metavar="NAME", help="run only these stops; --list names them")
    add("--list", action="store_true", help="list the stops, and what each is about")
    add(
        "--scale",
        choices=["quick", "tour", "full"],
        help="how long to train: seconds, minutes, or as long as needed (default: tour; full with --all or --only)",
    )
    add("--folder", dest="place", metavar="DIR", help=f"the folder of runs and results (default: {FOLDER})")
    add(
        "--out",
        metavar="FILE.html",
        help="the report (default: report.html in the folder, or quick.html with --scale quick)",
    )
    add("--seed", type=int, default=0, metavar="N", help="random seed (default: 0)")
    add("--json", action="store_true", help="print one JSON object per stop: name, title, claim, found, rows, seconds")


def run(options: argparse.Namespace) -> int:
    from clew.tour.chapters import CHAPTERS
    from clew.tour.touring import check_names, stops, take_tour

    if options.list:
        return list_stops(options)
    check(options)
    check_names(options.only or ())
    folder = Path(options.place) if options.place is not None else FOLDER
    names = options.only or (stops() if options.all else CHAPTERS)
    scale: Any = options.scale or ("full" if options.all or options.only else "tour")
    page = (
        Path(options.out) if options.out is not None else folder / ("quick.html" if scale == "quick" else "report.html")
    )
    findings = interruptible(
        options, lambda say: take_tour(folder, page, names, scale=scale, seed=options.seed, report=say)
    )
    if options.json:
        for name, finding in findings.items():
            rows = [list(row) for row in finding.rows]
            fields = {"name": name, "title": finding.title, "claim": finding.claim, "measured": finding.measured}
            print(json.dumps({**fields, "rows": rows, "seconds": finding.seconds}, ensure_ascii=False))
    else:
        print(page)
    return 0


def interruptible(options: argparse.Namespace, tour: Any) -> Any:
    """Run a tour; if interrupted, say how to resume."""
    from clew.cli.terminal.progress import say
    from clew.training.signals import Interrupted

    advice = "results so far are saved; repeat the command to resume"
    try:
        return tour(say)
    except Interrupted as stop:
        raise Interrupted(stop.number, f"interrupted; {advice}", stop.folder) from None
    except KeyboardInterrupt as stop:
        raise type(stop)(advice) from None


def check(options: argparse.Namespace) -> None:
    from clew.core.errors import UserError

    if options.all and options.only:
        raise UserError("--all runs every stop, and --only some of them; leave one of them out")
    if options.out is not None and Path(options.out).suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--out must end in .html, such as report.html, not {Path(options.out).name}")
    if options.out is not None and not Path(options.out).parent.is_dir():
        raise UserError(f"no such folder for --out: {Path(options.out).parent}; create it first")
    if options.place is not None and Path(options.place).exists() and not Path(options.place).is_dir():
        raise UserError(f"{options.place} is a file; choose a folder with --folder")
    if not 0 <= options.seed < 2**31:
        raise UserError(f"--seed ({options.seed}) must be from 0 to {2**31 - 1}")


def list_stops(options: argparse.Namespace) -> int:
    from clew.cli.terminal.tables import show_table
    from clew.tour.touring import stops

    if options.json:
        for name, about in stops().items():
            print(json.dumps({"name": name, "about": about}))
        return 0
    show_table(("stop", "topic"), list(stops().items()))
    return 0
