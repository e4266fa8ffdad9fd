"""Train two small models, look inside them, and read the lineage of sequence models with your own numbers: one page.

Without options an LSTM and a GPT are trained on the characters of Shakespeare, in a few minutes on two cores, and
runs/tour/report.html tells what was seen in them: claims of papers and lectures beside what was measured here. --all
tries every small experiment besides, about an hour on two cores. What was found is kept: a tour that is interrupted
goes on by the same command.

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
        help="every experiment besides the two models, each trained as long as its claim needs",
    )
    add("--only", nargs="+", metavar="NAME", help="these stops alone; --list names them")
    add("--list", action="store_true", help="name the stops, and what each is about")
    add(
        "--scale",
        choices=["quick", "tour", "full"],
        help="how long to train: seconds, minutes (without --all), as long as needed (with --all or --only)",
    )
    add("--folder", dest="place", metavar="DIR", help=f"where runs and findings are kept (default {FOLDER})")
    add(
        "--out",
        metavar="FILE.html",
        help="the report (default report.html in the folder; quick.html with --scale quick)",
    )
    add("--seed", type=int, default=0, metavar="N", help="of weights, data and samples (default 0)")
    add("--json", action="store_true", help="one JSON object a finding: name, title, claim, found, rows, seconds")


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
            told = {"name": name, "title": finding.title, "claim": finding.claim, "found": finding.found}
            print(json.dumps({**told, "rows": rows, "seconds": finding.seconds}, ensure_ascii=False))
    else:
        print(page)
    return 0


def interruptible(options: argparse.Namespace, tour: Any) -> Any:
    """What a tour finds; one that is stopped says how to go on."""
    from clew.cli.terminal.progress import say
    from clew.training.signals import Interrupted

    again = "what was found is kept, and the same command goes on from there"
    try:
        return tour(say)
    except Interrupted as stop:
        raise Interrupted(stop.number, f"interrupted; {again}", stop.folder) from None
    except KeyboardInterrupt as stop:
        raise type(stop)(again) from None


def check(options: argparse.Namespace) -> None:
    from clew.core.errors import UserError

    if options.all and options.only:
        raise UserError("--all is every stop and --only some of them; give one of the two")
    if options.out is not None and Path(options.out).suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"the report is one HTML page, and {Path(options.out).name} is to be none; name it such as report.html"
        )
    if options.out is not None and not Path(options.out).parent.is_dir():
        raise UserError(
            f"{Path(options.out).parent} is no folder, so that {Path(options.out).name} cannot be written there"
        )
    if options.place is not None and Path(options.place).exists() and not Path(options.place).is_dir():
        raise UserError(f"{options.place} is a file, not a folder; choose another --folder")
    if not 0 <= options.seed < 2**31:
        raise UserError(f"--seed ({options.seed}) must be from 0 to {2**31 - 1}")


def list_stops(options: argparse.Namespace) -> int:
    from clew.cli.terminal.tables import show_table
    from clew.tour.touring import stops

    if options.json:
        for name, about in stops().items():
            print(json.dumps({"name": name, "about": about}))
        return 0
    show_table(("stop", "what it is about"), list(stops().items()))
    return 0
