"""`python -m benchmarks.by_length RUN RUN ... [--out FILE.svg]`: the BLEU of translation runs by the length of the
source.

Runs are compared on what each kept of its last evaluation (predictions.jsonl). With --out the figures are drawn, one
line a run.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from clew.drawing.colours import style
from clew.drawing.figures import load_matplotlib
from clew.metrics.translation import bleu

LONGEST = 1_000_000
BINS = ((1, 6), (7, 9), (10, 12), (13, 15), (16, 19), (20, LONGEST))
"""Words of a source, white space between them."""


def scores(run: Path) -> dict[tuple[int, int], tuple[int, float]]:
    """How many sentences there are of each length, and their BLEU, case ignored."""
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in (run / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    found = {}
    for first, last in BINS:
        some = [line for line in lines if first <= len(line["source"].split()) <= last]
        if some:
            measured = bleu([line["prediction"] for line in some], [line["target"] for line in some], lowercase=True)
            found[first, last] = (len(some), measured.score)
    return found


def named(first: int, last: int) -> str:
    return f"{first}-{last}" if last < LONGEST else f"{first} or more"


def draw(runs: dict[str, dict[tuple[int, int], tuple[int, float]]], path: Path) -> None:
    figure = load_matplotlib().Figure(figsize=(6.4, 4.2), dpi=150)
    axis = figure.subplots()
    for number, (name, found) in enumerate(runs.items()):
        places = [BINS.index(each) for each in found]
        axis.plot(
            places,
            [score for _, score in found.values()],
            color=style(number)[0],
            linewidth=2.2,
            marker="o",
            markersize=4,
            label=name,
        )
    axis.set_xticks(range(len(BINS)), [named(*each) for each in BINS])
    axis.set_xlabel("words in the source")
    axis.set_ylabel("BLEU")
    axis.set_ylim(bottom=0)
    axis.grid(True, axis="y", color="#d8dce2", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.by_length", description=__doc__)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, metavar="FILE", help="draw it, as SVG or PNG")
    options = parser.parse_args()
    found = {run.name: scores(run) for run in options.runs}
    for name, by_length in found.items():
        print(
            f"{name:20}",
            "  ".join(f"{named(*each)}: {score:5.2f} ({count})" for each, (count, score) in by_length.items()),
        )
    if options.out is not None:
        draw(found, options.out)
