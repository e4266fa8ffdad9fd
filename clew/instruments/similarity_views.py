"""Two instruments for similarity: of layers, within one model or between two, and of attention heads."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
from pydantic import Field

from clew.core.errors import UserError, counted
from clew.core.wording import argument
from clew.drawing.views import Heatmap, Part, Points, Series, Table, View
from clew.inspection.attention_weights import shows_attention
from clew.inspection.heads import layers_with_heads
from clew.inspection.recording import record
from clew.inspection.similarity import cka_matrix, classical_scaling, head_divergences
from clew.instruments.attention import LayerMaps, as_maps, foreign_maps
from clew.instruments.instrument import Instrument, Text
from clew.instruments.reading import read
from clew.instruments.subjects.sentences import SentenceOptions, find_sentences, level_names, level_words
from clew.instruments.subjects.subject import Subject, subject_names
from clew.layers.attending.heads import CROSS, DECODER, OWN
from clew.runs.asking import is_empty
from clew.tasks.offers import Reading

MOST_QUERIES = 64
"""The maximum number of places of a text whose weights are compared, spread over the text."""
MOST_DRAWN = 10
"""The number of sentences drawn for each that is read, since sentences that are too long are skipped."""
KINDS = {OWN: "self-attention", DECODER: "the decoder's own", CROSS: "over the source"}


class HeadsOptions(SentenceOptions):
    """The data on which heads are compared: a text, or sentences of a corpus."""

    text: Text = Field("", description="what the model reads; by default sentences of the corpus")
    target: str | None = Field(None, description="a translator's output; by default its own translation")
    into: str = Field("", description="the language to write, for a translator into several")
    sentences: int = Field(20, ge=1, le=1000, description="the number of sentences to read if there is no text")


def look_at_cka(subjects: Sequence[Subject], options: SentenceOptions) -> View:
    """Compare layers by their vectors of the same words, for any tokenizers of the models."""
    if len(subjects) > 2:
        raise UserError(f"layers are compared within one run or between two runs, not {len(subjects)}; name one or two")
    sentences = find_sentences(subjects[0], options.corpus, options.sentences)
    levels = [level_words(subject, sentences, options.pieces) for subject in subjects]
    names = subject_names(subjects)
    values = cka_matrix(levels[0], levels[-1])
    rows, columns = level_names(levels[0]), level_names(levels[-1])
    words = sum(map(len, sentences))
    parts: list[Part] = [
        Heatmap(values, rows, columns, "Similarity of layers", names[0], names[-1], 0.0, 1.0, label="linear CKA")
    ]
    if len(subjects) == 2:
        best = values.argmax(1)
        nearest = [
            (rows[row], columns[column], round(float(values[row, column]), 4))
            for row, column in enumerate(best.tolist())
        ]
        parts.append(Table((f"{names[0]}", f"nearest in {names[1]}", "linear CKA"), nearest))
    facts = {"rows": rows, "columns": columns, "cka": values.tolist(), "words": words, "corpus": options.corpus}
    return View("Layers compared", parts, f"{counted(words, 'word')} of {options.corpus}", facts)


def look_at_heads(subjects: Sequence[Subject], options: HeadsOptions) -> View:
    """Show, for every kind of attention with at least two heads, their divergences as a heatmap and as a map on which
    similar heads are close. Heads that are off are skipped."""
    subject = subjects[0]
    is_given = not is_empty(options.text) or subject.has_inputs
    texts = [options.text] if is_given else fitting_texts(subject, options)
    totals: dict[str, np.ndarray] = {}
    names_of: dict[str, dict[str, list[str]]] = {}
    for text in texts:
        for kind, (by_layer, weights) in head_weights(subject, text, options).items():
            totals[kind] = totals.get(kind, 0.0) + head_divergences(weights) / len(texts)
            names_of[kind] = by_layer
    parts: list[Part] = []
    facts: dict[str, Any] = {}
    for kind, divergences in totals.items():
        layers = names_of[kind]
        heads = [name for names in layers.values() for name in names]
        points = classical_scaling(np.sqrt(divergences))
        series, start = [], 0
        for layer, names in layers.items():
            part = points[start : start + len(names)]
            series.append(Series(f"layer {layer}", part[:, 0].tolist(), part[:, 1].tolist()))
            start += len(names)
        labels = list(layers.values())
        parts.append(
            Points(
                series,
                labels,
                "direction 1",
                "direction 2",
                f"heads, {KINDS[kind]}: close if they look at the same places",
            )
        )
        most, what = float(np.log(2)), "Jensen-Shannon divergence"
        parts.append(
            Heatmap(
                divergences,
                heads,
                heads,
                "Divergence of heads",
                low=0.0,
                high=most,
                label=what,
                unit="nats",
                keyed="both",
            )
        )
        facts[KINDS[kind]] = {"heads": heads, "divergence": divergences.tolist(), "map": points.tolist()}
    if not parts:
        raise UserError("fewer than two heads of each kind are left to compare; switch fewer off")
    about = "a text" if is_given else f"{counted(len(texts), 'sentence')} of {options.corpus}"
    return View("Attention heads compared", parts, f"mean over the places of {about}", facts)


def fitting_texts(subject: Subject, options: HeadsOptions) -> list[str]:
    """Return sentences of the corpus that fit into the model's positions; a character model has room for only short
    sentences."""
    texts = (" ".join(words) for words in find_sentences(subject, options.corpus, MOST_DRAWN * options.sentences))
    chosen = list(islice((text for text in texts if fits(subject, text)), options.sentences))
    if not chosen:
        raise UserError(
            f"no sentence of {options.corpus} fits into the model's positions; pass a short text with"
            f" {argument('text')}"
        )
    return chosen


def fits(subject: Subject, text: str) -> bool:
    if subject.has("own_target"):  # skip models that write a target: they decode once, when the weights are read
        return True
    reading = read(subject, text, any_length=True)
    return reading.limit is None or len(reading.tokens) <= reading.limit


def head_weights(
    subject: Subject, text: Text, options: HeadsOptions
) -> dict[str, tuple[dict[str, list[str]], np.ndarray]]:
    """Return, by kind of attention, the names of the heads that are on, by layer, and their weights (heads, queries,
    keys) for a text."""
    reading = read(subject, text, options.target, into=options.into)
    every = every_map(subject, reading)
    by_kind: dict[str, tuple[dict[str, list[str]], np.ndarray]] = {}
    for kind in KINDS:
        layers = [each for each in every if each.layer.kind == kind]
        names = {
            each.layer.name: on
            for each in layers
            if (on := [name for name in each.layer.heads if name not in options.off])
        }
        maps = [each.maps[[name not in options.off for name in each.layer.heads]] for each in layers]
        if sum(map(len, maps)) > 1:
            whole = np.concatenate(maps)
            places = np.unique(np.linspace(0, whole.shape[1] - 1, MOST_QUERIES).round().astype(int))
            by_kind[kind] = names, whole[:, places]
    return by_kind


def every_map(subject: Subject, reading: Reading) -> list[LayerMaps]:
    layers = [layer for layer in layers_with_heads(subject.module) if layer.num_heads]
    if not layers:
        return foreign_maps(subject.offers, reading, "weights")
    with record(subject.module, *(layer.weights for layer in layers)) as recorded:
        reading.hidden()
    return [LayerMaps(layer, as_maps(recorded[layer.weights]).float().cpu().numpy()) for layer in layers]


def why_not_comparable(subject: Subject) -> str | None:
    layers = layers_with_heads(subject.module)
    most = max((sum(layer.num_heads for layer in layers if layer.kind == kind) for kind in KINDS), default=0)
    return (
        None
        if most > 1 or (not layers and shows_attention(subject.module))
        else f"{subject.name} has no two attention heads to compare"
    )


CKA = Instrument(
    "layers compared by linear CKA, within a run or between two",
    SentenceOptions,
    look_at_cka,
    needs=("vectors",),
    quick=False,
    several=True,
)
HEADS = Instrument(
    "attention heads compared by what they look at, as a map",
    HeadsOptions,
    look_at_heads,
    needs=("reads",),
    fits=why_not_comparable,
    quick=False,
    own_text=lambda subject: True,
)
