"""Accuracies of probes by level as a view: one panel per corpus, with levels as a line, mixes as points next to it, and
the strongest baseline as a threshold."""

import math
from collections.abc import Sequence

from clew.drawing.views import Lines, Series, View
from clew.instruments.probing import Probed, Probing, Row

SHORT = {"sum of the last four": "sum of last 4", "the last four joined": "last 4 joined"}


def probing_view(probing: Probing) -> View:
    return View(
        f"Linear probes of {probing.run}",
        [panel(corpus, probing.rows) for corpus in probing.corpora],
        "How well labels can be predicted from each level; the best in bold.",
    )


def panel(corpus: Probed, rows: Sequence[Row]) -> Lines:
    """One corpus, with a gap between levels and mixes."""
    levels, mixes = ([row for row in rows if row.is_level is is_level] for is_level in (True, False))
    names = [SHORT.get(row.name, row.name) for row in levels + mixes]
    if mixes:
        names.insert(len(levels), "")
    lines = [series("trained", [probe.accuracy for probe in corpus.probes], len(levels), written=True)]
    if corpus.untrained:
        untrained = [probe.accuracy for probe in corpus.untrained]
        lines.append(series("untrained", untrained, len(levels), dashed=True))
    return Lines(
        lines,
        "",
        "accuracy (%)",
        f"{corpus.corpus}: {corpus.num_labels} labels of {corpus.unit}",
        thresholds=[strongest(corpus)],
        x_names=names,
    )


def series(name: str, values: Sequence[float], levels: int, *, dashed: bool = False, written: bool = False) -> Series:
    """The levels of one model as a line, and its mixes as separate points: values that are NaN interrupt the line."""
    places: list[tuple[float, float]] = list(enumerate(values[:levels]))
    for number, value in enumerate(values[levels:], start=levels + 1):
        places += [(number - 0.5, math.nan), (number, value)]
    return Series(name, [x for x, _ in places], [y for _, y in places], dashed=dashed, written=written)


def strongest(corpus: Probed) -> tuple[str, float]:
    """The best baseline and its accuracy."""
    name, accuracy = max(corpus.baselines.items(), key=lambda pair: pair[1])
    return ("each word's most frequent tag" if name == "most frequent tag of each word" else name), accuracy
