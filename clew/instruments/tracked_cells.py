"""The cell that best tracks each property of a text, and the share of cells that track none: fitted on training text,
evaluated on unseen text. `tracking.py` defines the measures, `properties.py` the properties."""

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
from clew.inspection.streaming import stream_values
from clew.inspection.tracking import Tally, correlations, fit_cuts, fit_lines, judge_cuts, judge_lines, threshold_of
from clew.instruments.instrument import Instrument
from clew.instruments.laid_out import coloured_tokens
from clew.instruments.subjects.corpus_text import has_corpus_text, own_text
from clew.instruments.subjects.recurrent_layers import RecurrentLayer, recurrent_layers, why_not_recurrent
from clew.instruments.subjects.subject import Looked, Subject, subject_of
from clew.tasks.offers import Streamed

RARE = 0.001
"""A property is skipped if it is true, or false, for a smaller share of either text."""


class TrackOptions(Section):
    """The texts, properties and cells."""

    text: str = Field(
        "", description="fit on its first half and evaluate on the second; the run's own corpus by default"
    )
    characters: int = Field(50_000, ge=200, le=10_000_000, description="characters to read of each part of the corpus")
    properties: tuple[str, ...] = Field(
        (), description=f"properties to search for, of {', '.join(PROPERTIES)}; by default all that suit the text"
    )
    of: Literal["cell", "hidden"] = Field("cell", description="cell: the layer's memory (c); hidden: its output (h)")
    margin: float = Field(
        0.25, ge=0, lt=1, description="a cell tracks a property if its skill on unseen text is at least this"
    )
    show: int = Field(400, ge=0, le=20_000, description="characters of unseen text to colour by each best cell")


class Best(NamedTuple):
    """The best cell on the fitting text, and its scores on the other text."""

    property: str
    layer: str
    unit: int
    rule: str
    coefficients: tuple[float, float]
    """(a, b): a number is predicted as a + b x; a boolean is predicted to be true if b (x - a) is above 0."""
    skill: float
    fitted_skill: float
    score: float  # F1, or Pearson's r
    accuracy: float | None
    chance: float | None
    majority: float | None


class Search(NamedTuple):
    best: list[Best]
    silent: dict[str, float]
    """The share of each layer's cells whose best property on the fitting text is below the margin on the other text.
    Properties of the character itself do not count."""
    num_units: int
    left_out: list[str]


class Text(NamedTuple):
    """A text as a model reads it: its tokens, of which the first `before` are read but not counted; for each of the
    others, the index of its last character and the value of every property there (tokens,)."""

    text: str
    tokens: list[int]
    before: int
    begin: int
    """The first character that counts."""
    ends: np.ndarray
    values: dict[str, np.ndarray]


def prepare(model: Looked, text: str, names: Sequence[str], start: int = 0) -> Text:
    """Encode a text as a subject, run or task streams it. The characters before `start` are also read, so that open
    quotes and brackets are known there."""
    streamed: Streamed = subject_of(model).offers.streams(text)
    ends = np.array([max(stop - 1, 0) for _, stop in streamed.offsets], dtype=np.int64)
    skipped = int((ends < start).sum())
    begin, ends = int(ends[skipped - 1]) + 1 if skipped else 0, ends[skipped:]
    values = {name: PROPERTIES[name].find(text)[ends] for name in names}
    return Text(text, streamed.tokens, streamed.before + skipped, begin, ends, values)


def tally_layers(
    module: nn.Module, layers: Sequence[RecurrentLayer], text: Text, of: str, booleans: list[str], numbers: list[str]
) -> list[Tally]:
    """Return one tally per layer, in one pass over the text."""
    flags, counts = (
        torch.tensor(np.stack([text.values[name] for name in names], 1) if names else np.zeros((len(text.ends), 0)))
        for names in (booleans, numbers)
    )
    paths = [layer.place(of) for layer in layers]
    tallies: list[Tally] = []
    for places, recorded in stream_values(module, text.tokens, paths):
        real = places >= text.before
        at = places[real] - text.before
        for number, path in enumerate(paths):
            values = recorded[path][real.to(recorded[path].device)].float()
            values = values.cpu() if values.device.type == "mps" else values  # mps has no float64
            if len(tallies) == number:
                tallies.append(Tally(values.shape[1], len(booleans), len(numbers), values.device))
            tallies[number].add(values, flags[at].bool().to(values.device), counts[at].to(values.device))
    return tallies


def search(model: Looked, fitted_on: Text, judged_on: Text, *, of: str = "cell", margin: float = 0.25) -> Search:
    """Search every cell of every layer for every property that varies in both texts."""
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
        judged_scores, fitted_scores = judge_cuts(cuts, judged), judge_cuts(cuts, fitted)
        r = correlations(judged)
        before = torch.cat([fitted_scores.skill, judge_lines(lines, fitted)]).cpu()  # (properties, units)
        after = torch.cat([judged_scores.skill, judge_lines(lines, judged)]).cpu()
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
                rule, score = f"{'>=' if above else '<'} {threshold:.3f}", float(judged_scores.f1[row, unit])
                by = (threshold, 1.0 if above else -1.0)
                against = (
                    float(judged_scores.accuracy[row, unit]),
                    float(judged_scores.always[row]),
                    float(judged_scores.majority[row]),
                )
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
    """Return the fitting text, the evaluation text, and the character from which the latter counts: the halves of a
    given text, or the beginnings of the run's training and validation parts."""
    if options.text:
        half = len(options.text) // 2
        if half < 100:
            raise UserError(
                f"the text has {len(options.text)} characters, but the search needs at least 200; pass a longer one or"
                " none"
            )
        return options.text[:half], options.text, half
    return own_text(subject, "train", options.characters), own_text(subject, "valid", options.characters), 0


