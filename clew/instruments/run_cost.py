"""The instrument `cost`: the cost of each layer of a run by text length, measured and by formula.

FLOPs = 2 n P + 4 n m w  P weights multiplied at every position; attention of width w over all heads sees m positions
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from clew.core.config import Section
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.drawing.views import Part, Table, View
from clew.inspection.cost import Costs, costs_as_json, curves, seconds_of, slope
from clew.inspection.metering import metered
from clew.instruments.instrument import Instrument
from clew.instruments.subjects.subject import Subject
from clew.kernels import only_equations
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attention import Attention, SelfAttention
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.sequence import SequenceLayer, Stack


class CostOptions(Section):
    """The lengths, and how often layers are timed."""

    lengths: tuple[int, ...] = Field((16, 32, 64, 128), description="text lengths, in tokens")
    repeats: int = Field(3, ge=0, le=100, description="how often each layer is timed; 0 to skip timing")


class LayerGroup(NamedTuple):
    """The layers of a run that have the same kind and size: the first of them, and their number."""

    name: str
    kind: str
    layer: nn.Module
    number: int


class LayerInput(NamedTuple):
    """The input of a layer: vectors (1, length, dim), and the state of a decoder layer that attends to a memory."""

    x: Tensor
    state: Any


def group_layers(module: nn.Module) -> list[LayerGroup]:
    """Group layers by half, kind and number of parameters, the lowest first; the number is in the name if needed to
    distinguish two."""
    groups: dict[tuple[Any, ...], LayerGroup] = {}
    for half, body in halves_of(module):
        for layer in layers_of(body):
            kind = kind_of(layer)
            key = (half, kind, sum(parameter.numel() for parameter in layer.parameters()))
            before = groups.get(key)
            name = f"{half} {kind}".strip()
            groups[key] = (
                LayerGroup(name, kind, layer, 1) if before is None else before._replace(number=before.number + 1)
            )
    names = Counter(group.name for group in groups.values())
    sized = [
        group._replace(name=f"{group.name} of {key[2]:,}") if names[group.name] > 1 else group
        for key, group in groups.items()
    ]
    return [group if group.number == 1 else group._replace(name=f"{group.number} x {group.name}") for group in sized]


def halves_of(module: nn.Module) -> list[tuple[str, Any]]:
    body: Any = body_of(module)
    return [("encoder", body.encoder), ("decoder", body.decoder)] if getattr(body, "encodes", False) else [("", body)]


def body_of(module: nn.Module) -> nn.Module:
    """Return a task's body, or the module itself if it is a body."""
    body = getattr(module, "body", module)
    return body if isinstance(body, nn.Module) else module


def layers_of(body: Any) -> list[nn.Module]:
    return list(body.layers.layers) if isinstance(body.layers, Stack) else [body.layers]


def kind_of(layer: nn.Module) -> str:
    """Return the type name of a layer without its wiring; for a recurrence that of its cell."""
    while isinstance(inner := getattr(layer, "layer", None), nn.Module):
        layer = inner
    if isinstance(layer, Bidirectional):
        return f"two-way {kind_of(layer.forward_layer)}"
    if isinstance(layer, Stack):
        return f"{len(layer.layers)} {kind_of(layer.layers[0])}"
    return type(layer.cell if isinstance(layer, Recurrent) else layer).__name__


def inputs_at(module: nn.Module, length: int) -> dict[nn.Module, LayerInput]:
    """Return the inputs of every layer for this length of source and target; the cost does not depend on their
    values."""
    body: Any = body_of(module)
    inputs = {}
    device = body.embedding.like.device
    for half, part in halves_of(module):
        memory = body.encode(inputs_for(body.encoder, length, device)) if half == "decoder" else None
        states = body.initial_state(1, memory).layers if memory is not None else None
        x = torch.randn(1, length, part.embedding.dim, generator=torch.Generator().manual_seed(length)).to(
            part.embedding.like
        )
        for number, layer in enumerate(layers_of(part)):
            state = None if states is None else states[number] if isinstance(part.layers, Stack) else states
            inputs[layer] = LayerInput(x, state)
            x = layer(x, None, state)[0]
    return inputs


def inputs_for(body: Any, length: int, device: torch.device) -> Any:
    """Return random tokens, or blank vectors for a body that reads vectors."""
    if not body.vocabulary:
        return body.embedding.blank(1, length)
    return torch.randint(body.vocabulary, (1, length), generator=torch.Generator().manual_seed(length)).to(device)


