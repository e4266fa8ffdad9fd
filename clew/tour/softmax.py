"""The experiment `softmax`: how dividing scores by sqrt(d) affects the softmax and its gradient, before training.

q and k have d entries of variance 1, so q . k has variance d. With w = softmax(s),

    d w / d s = diag(w) - w w^T

which is 0 if one weight is 1.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from clew.drawing.views import Bars, Lines, Part, Series, Table, View
from clew.layers.scores import SCORES
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.training import generator

KEYS = 32
USUAL = 64
"""The width of a head in the base model of Vaswani et al. (2017)."""
WIDTHS = (4, 16, USUAL, 256, 1024)
DRAWS: dict[Scale, int] = {"quick": 50, "tour": 400, "full": 2000}
NAMES = {"dot": "q . k", "scaled": "q . k / sqrt(d)"}


class Spread(NamedTuple):
    """Statistics of scores of one width: their variance, the mean of the largest weight, and the median norm of the
    gradient."""

    variance: float
    largest: float
    gradient: float


def jacobian_norms(weights: Tensor) -> Tensor:
    """Return the Frobenius norm of diag(w) - w w^T for w (..., keys)."""
    jacobian = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]
    return jacobian.flatten(-2).norm(dim=-1)


def drawn_scores(name: str, width: int, draws: int, seed: int) -> Tensor:
    """Return scores (draws, KEYS), with the same queries and keys for every kind of score."""
    source = generator(seed, width)
    score, scores = SCORES[name](width, width), []
    for _ in range(draws):
        query, key = torch.randn(1, 1, 1, width, generator=source), torch.randn(1, 1, KEYS, width, generator=source)
        scores.append(score(query, key, torch.arange(KEYS)[None, None]).flatten())
    return torch.stack(scores)


def spread_of(scores: Tensor) -> Spread:
    weights = scores.softmax(-1)
    return Spread(float(scores.var()), float(weights.amax(-1).mean()), float(jacobian_norms(weights).median()))


def run(scale: Scale, seed: int, report: Report) -> Finding:
    """Compare both kinds of scores at several widths."""
    draws = DRAWS[scale]
    report(f"{draws} queries, {KEYS} keys, heads of {', '.join(map(str, WIDTHS))}")
    spreads_by_score = {name: [spread_of(drawn_scores(name, width, draws, seed)) for width in WIDTHS] for name in NAMES}
    plain, scaled = (spreads[WIDTHS.index(USUAL)] for spreads in spreads_by_score.values())
    wide, wide_scaled = (spreads[-1] for spreads in spreads_by_score.values())
    even = float(jacobian_norms(torch.full((KEYS,), 1 / KEYS)))
    return Finding(
        "Why scores are divided by the root of the width",
        "The dot product of two vectors whose entries have variance 1 has variance d. For wide heads the"
        " variance is large, which pushes the softmax into regions of extremely small gradient; dividing by sqrt(d)"
        " prevents this (Vaswani et"
        " al. 2017, section 3.2.1).",
        f"With heads of width {USUAL}, the variance of a score is {plain.variance:.1f}, scaled {scaled.variance:.2f};"
        f" the largest of {KEYS} weights is {plain.largest:.2f} on average, scaled {scaled.largest:.2f}; the softmax's"
        f" gradient has a median norm of {plain.gradient:.3f}, scaled {scaled.gradient:.3f}. With heads of width"
        f" {WIDTHS[-1]}, the norm is {wide.gradient:.1e}, scaled {wide_scaled.gradient:.3f}. All of this is before"
        " training; for the effect after training see `barriers`.",
        View(
            "The softmax with and without scaling",
            parts_of(spreads_by_score, even, seed),
            f"{draws} draws from N(0, 1), {KEYS} keys.",
        ),
        [
            (
                f"variance of a score, heads of {USUAL}, plain and scaled",
                f"{USUAL} and 1",
                f"{plain.variance:.1f} and {scaled.variance:.2f}",
            ),
            (
                f"median gradient of the softmax, heads of {WIDTHS[-1]}, plain and scaled",
                "extremely small; larger",
                f"{wide.gradient:.1e} and {wide_scaled.gradient:.3f}",
            ),
        ],
    )


def parts_of(spreads_by_score: dict[str, list[Spread]], even: float, seed: int) -> list[Part]:
    gradients = [
        Series(NAMES[name], WIDTHS, [spread.gradient for spread in spreads])
        for name, spreads in spreads_by_score.items()
    ]
    largest = [
        Series(NAMES[name], WIDTHS, [spread.largest for spread in spreads])
        for name, spreads in spreads_by_score.items()
    ]
    one_draw = [
        drawn_scores(name, USUAL, 1, seed)[0].softmax(-1).sort(descending=True).values[:12].tolist() for name in NAMES
    ]
    rows = [
        (width, *(cell for spreads in spreads_by_score.values() for cell in spread_cells(spreads[place])))
        for place, width in enumerate(WIDTHS)
    ]
    header = (
        "d",
        *(f"{what}, {name}" for name in NAMES.values() for what in ("variance", "largest weight", "gradient")),
    )
    return [
        Lines(
            gradients,
            "width d of a head",
            "norm",
            "Median norm of the softmax's gradient",
            log_x=True,
            log_y=True,
            thresholds=[("equal weights", even)],
        ),
        Lines(largest, "width d of a head", "weight", "Largest weight, mean", log_x=True),
        Bars(
            [str(place) for place in range(1, 13)],
            list(zip(*one_draw, strict=True)),
            "weight",
            f"One draw, d = {USUAL}",
            list(NAMES.values()),
            0.0,
            1.0,
        ),
        Table(header, rows),
    ]


def spread_cells(spread: Spread) -> tuple[str, ...]:
    return f"{spread.variance:.2f}", f"{spread.largest:.3f}", f"{spread.gradient:.2g}"


SOFTMAX = Experiment("why scores are divided by the root of the width", run)
