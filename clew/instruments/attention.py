"""Attention while a text is read: who looks at whom, head by head, and what each head tends to look at.

    weights_ij = softmax_j(scores_ij)      row i is what place i looks at; a row adds up to one

Works on self-attention, on what a decoder sees of its source, and on recurrent decoders that look, which have one head. Weights say where a
head looks, not what it does with what it finds there (Jain and Wallace 2019).
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field
from torch import Tensor

from clew.core.errors import UserError, counted, few_of
from clew.core.modes import evaluating
from clew.drawing.views import Grid, Heatmap, Part, Table, View
from clew.inspection.attention_weights import ForeignLayer, foreign_weights, shows_attention
from clew.inspection.heads import attending_layers, why_headless
from clew.inspection.recording import record
from clew.inspection.similarity import entropy
from clew.instruments.instrument import Choices, Instrument, TextOptions
from clew.instruments.modules import AnyModule
from clew.instruments.reading import read
from clew.instruments.subject import Subject
from clew.layers.heads import CROSS, DECODER, OWN, AttendingLayer
from clew.tasks.offers import Reading

MOST_CELLS = 2**28
"""Weights of all heads together."""
MOST_VALUES = 2**14
"""Of the large map's that stand among the facts; the view itself has them all."""
FULL = [step / 10**power for power in range(6, 0, -1) for step in (1, 2, 5)]
KINDS = {"self": OWN, "decoder": DECODER, "cross": CROSS}


class AttentionOptions(TextOptions):
    """Which heads, and which of them is drawn large."""

    heads: Literal["self", "decoder", "cross"] | None = Field(
        None, description="self: of the text read; decoder: of what is written; cross: from there to the text (a translator's default)"
    )
    layer: int | None = Field(None, ge=1, description="the layer that is drawn large, from 1; the last where not given")
    head: int | None = Field(None, ge=1, description="the head that is drawn large, from 1; the mean of its layer where not given")
    kind: Literal["weights", "scores"] = Field("weights", description="scores: before the softmax")


class LayerMaps(NamedTuple):
    """What the heads of one layer look at: maps (heads, query, key)."""

    layer: AttendingLayer | ForeignLayer
    maps: np.ndarray


class Habits(NamedTuple):
    """What a head tends to do, the mean over the places that look: the entropy of its weights in bits, how far it looks, and the share of
    its weight on the place itself, on the one before it, and on the first."""

    entropy: float
    distance: float
    itself: float
    before: float
    first: float


def attention_maps(reading: Reading, heads: str, kind: str = "weights") -> list[LayerMaps]:
    """Of every layer of this kind, from the lowest; of one that lost its heads, none. Hard attention has a 1 where it looked."""
    layers = [layer for layer in attending_layers(reading.module) if layer.kind == KINDS[heads]]
    keys = len(reading.tokens) if heads != "decoder" else len(reading.written)
    queries = len(reading.tokens) if heads == "self" else len(reading.written)
    if (cells := sum(layer.num_heads for layer in layers) * queries * keys) > MOST_CELLS:
        raise UserError(f"{queries} x {keys} weights of all heads are {4 * cells / 1e9:.1f} GB, too much to look at; shorten the text")
    paths = {layer.name: layer.weights if kind == "weights" else f"{layer.path}.scores" for layer in layers if layer.num_heads}
    with record(reading.module, *paths.values()) as seen:
        reading.hidden()
    none = np.zeros((0, queries, keys), dtype=np.float32)
    return [LayerMaps(layer, as_maps(seen[paths[layer.name]]).float().cpu().numpy() if layer.name in paths else none) for layer in layers]


def foreign_maps(model: AnyModule, reading: Reading, kind: str) -> list[LayerMaps]:
    """Of every layer that attends in a module that is not ours."""
    if kind != "weights":
        raise UserError(f"{model.name} shows the weights of its heads, and not the scores before the softmax; leave kind= out")
    with evaluating([model.module]):
        found = foreign_weights(model.module, lambda **more: model.called(reading.batch, **more))
    return [LayerMaps(each.layer, each.weights.float().cpu().numpy()) for each in found]


def as_maps(seen: Tensor) -> Tensor:
    """(heads, query, key) of one row: a loop over time has (batch, length, heads, 1, key)."""
    return seen[0, :, :, 0].transpose(0, 1) if seen.ndim == 5 else seen[0]


def habits(weights: np.ndarray) -> Habits:
    """Of one head's weights (query, key); places of query and key are the same where these are as many."""
    queries, keys = weights.shape
    distance = np.abs(np.arange(queries)[:, None] - np.arange(keys)[None, :])
    on_before = np.trace(weights, offset=-1) / max(min(queries - 1, keys), 1)
    return Habits(
        float(entropy(weights).mean() / np.log(2)),
        float((weights * distance).sum(1).mean()),
        float(np.trace(weights) / min(queries, keys)),
        float(on_before),
        float(weights[:, 0].mean()),
    )


