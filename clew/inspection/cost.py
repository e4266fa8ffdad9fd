"""Costs of kinds of layers, measured and by formula, for n positions of d numbers (Vaswani et al. 2017, table 1).

                        operations      sequential operations        longest path between two positions
    self-attention      n^2 d + n d^2   1                            1
    recurrence          n d^2           n                            n
    convolution         k n d^2         1                            (n - 1) / (k - 1)
    windowed attention  r n d + n d^2   1                            n / r

The paper's table omits the n d^2 of attention's projections; they are included here. FLOPs, memory and chains of
products are counted as in `metering`, on the layers' equations; times are of the layers as they normally run, and vary.
Windowed attention runs through its ring, as in decoding: over a whole text at once, its equation masks n^2 scores and
saves nothing. The ring holds a chunk besides the window, so more keys are read than the r + 1 of the formula, by the
same number at every length.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clew.drawing.views import Lines, Part, Series, Table, View
from clew.inspection.metering import metered
from clew.kernels import only_equations
from clew.layers.attention import SelfAttention
from clew.layers.cells import LSTM
from clew.layers.convolution import Convolution
from clew.layers.recurrent import Recurrent
from clew.layers.sequence import SequenceLayer

HEADS, WIDTH, WINDOW = 4, 3, 32
"""Attention heads, width k of the convolution, and window r."""


class LayerKind(NamedTuple):
    """`build(d)` builds the layer, `flops(n, d)` is the formula of its FLOPs, and `path(n)` the number of layers or
    steps between the ends of n positions; `cost` and `steps` are display texts of the operations and the sequential
    operations."""

    build: Callable[[int], SequenceLayer]
    flops: Callable[[int, int], int]
    path: Callable[[int], int]
    cost: str
    steps: str
    through_ring: bool = False


class Costs(NamedTuple):
    """Costs of a layer at several sizes; `formula` is empty if none is known."""

    sizes: list[int]
    flops: list[int]
    formula: list[int]
    chains: list[int]
    memory: list[int]
    seconds: list[float]


class KindCosts(NamedTuple):
    """Costs of a kind of layer by length at one width, and by width at one length."""

    name: str
    parameters: int
    by_length: Costs
    by_width: Costs


def attended(n: int, d: int, seen: int) -> int:
    """FLOPs of four projections, the scores of n queries with `seen` keys each, and the weighted mean of values."""
    return 8 * n * d * d + 4 * n * seen * d


def measure_kinds(
    lengths: Sequence[int], widths: Sequence[int], *, length: int, width: int, repeats: int = 3, seed: int = 0
) -> list[KindCosts]:
    """Measure every kind of layer at `lengths` with one `width`, and at `widths` with one `length`. With `repeats` 0
    nothing is timed."""
    measured = []
    for name, kind in LAYER_KINDS.items():
        torch.manual_seed(seed)
        parameters = sum(parameter.numel() for parameter in kind.build(width).parameters())
        by_length = costs_at(kind, [(n, width) for n in lengths], list(lengths), repeats)
        by_width = costs_at(kind, [(length, d) for d in widths], list(widths), repeats)
        measured.append(KindCosts(name, parameters, by_length, by_width))
    return measured


def costs_at(kind: LayerKind, points: Sequence[tuple[int, int]], sizes: list[int], repeats: int) -> Costs:
    rows = []
    for n, d in points:
        layer, x = kind.build(d).eval(), torch.randn(1, n, d)

        def call(layer: SequenceLayer = layer, x: Tensor = x) -> Any:
            return layer(x, None, layer.initial_state(1, capacity=x.shape[1], like=x) if kind.through_ring else None)

        with only_equations():
            seen = metered(call)
        rows.append((seen.flops, kind.flops(n, d), seen.chain, seen.memory, seconds_of(call, repeats)))
    return Costs(sizes, *(list(column) for column in zip(*rows, strict=True)))


def seconds_of(call: Callable[[], Any], repeats: int) -> float:
    """Return the median time of `repeats` runs after a warm-up run; NaN if `repeats` is 0."""
    if repeats < 1:
        return math.nan
    times = []
    with torch.no_grad():
        for _ in range(repeats + 1):
            start = time.perf_counter()
            call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Fit the power p of y = c x^p by least squares of log y on log x; NaN for a single point, or if y is not
    positive."""
    if len(x) < 2 or min(y) <= 0:
        return math.nan
    a, b = np.log(np.asarray(x, dtype=np.float64)), np.log(np.asarray(y, dtype=np.float64))
    a = a - a.mean()
    return float(a @ (b - b.mean()) / (a @ a))