def formula(layer: nn.Module, length: int) -> int | None:
    """Return 2 n P + 4 n m w with m = n; None for other kinds of attention."""
    looking = [part for part in layer.modules() if isinstance(part, (SelfAttention, CrossAttention))]
    if len(looking) != sum(isinstance(part, Attention) for part in layer.modules()):
        return None
    weights = sum(parameter.numel() for parameter in layer.parameters() if parameter.ndim > 1)
    return 2 * length * weights + sum(4 * length * length * part.num_heads * part.head_dim for part in looking)


def costs_of(module: nn.Module, lengths: Sequence[int], repeats: int) -> list[tuple[LayerGroup, Costs]]:
    layers = group_layers(module)
    rows: dict[str, list[tuple[int, int | None, int, int, float]]] = {layer.name: [] for layer in layers}
    with evaluating([module]):
        for length in lengths:
            inputs = inputs_at(module, length)
            for group in layers:
                x, state = inputs[group.layer]

                def call(layer: nn.Module = group.layer, x: Tensor = x, state: Any = state) -> Any:
                    return layer(x, None, state)

                with only_equations():
                    meter = metered(call)
                expected = formula(group.layer, length)
                rows[group.name].append((meter.flops, expected, meter.chain, meter.memory, seconds_of(call, repeats)))
    columns = {
        name: [[value for value in column if value is not None] for column in zip(*each, strict=True)]
        for name, each in rows.items()
    }
    return [(group, Costs(list(lengths), *columns[group.name])) for group in layers]


def look_at_cost(subjects: Sequence[Subject], options: CostOptions) -> View:
    module = subjects[0].module
    lengths = checked_lengths(module, options.lengths)
    measured = costs_of(module, lengths, options.repeats)
    rows = [cost_row(group, costs) for group, costs in measured]
    inside = sum(row[1] for row in rows)
    total = sum(parameter.numel() for parameter in module.parameters())
    header = (
        "layer",
        "parameters",
        f"FLOPs, n={lengths[-1]}",
        "FLOPs by the formula",
        "power of n",
        "chain (steps)",
        "alive (kB)",
        "power of n in memory",
        *(("time (ms)", "power of n in time") if options.repeats else ()),
    )
    # Lines of compared runs are matched by name, so the fitted powers are only in the table.
    lines = curves([(group.name, costs) for group, costs in measured], "length", "one of each kind", powers=False)
    parts: list[Part] = [Table(header, rows, keys=1), *lines]
    facts = {
        "parameters": total,
        "layers": [
            {"name": group.name, "kind": group.kind, "number": group.number, **costs_as_json(costs)}
            for group, costs in measured
        ],
    }
    about = (
        f"{total:,} parameters, {total - inside:,} of them in no layer (embedding, output, norms); one layer of each"
        " kind, on one text"
    )
    return View("Cost", parts, about, facts)


def cost_row(group: LayerGroup, costs: Costs) -> tuple[Any, ...]:
    expected = formula(group.layer, costs.sizes[-1])
    several, timed = len(costs.sizes) > 1, not math.isnan(costs.seconds[-1])
    power, room = (
        round(slope(costs.sizes, each), 2) if several and all(each) else "" for each in (costs.flops, costs.memory)
    )
    pace = round(slope(costs.sizes, costs.seconds), 2) if several and timed else ""
    times = (round(1000 * costs.seconds[-1], 2), pace) if timed else ()
    parameters = group.number * sum(parameter.numel() for parameter in group.layer.parameters())
    return (
        group.name,
        parameters,
        costs.flops[-1],
        expected,
        power,
        costs.chains[-1],
        costs.memory[-1] // 1000,
        room,
        *times,
    )


def checked_lengths(module: nn.Module, lengths: Sequence[int]) -> list[int]:
    """Return the lengths that fit into the model's positions."""
    if not lengths or min(lengths) < 1 or max(lengths) > LONGEST:
        raise UserError(f"lengths must be one or more whole numbers from 1 to {LONGEST:,}, not {list(lengths)}")
    limits = [limit for _, body in halves_of(module) if (limit := body.max_length) is not None]
    fitting = sorted({length for length in lengths if length <= min(limits, default=LONGEST)})
    if not fitting:
        raise UserError(f"the model has {min(limits)} positions; use lengths up to that, not {list(lengths)}")
    return fitting


LONGEST = 8192


def why_no_cost(subject: Subject) -> str | None:
    is_known = all(
        hasattr(body, "embedding") and isinstance(getattr(body, "layers", None), SequenceLayer)
        for _, body in halves_of(subject.module)
    )
    return None if is_known else f"{subject.name} has no body of clew layers, the only ones whose cost is known"


COST = Instrument(
    "the cost of each layer by text length: FLOPs, memory, time",
    CostOptions,
    look_at_cost,
    ("reads",),
    why_no_cost,
    quick=False,
)