def look_at_attention(subjects: Sequence[Subject], options: AttentionOptions) -> View:
    subject = subjects[0]
    if own := attending_layers(subject.module):
        heads = options.heads or ("cross" if any(layer.kind == CROSS for layer in own) else "self")
        check_heads(subject.name, heads, own)
        reading = read(subject, options.text, options.target, into=options.into)
        found = attention_maps(reading, heads, options.kind)
    else:
        reading = read(subject, options.text, options.target, into=options.into)
        every = foreign_maps(subject.offers, reading, options.kind)
        heads = options.heads or ("cross" if any(each.layer.kind == CROSS for each in every) else "self")
        found = [each for each in every if each.layer.kind == KINDS[heads]]
        if not found:
            known = [word for word, kind in KINDS.items() if any(each.layer.kind == kind for each in every)]
            raise UserError(f"{subject.name} showed no {heads} attention while it read; it showed {' and '.join(known) or 'none at all'}")
    whole = [each for each in found if each.layer.num_heads]
    rows, columns = places_of(reading, heads, whole[0].maps)
    layer, maps = chosen_layer(whole, options.layer, f"of {heads} attention in {subject.name}")
    head = chosen_head(options.head, layer)
    is_on = [name not in options.off for name in layer.heads]
    large = unmasked(maps[is_on if any(is_on) else slice(None)].mean(0) if head is None else maps[head - 1])
    is_weights = options.kind == "weights"
    bounds: dict[str, Any] = {"low": 0.0, "high": full_colour([large]), "unit": "%"} if is_weights else {}
    title = layer_title(layer, options.off) if head is None else head_title(layer.heads[head - 1], options.off)
    one = Heatmap(large, rows, columns, title, "looks", "at", label="weight" if is_weights else "score", **bounds)
    grid = head_grid(found, options)
    facts = {
        "heads": heads,
        "kind": options.kind,
        "layer": layer.number,
        "head": head,
        "layers": [each.layer.number for each in found],
        "names": [each.layer.heads for each in found],
        "off": [name for each in found for name in each.layer.heads if name in options.off],
        "pruned": {each.layer.name: each.layer.num_pruned for each in found if each.layer.num_pruned},
        "rows": list(rows),
        "columns": list(columns),
        "values": listed(large) if large.size <= MOST_VALUES else None,
    }
    parts: list[Part] = [one, grid]
    if is_weights:
        rows_of = habit_rows(found, options.off, same_places=heads != "cross")
        parts.append(habit_table(found, rows_of, options.off, same_places=heads != "cross"))
        return View("Attention", parts, about_of(found, heads), {**facts, "habits": [[name, *row] for name, row in rows_of.items()]})
    return View("Attention scores", parts, "before the softmax; what a token may not look at has none", facts)


def head_title(name: str, off: Sequence[str]) -> str:
    return f"Head {name} (off)" if name in off else f"Head {name}"


def layer_title(layer: AttendingLayer | ForeignLayer, off: Sequence[str]) -> str:
    """The mean is of the heads that are on: one that is off looks nowhere, and would only make the others paler."""
    count, silent = layer.num_heads, [name for name in layer.heads if name in off]
    if not silent:
        return f"Layer {layer.name}, mean of {count} heads" if count > 1 else f"Layer {layer.name}"
    if len(silent) == count:
        return f"Layer {layer.name}: all heads are off"
    return f"Layer {layer.name}, mean of the {count - len(silent)} of {count} heads that are on; off: {', '.join(silent)}"


def head_grid(found: Sequence[LayerMaps], options: AttentionOptions) -> Grid:
    """A map a head; heads that are off say so, and where heads were pruned there is none."""
    most = max(each.layer.num_heads + each.layer.num_pruned for each in found)
    gone = np.zeros((0, 0), dtype=np.float32)
    is_weights = options.kind == "weights"
    shown = [[unmasked(each) for each in layer.maps] for layer in found]
    return Grid(
        [[*maps, *[gone] * layer.layer.num_pruned] for layer, maps in zip(found, shown, strict=True)],
        [layer.layer.name for layer in found],
        [str(number) for number in range(1, most + 1)],
        "All heads: weights in %" if is_weights else "All heads: scores",
        full_colour([layer.maps for layer in found if len(layer.maps)]) if is_weights else None,
        [["off" if name in options.off else "" for name in layer.layer.heads] + ["pruned"] * layer.layer.num_pruned for layer in found],
        0.0 if is_weights else min((float(each[np.isfinite(each)].min(initial=0.0)) for maps in shown for each in maps), default=0.0),
    )


def full_colour(weights: Sequence[np.ndarray]) -> float:
    """The weight that has all of the colour, a round number: twice what most places have at most. A weight among many is small, and on a
    scale up to one the maps of a long text would all be white."""
    wanted = 2 * float(np.median(np.concatenate([each.max(-1).reshape(-1) for each in weights])))
    return next((step for step in FULL if step >= wanted), 1.0)