def kinds_view(measured_kinds: Sequence[KindCosts], *, length: int, width: int) -> View:
    """Show a table of the kinds, and curves by length and width on logarithmic axes, with dashed formulas."""
    rows = [kind_row(kind, length) for kind in measured_kinds]
    measured = (
        f"FLOPs, n={measured_kinds[0].by_length.sizes[-1]}",
        "formula error",
        "power of n",
        "power of d",
        "chain grows by n^",
    )
    header = ("layer", "operations", "sequential", "longest path", "parameters", *measured)
    parts: list[Part] = [
        Table(header, rows),
        *curves([(kind.name, kind.by_length) for kind in measured_kinds], "length", f"width {width}"),
    ]
    parts += curves([(kind.name, kind.by_width) for kind in measured_kinds], "width", f"length {length}")
    facts = {kind.name: kind_facts(kind) for kind in measured_kinds}
    return View("What layers cost", parts, f"one layer of width {width}, k={WIDTH}, r={WINDOW}, {HEADS} heads", facts)


def kind_row(kind: KindCosts, length: int) -> tuple[Any, ...]:
    about, costs = LAYER_KINDS[kind.name], kind.by_length
    off = costs.flops[-1] / costs.formula[-1] - 1
    path = f"{about.path(length)} at n={length}"
    powers = (
        slope(costs.sizes, costs.flops),
        slope(kind.by_width.sizes, kind.by_width.flops),
        slope(costs.sizes, costs.chains),
    )
    return (
        kind.name,
        about.cost,
        about.steps,
        path,
        kind.parameters,
        costs.flops[-1],
        f"{off:+.1%}",
        *(round(power, 2) for power in powers),
    )


def curves(named: Sequence[tuple[str, Costs]], size: str, at: str, *, powers: bool = True) -> list[Part]:
    """Draw FLOPs with their formulas, memory, and measured times; with `powers`, each name has the fitted power."""

    def powered(name: str, x: Sequence[float], y: Sequence[float]) -> str:
        return f"{name}, power {slope(x, y):.2f}" if powers and len(x) > 1 else name

    flops: list[Series] = []
    for name, costs in named:
        flops.append(Series(powered(name, costs.sizes, costs.flops), costs.sizes, costs.flops))
        if costs.formula:
            flops.append(Series(f"{name}, formula", costs.sizes, costs.formula, dashed=True))
    memory = [Series(powered(name, costs.sizes, costs.memory), costs.sizes, costs.memory) for name, costs in named]
    times = [
        Series(powered(name, costs.sizes, costs.seconds), costs.sizes, [1000 * value for value in costs.seconds])
        for name, costs in named
        if not any(map(math.isnan, costs.seconds))
    ]
    drawn = [(flops, "FLOPs"), (memory, "peak memory in bytes"), (times, "time in ms")]
    return [
        Lines(series, size, what, f"{what} by {size}, {at}", log_x=True, log_y=True) for series, what in drawn if series
    ]


def kind_facts(kind: KindCosts) -> dict[str, Any]:
    about = LAYER_KINDS[kind.name]
    return {
        "cost": about.cost,
        "parameters": kind.parameters,
        "by_length": costs_as_json(kind.by_length),
        "by_width": costs_as_json(kind.by_width),
    }


def costs_as_json(costs: Costs) -> dict[str, Any]:
    """Return costs and fitted powers of FLOPs, memory and time as JSON values; without times theirs are null."""
    timed = not any(map(math.isnan, costs.seconds))
    several = len(costs.sizes) > 1
    return {
        **costs._asdict(),
        "seconds": costs.seconds if timed else None,
        "power_of_flops": slope(costs.sizes, costs.flops) if several else None,
        "power_of_memory": slope(costs.sizes, costs.memory) if several else None,
        "power_of_seconds": slope(costs.sizes, costs.seconds) if several and timed else None,
    }


LAYER_KINDS: dict[str, LayerKind] = {
    "self-attention": LayerKind(
        lambda d: SelfAttention(d, HEADS),
        lambda n, d: attended(n, d, n),
        lambda n: 1,
        "n^2 d + n d^2",
        "a constant number",
    ),
    "recurrence": LayerKind(lambda d: Recurrent(LSTM(d, d)), lambda n, d: 16 * n * d * d, lambda n: n, "n d^2", "n"),
    "convolution": LayerKind(
        lambda d: Convolution(d, d, width=WIDTH),
        lambda n, d: 2 * WIDTH * n * d * d,
        lambda n: math.ceil((n - 1) / (WIDTH - 1)),
        "k n d^2",
        "1",
    ),
    "windowed attention": LayerKind(
        lambda d: SelfAttention(d, HEADS, window=WINDOW),
        lambda n, d: attended(n, d, min(n, WINDOW + 1)),
        lambda n: math.ceil((n - 1) / WINDOW),
        "r n d + n d^2",
        "a constant number",
        through_ring=True,
    ),
}
