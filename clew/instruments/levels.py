"""The vectors of every level of a model over a text: their lengths, how far each level turns them, and how similar the
places are.

    norm_l(t)  = |h_l(t)|
    turn_l(t)  = 1 - cos(h_l(t), h_{l-1}(t))              if both levels have the same width
    alike_l    = mean over t < u of cos(h_l(t), h_l(u))   1 if all places have the same direction

Works on any torch module whose layers can be watched.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from clew.drawing.views import Heatmap, Lines, Part, Series, Table, View
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.reading import read
from clew.instruments.subjects.subject import Subject
from clew.tasks.offers import Levels


class LevelStatistics(NamedTuple):
    """For each level: its width, norms (levels, places), turns (levels, places), which are NaN if the level below has
    another width or does not exist, and the similarity of its places."""

    widths: list[int]
    norms: np.ndarray
    turns: np.ndarray
    alike: list[float]


def measure(values: Sequence[Tensor]) -> LevelStatistics:
    """Measure levels (places, dim), the lowest first."""
    levels = [level.float().cpu().double().numpy() for level in values]
    units = [level / np.maximum(np.linalg.norm(level, axis=-1, keepdims=True), 1e-30) for level in levels]
    norms = np.stack([np.linalg.norm(level, axis=-1) for level in levels])
    turns = np.full(norms.shape, np.nan)
    for number, (below, above) in enumerate(zip(units, units[1:], strict=False), start=1):
        if below.shape == above.shape:
            turns[number] = 1 - (below * above).sum(-1)
    return LevelStatistics([level.shape[1] for level in levels], norms, turns, [mean_cosine(level) for level in units])


def mean_cosine(units: np.ndarray) -> float:
    """Return the mean cosine of two different places, given vectors of length 1; 1 for a single place."""
    count = len(units)
    return float((np.linalg.norm(units.sum(0)) ** 2 - (units**2).sum()) / (count * (count - 1))) if count > 1 else 1.0


def look_at_levels(subjects: Sequence[Subject], options: TextOptions) -> View:
    reading = read(subjects[0], options.text, options.target, into=options.into)
    parts: list[Part] = []
    facts: list[dict[str, Any]] = []
    for levels in reading.levels():
        measured = measure(levels.values)
        parts += level_parts(levels, measured)
        facts.append(
            {
                "half": levels.half,
                "levels": list(levels.names),
                "tokens": list(levels.tokens),
                "widths": measured.widths,
                "norms": measured.norms.tolist(),
                "turns": [[None if np.isnan(turn) else turn for turn in row] for row in measured.turns.tolist()],
                "alike": measured.alike,
            }
        )
    count = sum(len(each["levels"]) for each in facts)
    about = f"{count} levels over {' and '.join(str(len(each['tokens'])) for each in facts)} places"
    return View("Levels", parts, about, {"halves": facts})


def level_parts(levels: Levels, measured: LevelStatistics) -> list[Part]:
    names, tokens = levels.names, levels.tokens
    of = f", {levels.half}" if levels.half else ""
    # A quantile, since one place may have a far longer vector than the others.
    high = float(np.quantile(measured.norms, 0.98)) or 1.0
    lengths = [(round(float(norm.mean()), 4), round(float(norm.max()), 4)) for norm in measured.norms]
    turns = ["" if np.isnan(turn).any() else round(float(turn.mean()), 4) for turn in measured.turns]
    alike = [round(value, 4) for value in measured.alike]
    columns = zip(names, measured.widths, lengths, turns, alike, strict=True)
    rows = [(name, width, *length, turn, like) for name, width, length, turn, like in columns]
    parts: list[Part] = [
        Heatmap(
            measured.norms,
            names,
            tokens,
            f"Length of each vector{of}",
            "level",
            "place",
            0.0,
            high,
            label="length",
            keyed="rows",
        )
    ]
    turned = [number for number, row in enumerate(measured.turns) if not np.isnan(row).any()]
    if turned:
        title = f"How far each level turns the vectors of the level below (1 - cos){of}"
        drawn_names = [names[number] for number in turned]
        parts.append(
            Heatmap(
                measured.turns[turned],
                drawn_names,
                tokens,
                title,
                "level",
                "place",
                0.0,
                2.0,
                label="1 - cos",
                keyed="rows",
            )
        )
    series = [Series("cosine", list(range(len(names))), measured.alike)]
    parts.append(Lines(series, "level", "mean cosine of two places", f"Similarity of the places of a level{of}"))
    header = (
        "level",
        "width (features)",
        "mean length",
        "maximum length",
        "turn (1 - cos)",
        "similarity (mean cosine)",
    )
    return [*parts, Table(header, rows, f"Levels{of}", keys=1)]


LEVELS = Instrument(
    "the vectors of every layer: length, direction and similarity", TextOptions, look_at_levels, needs=("reads",)
)
