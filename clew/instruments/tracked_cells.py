"""The cell that keeps track of each property of a text best, and how many cells keep track of none: fitted on what the run was trained on,
judged on text it has not seen. What is measured is told in `tracking.py`, the properties in `properties.py`."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import nn

from clew.core.config import Section
from clew.core.errors import UserError, unknown
from clew.drawing.views import Bars, ColouredText, Note, Part, Table, View
from clew.inspection.properties import PROPERTIES, is_code
from clew.inspection.streaming import stream
from clew.inspection.tracking import Tally, correlations, fit_cuts, fit_lines, judge_cuts, judge_lines, threshold_of
from clew.instruments.corpus_text import has_corpus_text, own_text
from clew.instruments.instrument import Instrument
from clew.instruments.laid_out import coloured
from clew.instruments.recurrent_layers import RecurrentLayer, recurrent_layers, why_not_recurrent
from clew.instruments.subject import Looked, Subject, subject_of
from clew.tasks.offers import Streamed

RARE = 0.001
"""A property that holds, or does not, at a smaller share of either text is left out."""


class TrackOptions(Section):
    """What is looked for, and where."""

    text: str = Field("", description="fit on its first half and judge on the second; the run's own corpus where not given")
    characters: int = Field(50_000, ge=200, le=10_000_000, description="how much of each part of the corpus is read")
    properties: tuple[str, ...] = Field(
        (), description=f"those to look for, of {', '.join(PROPERTIES)}; all that fit the text where not given"
    )
    of: Literal["cell", "hidden"] = Field("cell", description="cell: what the layer remembers (c); hidden: what it gives (h)")
    margin: float = Field(0.25, ge=0, lt=1, description="a cell tracks something where its skill on unseen text is at least this")
    show: int = Field(400, ge=0, le=20_000, description="characters of unseen text that are coloured by each best cell")


class Best(NamedTuple):
    """The cell that was best on the text that it was fitted on, and how well it does on the other."""

    property: str
    layer: str
    unit: int
    rule: str
    told: tuple[float, float]
    """A number as a + b x; a boolean as b (x - a), above 0 where it is said to hold."""
    skill: float
    fitted_skill: float
    score: float  # F1, or Pearson's r
    accuracy: float | None
    chance: float | None
    majority: float | None


class Search(NamedTuple):
    best: list[Best]
    silent: dict[str, float]
    """The share of each layer's cells whose best property, by the text they were fitted on, falls below the margin on the other; what a
    character shows by itself is no property here."""
    num_units: int
    left_out: list[str]


class Text(NamedTuple):
    """A text as a model reads it: its tokens, of which the first `before` are read and not counted; the last character of each of the
    others, and every property there (tokens,)."""

    text: str
    tokens: list[int]
    before: int
    begin: int
    """The first character that counts."""
    ends: np.ndarray
    values: dict[str, np.ndarray]


def prepare(model: Looked, text: str, names: Sequence[str], start: int = 0) -> Text:
    """A text as a subject, a run or a task streams it. What stands before `start` is read as well, so that it is known what is open
    there."""
    streamed: Streamed = subject_of(model).offers.streams(text)
    ends = np.array([max(stop - 1, 0) for _, stop in streamed.offsets], dtype=np.int64)
    skipped = int((ends < start).sum())
    begin, ends = int(ends[skipped - 1]) + 1 if skipped else 0, ends[skipped:]
    values = {name: PROPERTIES[name].find(text)[ends] for name in names}
    return Text(text, streamed.tokens, streamed.before + skipped, begin, ends, values)


def tally_layers(
    module: nn.Module, layers: Sequence[RecurrentLayer], text: Text, of: str, booleans: list[str], numbers: list[str]
) -> list[Tally]:
    """One tally a layer, from one reading of the text."""
    flags, counts = (
        torch.tensor(np.stack([text.values[name] for name in names], 1) if names else np.zeros((len(text.ends), 0)))
        for names in (booleans, numbers)
    )
    paths = [layer.place(of) for layer in layers]
    tallies: list[Tally] = []
    for places, seen in stream(module, text.tokens, paths):
        real = places >= text.before
        at = places[real] - text.before
        for number, path in enumerate(paths):
            values = seen[path][real.to(seen[path].device)].float()
            values = values.cpu() if values.device.type == "mps" else values  # which has no float64
            if len(tallies) == number:
                tallies.append(Tally(values.shape[1], len(booleans), len(numbers), values.device))
            tallies[number].add(values, flags[at].bool().to(values.device), counts[at].to(values.device))
    return tallies


def search(model: Looked, fitted_on: Text, judged_on: Text, *, of: str = "cell", margin: float = 0.25) -> Search:
    """Every cell of every layer against every property that both texts show."""
    module = subject_of(model).module
    layers = recurrent_layers(module)
    names = [name for name in fitted_on.values if all(varies(text.values[name]) for text in (fitted_on, judged_on))]
    booleans = [name for name in names if fitted_on.values[name].dtype == bool]
    numbers = [name for name in names if name not in booleans]
    first, second = (tally_layers(module, layers, text, of, booleans, numbers) for text in (fitted_on, judged_on))
    best: dict[str, Best] = {}
    silent = {}
    for layer, fitted, judged in zip(layers, first, second, strict=True):
        cuts, lines = fit_cuts(fitted), fit_lines(fitted)
        told, fitted_told = judge_cuts(cuts, judged), judge_cuts(cuts, fitted)
        r = correlations(judged)
        before = torch.cat([fitted_told.skill, judge_lines(lines, fitted)]).cpu()  # (properties, units)
        after = torch.cat([told.skill, judge_lines(lines, judged)]).cpu()
        remembered = [row for row, name in enumerate([*booleans, *numbers]) if PROPERTIES[name].kind != "character"]
        if remembered:
            chosen = before[remembered].argmax(0, keepdim=True)
            silent[layer.name] = float((after[remembered].gather(0, chosen) < margin).double().mean())
        for row, name in enumerate([*booleans, *numbers]):
            unit = int(before[row].argmax())
            skill = float(before[row, unit])
            if name in best and best[name].fitted_skill >= skill:
                continue
            if name in booleans:
                above, threshold = bool(cuts.above[row, unit]), threshold_of(int(cuts.edges[row, unit]))
                rule, score = f"{'>=' if above else '<'} {threshold:.3f}", float(told.f1[row, unit])
                by = (threshold, 1.0 if above else -1.0)
                against = (float(told.accuracy[row, unit]), float(told.always[row]), float(told.majority[row]))
            else:
                line = row - len(booleans)
                by = (float(lines.intercepts[line, unit]), float(lines.slopes[line, unit]))
                rule = f"{by[0]:.2f} {by[1]:+.2f} x"
                score, against = float(r[line, unit]), (None, None, None)  # type: ignore[assignment]
            best[name] = Best(name, layer.name, unit + 1, rule, by, float(after[row, unit]), skill, score, *against)
    left_out = [name for name in fitted_on.values if name not in names]
    return Search([best[name] for name in names], silent, sum(len(tally.x) for tally in first), left_out)


def varies(values: np.ndarray) -> bool:
    if values.dtype != bool:
        return bool(len(values)) and float(values.max()) > float(values.min())
    return bool(len(values)) and RARE <= float(values.mean()) <= 1 - RARE


def texts_of(subject: Subject, options: TrackOptions) -> tuple[str, str, int]:
    """What cells are fitted on, and what they are judged on with the character from which on: the halves of a text, or the beginnings of
    the run's training and validation parts."""
    if options.text:
        half = len(options.text) // 2
        if half < 100:
            raise UserError(f"the text has {len(options.text)} characters, and the search needs 200 at least; give more, or none at all")
        return options.text[:half], options.text, half
    return own_text(subject, "train", options.characters), own_text(subject, "valid", options.characters), 0