def check_heads(name: str, heads: str, layers: Sequence[AttendingLayer]) -> None:
    known = [word for word, kind in KINDS.items() if any(layer.kind == kind and layer.num_heads for layer in layers)]
    if heads not in known:
        raise UserError(f"{name} has no {heads} attention; " + (f"heads={' or heads='.join(known)}" if known else "all are pruned"))


def chosen_layer(found: Sequence[LayerMaps], number: int | None, where: str) -> LayerMaps:
    """By its number, which says where it stands among all layers: one that lost its heads keeps its own."""
    for each in found:
        if each.layer.number == number:
            return each
    if number is not None:
        raise UserError(f"there is no layer {number} {where}; known: {few_of([str(each.layer.number) for each in found])}")
    return found[-1]


def chosen_head(number: int | None, layer: AttendingLayer | ForeignLayer) -> int | None:
    if number is not None and number > layer.num_heads:
        raise UserError(f"there is no head {number}; layer {layer.number} has {counted(layer.num_heads, 'head')}")
    return number


def places_of(reading: Reading, heads: str, maps: np.ndarray) -> tuple[Sequence[str], Sequence[str]]:
    """The names of what looks and of what is looked at. A decoder that looks at its source is named by what it is about to write; what has
    no name by its number."""
    names = {"self": (reading.pieces, reading.pieces), "cross": (reading.written, reading.pieces)}
    rows, columns = names.get(heads, (reading.read_by_decoder, reading.read_by_decoder))
    queries, keys = maps.shape[1:]
    return numbered(rows, queries), numbered(columns, keys)


def numbered(names: Sequence[str], count: int) -> Sequence[str]:
    return names if len(names) == count else [str(number) for number in range(1, count + 1)]


def unmasked(values: np.ndarray) -> np.ndarray:
    """Masked scores are -inf, or the least number there is; they are drawn as no value."""
    return np.where(values > np.finfo(values.dtype).min, values, np.nan)


def listed(values: np.ndarray) -> list[list[float | None]]:
    """As JSON has them: masked scores are null."""
    return [[None if np.isnan(value) else float(value) for value in row] for row in np.round(values, 5)]


def about_of(found: Sequence[LayerMaps], heads: str) -> str:
    what = {
        "self": "each token looks at the others",
        "decoder": "each token written looks back",
        "cross": "what is written looks at the text",
    }
    pruned = [f"{counted(each.layer.num_pruned, 'head')} of layer {each.layer.name}" for each in found if each.layer.num_pruned]
    return f"{what[heads]}: a row adds up to 100 %{'; pruned: ' + ', '.join(pruned) if pruned else ''}"


def habit_rows(found: Sequence[LayerMaps], off: Sequence[str], *, same_places: bool) -> dict[str, list[float | None]]:
    """The habits of every head, by its name, shares between 0 and 1. How far a head looks, at itself or at the token before, means
    something where both sides are one text. A head that is off looks nowhere, and has none."""
    rows: dict[str, list[float | None]] = {}
    for layer in found:
        for name, weights in zip(layer.layer.heads, layer.maps, strict=True):
            entropy, *rest, first = (round(value, 3) for value in habits(weights))
            told = [entropy, *(rest if same_places else []), first]
            rows[name] = [None] * len(told) if name in off else [*told]
    return rows


def habit_table(found: Sequence[LayerMaps], habits_of: dict[str, list[float | None]], off: Sequence[str], *, same_places: bool) -> Table:
    middle = ("distance (tokens)", "on itself (%)", "on the one before (%)") if same_places else ()
    header = ("head", "state", "entropy (bits)", *middle, "on the first (%)")
    rows: list[tuple[Any, ...]] = []
    for layer in found:
        for name in layer.layer.heads:
            cells = zip(header[2:], habits_of[name], strict=True)
            told = [round(100 * value, 1) if value is not None and heading.endswith("(%)") else value for heading, value in cells]
            rows.append((name, "off" if name in off else "on", *told))
        if layer.layer.num_pruned:
            gone = f"{counted(layer.layer.num_pruned, 'head')} pruned"
            rows.append((f"layer {layer.layer.name}", gone, *[None] * (len(header) - 2)))
    return Table(header, rows, "What heads tend to look at", keys=1)


def why_no_attention(subject: Subject) -> str | None:
    return None if shows_attention(subject.module) else why_headless(subject.module, subject.name)


def head_choices(subject: Subject) -> Choices:
    """Kinds of heads, layers and heads that a model of ours has."""
    layers = attending_layers(subject.module)
    kinds = {kind: word for word, kind in KINDS.items()}
    every = [(layer, head) for layer in layers for head in range(1, layer.num_heads + 1)]
    default = {"heads": "cross" if any(layer.kind == CROSS for layer in layers) else "self"} if every else {}
    rows = tuple((kinds[layer.kind], layer.number, head) for layer, head in every)
    return Choices(("heads", "layer", "head"), rows, tuple(layer.heads[head - 1] for layer, head in every), default)


ATTENTION = Instrument(
    "who looks at whom, head by head", AttentionOptions, look_at_attention, ("reads",), why_no_attention, choices=head_choices
)
