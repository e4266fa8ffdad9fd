"""`python -m benchmarks.by_length RUN RUN ... [--out FILE.svg]`: BLEU of translation runs by the length of the
source.

The scores are those of the predictions that each run saved in its last evaluation (predictions.jsonl). --out draws
them, one line per run.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from clew.drawing.views import Lines, Series, View
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


def view_of(runs: dict[str, dict[tuple[int, int], tuple[int, float]]]) -> View:
    """Return the scores as a picture, one line per run."""
    lines = [
        Series(name, [BINS.index(each) for each in scores_by_bin], [score for _, score in scores_by_bin.values()])
        for name, scores_by_bin in runs.items()
    ]
    highest = max((score for line in lines for score in line.y), default=0.0) or 1.0
    names = [bin_name(*each) for each in BINS]
    part = Lines(lines, "words in the source", "BLEU", y_range=(0.0, 1.05 * highest), x_names=names)
    return View("BLEU by the length of the source", [part])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.by_length", description=__doc__)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, metavar="FILE", help="draw the scores: .svg, .html, .png or .pdf")
    options = parser.parse_args()
    all_scores = {run.name: scores(run) for run in options.runs}
    for name, scores_by_bin in all_scores.items():
        print(
            f"{name:20}",
            "  ".join(f"{bin_name(*each)}: {score:5.2f} ({count})" for each, (count, score) in scores_by_bin.items()),
        )
    if options.out is not None:
        view_of(all_scores).save(options.out)