def look_for_cells(subjects: Sequence[Subject], options: TrackOptions) -> View:
    subject = subjects[0]
    for name in options.properties:
        if name not in PROPERTIES:
            raise unknown("property", name, PROPERTIES)
    first, second, start = texts_of(subject, options)
    names = options.properties or tuple(name for name, each in PROPERTIES.items() if each.kind != "code" or is_code(first))
    fitted_on, judged_on = prepare(subject, first, names), prepare(subject, second, names, start)
    found = search(subject, fitted_on, judged_on, of=options.of, margin=options.margin)
    if not found.best:
        raise UserError(f"none of {', '.join(names)} is both there and not there in each of the two texts; give a longer text, or others")
    header = ("property", "layer", "cell", "skill", "F1 or r", "constant F1", "accuracy", "majority", "told by")
    rows = [
        (one.property, one.layer, one.unit, *map(rounded, (one.skill, one.score, one.chance, one.accuracy, one.majority)), one.rule)
        for one in found.best
    ]
    parts: list[Part] = [Table(header, rows, "The best cell for each property, on unseen text")]
    shown = [one for one in found.best if one.skill >= options.margin and PROPERTIES[one.property].kind != "character"]
    parts += [coloured_best(subject.module, judged_on, one, options) for one in shown if options.show]
    if found.silent:
        title = "Cells that track none of these, by layer"
        parts.append(Bars(list(found.silent), list(found.silent.values()), "share of cells", title, low=0.0, high=1.0))
    if found.left_out:
        parts.append(Note(f"Left out, since one of the texts hardly has them: {', '.join(found.left_out)}."))
    about = (
        f"{found.num_units:,} cells, fitted on {len(fitted_on.ends):,} tokens and judged on {len(judged_on.ends):,} others. Skill is 1 for "
        "a perfect cell and 0 for a constant answer."
    )
    if found.silent:
        share = sum(found.silent.values()) / len(found.silent)
        about += f" {share:.0%} of the cells reach {options.margin:g} for no property that takes more than the character itself."
    facts = {
        "best": [{**one._asdict(), "told": [value if math.isfinite(value) else None for value in one.told]} for one in found.best],
        "silent": found.silent,
        "margin": options.margin,
        "left_out": found.left_out,
        "tokens": [len(fitted_on.ends), len(judged_on.ends)],
    }
    return View("Cells that keep track", parts, about, facts)


