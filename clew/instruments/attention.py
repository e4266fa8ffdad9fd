"""The attention weights for a text, head by head, and where each head tends to look.

    weights_ij = softmax_j(scores_ij)      row i: where place i looks; each row sums to one

Works on self-attention, on a decoder's attention to its source, and on attentive recurrent decoders, which have one
head. Weights show where a head looks, not what it does with the values there (Jain and Wallace 2019).
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
from clew.inspection.heads import layers_with_heads, why_headless
from clew.inspection.recording import record
from clew.inspection.similarity import entropy
from clew.instruments.instrument import Choices, Instrument, TextOptions
from clew.instruments.reading import read
from clew.instruments.subjects.modules import AnyModule
from clew.instruments.subjects.subject import Subject
from clew.layers.attending.heads import CROSS, DECODER, OWN, AttendingLayer
from clew.tasks.offers import Reading

MOST_CELLS = 2**28
"""The maximum number of weights of all heads together."""
MOST_VALUES = 2**14
"""The maximum number of values of the large map in the facts. The view itself has all of them."""
FULL = [step / 10**power for power in range(6, 0, -1) for step in (1, 2, 5)]
KINDS = {"self": OWN, "decoder": DECODER, "cross": CROSS}


class AttentionOptions(TextOptions):
    """The heads, and which of them is drawn large."""

    heads: Literal["self", "decoder", "cross"] | None = Field(
        None,
        description=(
            "self: of the text read; decoder: of the output; cross: from output to text (default for translators)"
        ),
    )
    layer: int | None = Field(None, ge=1, description="the layer drawn large, from 1; the last by default")
    head: int | None = Field(None, ge=1, description="the head drawn large, from 1; by default the mean of its layer")
    kind: Literal["weights", "scores"] = Field("weights", description="scores: before the softmax")


class LayerMaps(NamedTuple):
    """The attention of the heads of one layer: maps (heads, query, key)."""

    layer: AttendingLayer | ForeignLayer
    maps: np.ndarray


class Habits(NamedTuple):
    """Statistics of a head, averaged over queries: entropy of its weights in bits, mean distance, and its weight on the
    query's own place, on the place before it, and on the first place."""

    entropy: float
    distance: float
    itself: float
    before: float
    first: float


def attention_maps(reading: Reading, heads: str, kind: str = "weights") -> list[LayerMaps]:
    """Record every layer of this kind, the lowest first; a layer without heads has no maps. The weights of hard
    attention are 1 at the place where it looks."""
    layers = [layer for layer in layers_with_heads(reading.module) if layer.kind == KINDS[heads]]
    keys = len(reading.tokens) if heads != "decoder" else len(reading.written)
    queries = len(reading.tokens) if heads == "self" else len(reading.written)
    if (cells := sum(layer.num_heads for layer in layers) * queries * keys) > MOST_CELLS:
        raise UserError(
            f"{queries} x {keys} weights of all heads take {4 * cells / 1e9:.1f} GB, too much to show; shorten the text"
        )
    paths = {
        layer.name: layer.weights if kind == "weights" else f"{layer.path}.scores"
        for layer in layers
        if layer.num_heads
    }
    with record(reading.module, *paths.values()) as recorded:
        reading.hidden()
    none = np.zeros((0, queries, keys), dtype=np.float32)
    return [
        LayerMaps(layer, as_maps(recorded[paths[layer.name]]).float().cpu().numpy() if layer.name in paths else none)
        for layer in layers
    ]


def foreign_maps(model: AnyModule, reading: Reading, kind: str) -> list[LayerMaps]:
    """Record every attention layer of a foreign module."""
    if kind != "weights":
        raise UserError(
            f"{model.name} shows the weights of its heads, but not the scores before the softmax; leave kind= out"
        )
    with evaluating([model.module]):
        layers = foreign_weights(model.module, lambda **more: model.called(reading.batch, **more))
    return [LayerMaps(each.layer, each.weights.float().cpu().numpy()) for each in layers]


def as_maps(recorded: Tensor) -> Tensor:
    """Return (heads, query, key) of one row; a loop over time records (batch, length, heads, 1, key)."""
    return recorded[0, :, :, 0].transpose(0, 1) if recorded.ndim == 5 else recorded[0]