def look_for_cells(subjects: Sequence[Subject], options: TrackOptions) -> View:
    subject = subjects[0]
    for name in options.properties:
        if name not in PROPERTIES:
            raise unknown("property", name, PROPERTIES)
    first, second, start = texts_of(subject, options)
    names = options.properties or tuple(
        name for name, each in PROPERTIES.items() if each.kind != "code" or is_code(first)
    )
    fitted_on, judged_on = prepare(subject, first, names), prepare(subject, second, names, start)
    findings = search(subject, fitted_on, judged_on, of=options.of, margin=options.margin)
    if not findings.best:
        raise UserError(f"none of {', '.join(names)} varies in both texts; use a longer text or other properties")
    header = ("property", "layer", "cell", "skill", "F1 or r", "constant F1", "accuracy", "majority", "rule")
    rows = [
        (
            best.property,
            best.layer,
            best.unit,
            *map(format_score, (best.skill, best.score, best.chance, best.accuracy, best.majority)),
            best.rule,
        )
        for best in findings.best
    ]
    parts: list[Part] = [Table(header, rows, "Best cell for each property, on unseen text")]
    coloured_cells = [
        best for best in findings.best if best.skill >= options.margin and PROPERTIES[best.property].kind != "character"
    ]
    parts += [coloured_best(subject.module, judged_on, best, options) for best in coloured_cells if options.show]
    if findings.silent:
        title = "Cells that track none of these, by layer"
        parts.append(
            Bars(list(findings.silent), list(findings.silent.values()), "share of cells", title, low=0.0, high=1.0)
        )
    if findings.left_out:
        parts.append(Note(f"Skipped, since they hardly vary in one of the texts: {', '.join(findings.left_out)}."))
    about = (
        f"{findings.num_units:,} cells, fitted on {len(fitted_on.ends):,} tokens and evaluated on"
        f" {len(judged_on.ends):,} others. Skill is 1 for a perfect cell and 0 for a constant answer."
    )
    if findings.silent:
        share = sum(findings.silent.values()) / len(findings.silent)
        about += (
            f" {share:.0%} of the cells reach {options.margin:g} for no property that depends on more than the"
            " character itself."
        )
    facts = {
        "best": [
            {**best._asdict(), "coefficients": [x if math.isfinite(x) else None for x in best.coefficients]}
            for best in findings.best
        ],
        "silent": findings.silent,
        "margin": options.margin,
        "left_out": findings.left_out,
        "tokens": [len(fitted_on.ends), len(judged_on.ends)],
    }
    return View("Cells that track properties", parts, about, facts)


def format_score(value: float | None) -> float | str:
    return "" if value is None else round(value, 3)


def coloured_best(module: nn.Module, text: Text, best: Best, options: TrackOptions) -> Part:
    """Draw the piece of the text where the property first changes, coloured by its best cell."""
    values = text.values[best.property]
    start = max(0, int(np.argmax(values != values[0])) - options.show // 4)
    stop = min(len(text.ends), start + options.show)
    layer = next(layer for layer in recurrent_layers(module) if layer.name == best.layer)
    path = layer.place(options.of)
    cell_values = torch.zeros(text.before + stop)
    for places, recorded in stream_values(module, text.tokens[: len(cell_values)], [path]):
        cell_values[places] = recorded[path][:, best.unit - 1].float().cpu()
    piece_values = cell_values[text.before + start :].numpy()
    begins = [int(text.ends[start - 1]) + 1 if start else text.begin, *(text.ends[start : stop - 1] + 1).tolist()]
    pieces = [text.text[begin : end + 1] for begin, end in zip(begins, text.ends[start:stop].tolist(), strict=True)]
    title = f"{best.property}: cell {best.unit} of layer {best.layer}"
    a, b = best.coefficients
    if values.dtype == bool:
        beyond = b * (piece_values - a)
        bound, label = spread_of(beyond), "beyond its threshold, where the property is predicted"
        return coloured_tokens(pieces, beyond.tolist(), title, joined=True, low=-bound, high=bound, label=label)
    predicted = a + b * piece_values
    low, high = (float(np.quantile(values, part)) for part in (0.02, 0.98))
    notes = [f"{value:.1f}, actually {actual:.0f}" for value, actual in zip(predicted, values[start:stop], strict=True)]
    return ColouredText(
        pieces,
        predicted.tolist(),
        title,
        f"{best.property}, predicted by the cell",
        low,
        high,
        joined=True,
        notes=notes,
    )


def spread_of(values: np.ndarray) -> float:
    """Return a bound that most absolute values stay within."""
    return max(float(np.quantile(np.abs(values), 0.9)), 1e-6)


TRACK = Instrument(
    "the cells that track a property: line position, quotes, brackets, indentation, comments",
    TrackOptions,
    look_for_cells,
    needs=("streams",),
    fits=why_not_recurrent,
    quick=False,
    own_text=has_corpus_text,
)