def rounded(value: float | None) -> float | str:
    return "" if value is None else round(value, 3)


def coloured_best(module: nn.Module, text: Text, one: Best, options: TrackOptions) -> Part:
    """The piece of the text where the property first changes, on the colour of its best cell."""
    values = text.values[one.property]
    start = max(0, int(np.argmax(values != values[0])) - options.show // 4)
    stop = min(len(text.ends), start + options.show)
    layer = next(layer for layer in recurrent_layers(module) if layer.name == one.layer)
    path = layer.place(options.of)
    seen = torch.zeros(text.before + stop)
    for places, found in stream(module, text.tokens[: len(seen)], [path]):
        seen[places] = found[path][:, one.unit - 1].float().cpu()
    shown = seen[text.before + start :].numpy()
    begins = [int(text.ends[start - 1]) + 1 if start else text.begin, *(text.ends[start : stop - 1] + 1).tolist()]
    pieces = [text.text[begin : end + 1] for begin, end in zip(begins, text.ends[start:stop].tolist(), strict=True)]
    title = f"{one.property}: cell {one.unit} of layer {one.layer}"
    a, b = one.told
    if values.dtype == bool:
        beyond = b * (shown - a)
        bound, label = spread_of(beyond), "beyond its threshold, where it is said to hold"
        return coloured(pieces, beyond.tolist(), title, joined=True, low=-bound, high=bound, label=label)
    said = a + b * shown
    low, high = (float(np.quantile(values, part)) for part in (0.02, 0.98))
    notes = [f"{value:.1f}, and it is {actual:.0f}" for value, actual in zip(said, values[start:stop], strict=True)]
    return ColouredText(pieces, said.tolist(), title, f"{one.property} as the cell tells it", low, high, joined=True, notes=notes)


def spread_of(values: np.ndarray) -> float:
    """What most of the values stay within."""
    return max(float(np.quantile(np.abs(values), 0.9)), 1e-6)


TRACK = Instrument(
    "the cells that keep track of a property: line position, quotes, brackets, indentation, comments",
    TrackOptions,
    look_for_cells,
    needs=("streams",),
    fits=why_not_recurrent,
    quick=False,
    own_text=has_corpus_text,
)