def habits(weights: np.ndarray) -> Habits:
    """Compute the statistics of one head's weights (query, key), with query and key places numbered alike."""
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
    if own := layers_with_heads(subject.module):
        heads = options.heads or ("cross" if any(layer.kind == CROSS for layer in own) else "self")
        check_heads(subject.name, heads, own)
        reading = read(subject, options.text, options.target, into=options.into)
        recorded = attention_maps(reading, heads, options.kind)
    else:
        reading = read(subject, options.text, options.target, into=options.into)
        all_maps = foreign_maps(subject.offers, reading, options.kind)
        heads = options.heads or ("cross" if any(each.layer.kind == CROSS for each in all_maps) else "self")
        recorded = [each for each in all_maps if each.layer.kind == KINDS[heads]]
        if not recorded:
            kinds_here = [word for word, kind in KINDS.items() if any(each.layer.kind == kind for each in all_maps)]
            raise UserError(
                f"{subject.name} has no {heads} attention here; it has {' and '.join(kinds_here) or 'none at all'}"
            )
    whole = [each for each in recorded if each.layer.num_heads]
    rows, columns = places_of(reading, heads, whole[0].maps)
    layer, maps = chosen_layer(whole, options.layer, f"of {heads} attention in {subject.name}")
    head = chosen_head(options.head, layer)
    is_on = [name not in options.off for name in layer.heads]
    large = hide_masked(maps[is_on if any(is_on) else slice(None)].mean(0) if head is None else maps[head - 1])
    is_weights = options.kind == "weights"
    bounds: dict[str, Any] = {"low": 0.0, "high": full_colour([large]), "unit": "%"} if is_weights else {}
    title = layer_title(layer, options.off) if head is None else head_title(layer.heads[head - 1], options.off)
    one = Heatmap(large, rows, columns, title, "looks", "at", label="weight" if is_weights else "score", **bounds)
    grid = head_grid(recorded, options)
    facts = {
        "heads": heads,
        "kind": options.kind,
        "layer": layer.number,
        "head": head,
        "layers": [each.layer.number for each in recorded],
        "names": [each.layer.heads for each in recorded],
        "off": [name for each in recorded for name in each.layer.heads if name in options.off],
        "pruned": {each.layer.name: each.layer.num_pruned for each in recorded if each.layer.num_pruned},
        "rows": list(rows),
        "columns": list(columns),
        "values": to_json(large) if large.size <= MOST_VALUES else None,
    }
    parts: list[Part] = [one, grid]
    if is_weights:
        rows_of = habit_rows(recorded, options.off, same_places=heads != "cross")
        parts.append(habit_table(recorded, rows_of, options.off, same_places=heads != "cross"))
        return View(
            "Attention",
            parts,
            about_of(recorded, heads),
            {**facts, "habits": [[name, *row] for name, row in rows_of.items()]},
        )
    return View("Attention scores", parts, "before the softmax; places that a token cannot see have no score", facts)


def head_title(name: str, off: Sequence[str]) -> str:
    return f"Head {name} (off)" if name in off else f"Head {name}"


def layer_title(layer: AttendingLayer | ForeignLayer, off: Sequence[str]) -> str:
    """Return the title of a layer's mean. The mean is over the heads that are on, since heads that are off have no
    weights and would only make the map paler."""
    count, silent = layer.num_heads, [name for name in layer.heads if name in off]
    if not silent:
        return f"Layer {layer.name}, mean of {count} heads" if count > 1 else f"Layer {layer.name}"
    if len(silent) == count:
        return f"Layer {layer.name}: all heads are off"
    return (
        f"Layer {layer.name}, mean of the {count - len(silent)} of {count} heads that are on; off: {', '.join(silent)}"
    )


def head_grid(recorded: Sequence[LayerMaps], options: AttentionOptions) -> Grid:
    """Draw one map per head; heads that are off are marked, and pruned heads have no map."""
    most = max(each.layer.num_heads + each.layer.num_pruned for each in recorded)
    no_map = np.zeros((0, 0), dtype=np.float32)
    is_weights = options.kind == "weights"
    drawn_maps = [[hide_masked(each) for each in layer.maps] for layer in recorded]
    return Grid(
        [[*maps, *[no_map] * layer.layer.num_pruned] for layer, maps in zip(recorded, drawn_maps, strict=True)],
        [layer.layer.name for layer in recorded],
        [str(number) for number in range(1, most + 1)],
        "All heads: weights in %" if is_weights else "All heads: scores",
        full_colour([layer.maps for layer in recorded if len(layer.maps)]) if is_weights else None,
        [
            ["off" if name in options.off else "" for name in layer.layer.heads] + ["pruned"] * layer.layer.num_pruned
            for layer in recorded
        ],
        (
            0.0
            if is_weights
            else min(
                (float(each[np.isfinite(each)].min(initial=0.0)) for maps in drawn_maps for each in maps), default=0.0
            )
        ),
    )


def full_colour(weights: Sequence[np.ndarray]) -> float:
    """Return the weight that gets full colour, a round number: twice the median of the largest weight per place. With a
    scale up to one, the maps of a long text would all be white."""
    target = 2 * float(np.median(np.concatenate([each.max(-1).reshape(-1) for each in weights])))
    return next((step for step in FULL if step >= target), 1.0)


def check_heads(name: str, heads: str, layers: Sequence[AttendingLayer]) -> None:
    known_kinds = [
        word for word, kind in KINDS.items() if any(layer.kind == kind and layer.num_heads for layer in layers)
    ]
    if heads not in known_kinds:
        raise UserError(
            f"{name} has no {heads} attention; "
            + (f"heads={' or heads='.join(known_kinds)}" if known_kinds else "all are pruned")
        )


