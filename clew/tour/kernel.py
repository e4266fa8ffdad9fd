"""The experiment `kernel`: kernel regression, the ancestor of attention. The mean of values under a kernel (Nadaraya
1964; Watson 1964)

    y(x) = sum_i K(x - x_i) y_i / sum_j K(x - x_j)

with a Gaussian K of bandwidth h is attention: the query is x, the keys are the x_i, the values the y_i, and the weights

    softmax_i(-(x - x_i)^2 / (2 h^2)) = softmax_i(q . k_i),   q = (x, 1) / h,   k_i = (x_i, -x_i^2 / 2) / h

since a softmax does not change when all scores change by the same amount. h is trained by predicting each point from
the others.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from clew.core.masks import Places
from clew.core.types import State, Term
from clew.drawing.views import Heatmap, Lines, Note, Part, Points, Series, Table, View
from clew.layers.attention import Attention
from clew.layers.scores import Dot
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.training import generator, train_task

SPAN = 5.0
NOISE = 0.5
PLACES = 50
"""The number of points at which the curves are evaluated."""
BANDWIDTH = 1.0
"""The initial bandwidth."""
SIZES: dict[Scale, tuple[int, int]] = {"quick": (20, 30), "tour": (50, 200), "full": (50, 400)}
"""The numbers of points and of training steps."""


class Sample(NamedTuple):
    x: Tensor  # (points,)
    y: Tensor


class KernelRegression(nn.Module):
    """Kernel regression with a Gaussian kernel of learnt bandwidth, computed as attention. The loss predicts every
    point from all others."""

    def __init__(self, bandwidth: float = BANDWIDTH):
        super().__init__()
        self.sharpness = nn.Parameter(torch.tensor(-math.log(bandwidth)))  # log 1 / h, so that h stays positive
        self.attention = Attention(Dot(2, 2))

    @property
    def bandwidth(self) -> float:
        return math.exp(-self.sharpness.item())

    def read(self, x: Tensor, points: Sample, visible: Tensor | None = None) -> Tensor:
        """Return y at x (queries,), by the kernel over the points visible to each query."""
        factor = torch.exp(self.sharpness)
        query = factor * torch.stack([x, torch.ones_like(x)], -1)
        key = factor * torch.stack([points.x, -(points.x**2) / 2], -1)
        nowhere = torch.zeros(1, len(x), dtype=torch.long)
        index = torch.arange(len(points.x))[None]
        context = self.attention(
            query[None, None], key[None, None], points.y[None, None, :, None], Places(nowhere, nowhere), index, visible
        )
        return context[0, 0, :, 0]

    def forward(self, batch: Sample, state: State = None) -> tuple[dict[str, Term], State]:
        not_self = ~torch.eye(len(batch.x), dtype=torch.bool)[None, None]
        errors = self.read(batch.x, batch, not_self) - batch.y
        return {"loss": Term((errors**2).sum(), self.counts(batch)["loss"])}, None

    def counts(self, batch: Sample) -> dict[str, Tensor]:
        return {"loss": torch.tensor(len(batch.x))}


def truth(x: Tensor) -> Tensor:
    return 2 * torch.sin(x) + x**0.8


def kernel_mean(x: Tensor, points: Sample, bandwidth: float) -> Tensor:
    """Return y at x by the formula itself, as a reference."""
    kernels = torch.exp(-((x[:, None] - points.x) ** 2) / (2 * bandwidth**2))
    return kernels @ points.y / kernels.sum(-1)


def kernel_weights(x: Tensor, points: Sample, bandwidth: float) -> Tensor:
    return torch.softmax(-((x[:, None] - points.x) ** 2) / (2 * bandwidth**2), -1)


def run(scale: Scale, seed: int, report: Report) -> Finding:
    num_points, steps = SIZES[scale]
    source = generator(seed)
    x = (torch.rand(num_points, generator=source) * SPAN).sort().values
    points = Sample(x, truth(x) + NOISE * torch.randn(num_points, generator=source))
    model, places = KernelRegression(), torch.linspace(0, SPAN, PLACES)
    with torch.no_grad():
        before = model.read(places, points)
    apart = float((before - kernel_mean(places, points, BANDWIDTH)).abs().max())
    train_task(model, lambda number: points, steps=steps, seed=seed, learning_rate=0.03, name="kernel", report=report)
    with torch.no_grad():
        after = model.read(places, points)
    curves = {"the mean of all values": points.y.mean().expand(PLACES), f"h = {BANDWIDTH:g}": before, "h learnt": after}
    errors = {name: float((curve - truth(places)).square().mean().sqrt()) for name, curve in curves.items()}
    flat, fixed, learnt = errors.values()
    return Finding(
        "Attention before attention",
        "A mean of values, weighted by how close their keys are to the query, is the kernel regression of Nadaraya"
        " (1964) and Watson (1964). Attention is this mean with a learnt similarity.",
        f"Our attention layer equals the kernel formula to within {apart:.0e}. When it is trained to predict each of"
        f" {num_points} points from the others, its bandwidth changes from {BANDWIDTH:g} to {model.bandwidth:.2f}, and"
        f" the distance from the true curve from {fixed:.2f} to {learnt:.2f}. The mean of all values, which ignores the"
        f" query, has a distance of {flat:.2f}.",
        View(
            "Nadaraya-Watson regression as attention",
            parts_of(points, curves, places, errors, model.bandwidth),
            facts={"apart": apart},
        ),
        [
            ("attention against the kernel formula, largest difference", "0", f"{apart:.0e}"),
            (
                "root mean square distance from the curve: flat, fixed, learnt bandwidth",
                "falls",
                f"{flat:.2f}, {fixed:.2f}, {learnt:.2f}",
            ),
        ],
    )


def parts_of(
    points: Sample, curves: dict[str, Tensor], places: Tensor, errors: dict[str, float], bandwidth: float
) -> list[Part]:
    series = [Series("true curve", places.tolist(), truth(places).tolist(), dashed=True)]
    series += [Series(name, places.tolist(), curve.tolist()) for name, curve in curves.items()]
    points_and_fit = [
        Series("points", points.x.tolist(), points.y.tolist()),
        Series("h learnt", places.tolist(), curves["h learnt"].tolist()),
    ]
    texts = [[f"({x:.2f}, {y:.2f})" for x, y in zip(one.x, one.y, strict=True)] for one in points_and_fit]
    names = [f"{value:.1f}" for value in points.x.tolist()]
    maps: list[Part] = [
        Heatmap(
            kernel_weights(points.x, points, wide).numpy(),
            names,
            names,
            f"Weights, h = {wide:.2f}",
            "query at x",
            "key at x_i",
            low=0.0,
            label="weight",
            unit="%",
        )
        for wide in (BANDWIDTH, bandwidth)
    ]
    return [
        Lines(series, "x", "y", "The estimates from the points"),
        Points(points_and_fit, texts, "x", "y", "The points, and the estimate with the learnt bandwidth"),
        *maps,
        Table(
            ("weights", "root mean square distance from the true curve"),
            [(name, round(error, 3)) for name, error in errors.items()],
        ),
        Note("A narrow kernel averages few points, so it follows the curve closely, but also the noise."),
    ]


KERNEL = Experiment("kernel regression is attention", run)
