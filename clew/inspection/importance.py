"""Importance of attention heads (Michel et al. 2019): the sensitivity of the loss to each head, and quality as heads
are removed.

The caller passes the data, as batches of the task or as a function that measures; nothing here reads a file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.drawing.views import Lines, Part, Series, View
from clew.inspection.heads import heads_off, layers_with_heads
from clew.inspection.recording import intervene, plain_module


class Masks:
    """Factors xi = 1 for each row and head, which multiply a layer's attention weights, so that gradients can be taken
    of them."""

    def __init__(self) -> None:
        self.factors: list[Tensor] = []

    def __call__(self, weights: Tensor) -> Tensor:
        """Multiply weights (rows, heads, query, key); the steps of a loop over time share their factors."""
        shape = (*weights.shape[:2], 1, 1)
        if not self.factors or self.factors[-1].shape != shape:
            self.factors.append(weights.new_ones(shape).requires_grad_())
        return weights * self.factors[-1]


def head_importance(run: Any, batches: Iterable[Any]) -> dict[str, float]:
    """Return the importance of each head: the expected sensitivity of the loss to it (Michel et al. 2019, equation 2).

        I_h = E_x | d L(x) / d xi_h |        xi_h = 1 multiplies the output of head h

    L(x) is the loss of one row of a batch, summed over its targets. Each row has its own factors, so that one backward
    pass gives every row's derivative and the mean of the absolute values is exact.
    """
    task = plain_module(run)
    layers = layers_with_heads(task)
    device = next(task.parameters()).device
    sums = {layer.name: torch.zeros(layer.num_heads, dtype=torch.float64) for layer in layers}
    num_rows, was_training = 0, task.training
    task.eval()
    try:
        for batch in batches:
            masks = {layer.name: Masks() for layer in layers}
            with intervene(task, {layer.weights: masks[layer.name] for layer in layers}), torch.enable_grad():
                terms, _ = task(to_device(batch, device), None)
                loss = torch.stack([term.weight * term.sum for term in terms.values()]).sum()
            used = {name: mask.factors for name, mask in masks.items() if mask.factors and mask.factors[0].shape[1]}
            flat = [mask for factors in used.values() for mask in factors]
            gradients = iter(torch.autograd.grad(loss, flat, allow_unused=True)) if flat else iter(())
            for name, factors in used.items():
                for _ in factors:
                    gradient = next(gradients)
                    if gradient is not None:
                        sums[name] += gradient.detach().abs().sum((0, 2, 3)).cpu().double()
            num_rows += max((len(factors[0]) for factors in used.values()), default=0)
    finally:
        task.train(was_training)
    if not num_rows:
        raise UserError("importance of heads needs examples, and there are none; give at least one batch")
    return {
        head: float(value) / num_rows
        for layer in layers
        for head, value in zip(layer.heads, sums[layer.name].tolist(), strict=True)
    }


def normalise_layers(importance: Mapping[str, float]) -> dict[str, float]:
    """Divide each importance by the norm of its layer's importances, as Molchanov et al. (2017) and Michel et al. do,
    since the scale of gradients differs between layers."""
    lengths: dict[str, float] = {}
    for name, value in importance.items():
        layer = name.rpartition(".")[0]
        lengths[layer] = lengths.get(layer, 0.0) + value**2
    return {name: value / (lengths[name.rpartition(".")[0]] ** 0.5 or 1.0) for name, value in importance.items()}


def leave_one_out(run: Any, quality: Callable[[], float]) -> dict[str, float]:
    """Return how much quality (higher is better) is lost without each head: that of the whole model minus that of the
    rest."""
    whole = quality()
    losses = {}
    for layer in layers_with_heads(run):
        for name in layer.heads:
            with heads_off(run, [name]):
                losses[name] = whole - quality()
    return losses


def rank_heads(importance: Mapping[str, float]) -> list[str]:
    """Sort heads from the least important; ties keep their order."""
    return sorted(importance, key=lambda name: importance[name])


class Point(NamedTuple):
    """Measures with `kept` of `total` heads."""

    kept: int
    total: int
    measures: dict[str, float]

    @property
    def share(self) -> float:
        return self.kept / self.total


def quality_curve(
    run: Any, order: Sequence[str], kept: Iterable[int], measure: Callable[[], dict[str, float]]
) -> list[Point]:
    """Measure with each number of heads in `kept`, switching off heads from the start of `order`."""
    points = []
    for count in sorted(set(kept), reverse=True):
        with ExitStack() as stack:
            if count < len(order):
                stack.enter_context(heads_off(run, order[: len(order) - count]))
            points.append(Point(count, len(order), measure()))
    return points


def curve_view(
    points: Sequence[Point], measure: str, importance: Mapping[str, float], about: str = "", label: str = ""
) -> View:
    """Show quality by heads kept; `label` is the measure with its unit."""
    line = Series(measure, [100 * point.share for point in points], [point.measures[measure] for point in points])
    parts: list[Part] = [Lines([line], "heads kept (%)", label or measure, f"{measure} against heads kept")]
    facts = {
        "points": [{"kept": point.kept, "total": point.total, **point.measures} for point in points],
        "importance": dict(importance),
    }
    return View("Quality against heads kept", parts, about, facts)