def chosen_layer(recorded: Sequence[LayerMaps], number: int | None, where: str) -> LayerMaps:
    """Return the layer with this number, or the last. Numbers count all layers, also those without heads."""
    for each in recorded:
        if each.layer.number == number:
            return each
    if number is not None:
        raise UserError(
            f"there is no layer {number} {where}; known: {few_of([str(each.layer.number) for each in recorded])}"
        )
    return recorded[-1]


def chosen_head(number: int | None, layer: AttendingLayer | ForeignLayer) -> int | None:
    if number is not None and number > layer.num_heads:
        raise UserError(f"there is no head {number}; layer {layer.number} has {counted(layer.num_heads, 'head')}")
    return number


def places_of(reading: Reading, heads: str, maps: np.ndarray) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of query and key places. Queries of a decoder over its source have the names of the tokens to be
    written; places without a name are numbered."""
    names = {"self": (reading.pieces, reading.pieces), "cross": (reading.written, reading.pieces)}
    rows, columns = names.get(heads, (reading.read_by_decoder, reading.read_by_decoder))
    queries, keys = maps.shape[1:]
    return names_or_numbers(rows, queries), names_or_numbers(columns, keys)


def names_or_numbers(names: Sequence[str], count: int) -> Sequence[str]:
    return names if len(names) == count else [str(number) for number in range(1, count + 1)]


def hide_masked(values: np.ndarray) -> np.ndarray:
    """Replace masked scores, which are -inf or the lowest finite number, by NaN, which is drawn as no value."""
    return np.where(values > np.finfo(values.dtype).min, values, np.nan)


def to_json(values: np.ndarray) -> list[list[float | None]]:
    """Convert values to JSON lists, with null for masked scores."""
    return [[None if np.isnan(value) else float(value) for value in row] for row in np.round(values, 5)]


def about_of(recorded: Sequence[LayerMaps], heads: str) -> str:
    what = {
        "self": "each token looks at the others",
        "decoder": "each written token looks back",
        "cross": "the output looks at the text",
    }
    pruned = [
        f"{counted(each.layer.num_pruned, 'head')} of layer {each.layer.name}"
        for each in recorded
        if each.layer.num_pruned
    ]
    return f"{what[heads]}: each row sums to 100 %{'; pruned: ' + ', '.join(pruned) if pruned else ''}"


def habit_rows(
    recorded: Sequence[LayerMaps], off: Sequence[str], *, same_places: bool
) -> dict[str, list[float | None]]:
    """Return the statistics of every head by name, with shares between 0 and 1. Distance and the weights on itself and
    on the token before are only meaningful within one text. Heads that are off have none."""
    rows: dict[str, list[float | None]] = {}
    for layer in recorded:
        for name, weights in zip(layer.layer.heads, layer.maps, strict=True):
            entropy, *rest, first = (round(value, 3) for value in habits(weights))
            statistics = [entropy, *(rest if same_places else []), first]
            rows[name] = [None] * len(statistics) if name in off else [*statistics]
    return rows


def habit_table(
    recorded: Sequence[LayerMaps], habits_of: dict[str, list[float | None]], off: Sequence[str], *, same_places: bool
) -> Table:
    middle = ("distance (tokens)", "on itself (%)", "on the one before (%)") if same_places else ()
    header = ("head", "state", "entropy (bits)", *middle, "on the first (%)")
    rows: list[tuple[Any, ...]] = []
    for layer in recorded:
        for name in layer.layer.heads:
            cells = zip(header[2:], habits_of[name], strict=True)
            values = [
                round(100 * value, 1) if value is not None and heading.endswith("(%)") else value
                for heading, value in cells
            ]
            rows.append((name, "off" if name in off else "on", *values))
        if layer.layer.num_pruned:
            pruned = f"{counted(layer.layer.num_pruned, 'head')} pruned"
            rows.append((f"layer {layer.layer.name}", pruned, *[None] * (len(header) - 2)))
    return Table(header, rows, "Where heads look", keys=1)


def why_no_attention(subject: Subject) -> str | None:
    return None if shows_attention(subject.module) else why_headless(subject.module, subject.name)


def head_choices(subject: Subject) -> Choices:
    """Return the kinds, layers and heads of a clew model as choices."""
    layers = layers_with_heads(subject.module)
    kinds = {kind: word for word, kind in KINDS.items()}
    every = [(layer, head) for layer in layers for head in range(1, layer.num_heads + 1)]
    default = {"heads": "cross" if any(layer.kind == CROSS for layer in layers) else "self"} if every else {}
    rows = tuple((kinds[layer.kind], layer.number, head) for layer, head in every)
    return Choices(("heads", "layer", "head"), rows, tuple(layer.heads[head - 1] for layer, head in every), default)


ATTENTION = Instrument(
    "attention weights, head by head",
    AttentionOptions,
    look_at_attention,
    ("reads",),
    why_no_attention,
    choices=head_choices,
)
