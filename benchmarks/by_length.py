"""`python -m benchmarks.by_length RUN RUN ... [--out FILE.svg]`: BLEU of translation runs by the length of the
source.

The scores are those of the predictions that each run saved in its last evaluation (predictions.jsonl). --out draws
them, one line per run.
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
"""Smallest and largest number of whitespace-separated words in a source."""


def scores(run: Path) -> dict[tuple[int, int], tuple[int, float]]:
    """Return the number of sentences in each bin, and their case-insensitive BLEU."""
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in (run / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    scores_by_bin = {}
    for first, last in BINS:
        in_bin = [line for line in lines if first <= len(line["source"].split()) <= last]
        if in_bin:
            score = bleu(
                [line["prediction"] for line in in_bin], [line["target"] for line in in_bin], lowercase=True
            ).score
            scores_by_bin[first, last] = (len(in_bin), score)
    return scores_by_bin


def bin_name(first: int, last: int) -> str:
    return f"{first}-{last}" if last < LONGEST else f"{first} or more"


def draw(runs: dict[str, dict[tuple[int, int], tuple[int, float]]], path: Path) -> None:
    figure = load_matplotlib().Figure(figsize=(6.4, 4.2), dpi=150)
    axis = figure.subplots()
    for number, (name, scores_by_bin) in enumerate(runs.items()):
        places = [BINS.index(each) for each in scores_by_bin]
        axis.plot(
            places,
            [score for _, score in scores_by_bin.values()],
            color=style(number)[0],
            linewidth=2.2,
            marker="o",
            markersize=4,
            label=name,
        )
    axis.set_xticks(range(len(BINS)), [bin_name(*each) for each in BINS])
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
    parser.add_argument("--out", type=Path, metavar="FILE", help="draw the scores to an SVG or PNG file")
    options = parser.parse_args()
    all_scores = {run.name: scores(run) for run in options.runs}
    for name, scores_by_bin in all_scores.items():
        print(
            f"{name:20}",
            "  ".join(f"{bin_name(*each)}: {score:5.2f} ({count})" for each, (count, score) in scores_by_bin.items()),
        )
    if options.out is not None:
        draw(all_scores, options.out)
