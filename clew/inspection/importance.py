"""Which attention heads a model needs (Michel et al. 2019): what the loss would feel of each, and how quality falls as they go.

The data come from the caller, as batches of the task or as a function that measures; nothing here reads a file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.drawing.views import Lines, Part, Series, View
from clew.inspection.heads import attending_layers, heads_off
from clew.inspection.recording import intervene, plain_module


class Masks:
    """A factor xi for each row and head that a layer's weights are multiplied with, all 1: what gradients are taken of."""

    def __init__(self) -> None:
        self.made: list[Tensor] = []

    def __call__(self, weights: Tensor) -> Tensor:
        """Weights (rows, heads, query, key); steps of a loop over time share their factors."""
        shape = (*weights.shape[:2], 1, 1)
        if not self.made or self.made[-1].shape != shape:
            self.made.append(weights.new_ones(shape).requires_grad_())
        return weights * self.made[-1]


def head_importance(run: Any, batches: Iterable[Any]) -> dict[str, float]:
    """By head, the expectation over examples of how much the loss would change with the head's weight (Michel et al. 2019, equation 2).

        I_h = E_x | d L(x) / d xi_h |        xi_h multiplies what head h hands on, and is 1

    L(x) is the loss of one row of a batch, the sum over its targets. Rows have factors of their own, so that one backward pass gives every
    row's derivative and the mean of their sizes is exact.
    """
    task = plain_module(run)
    layers = attending_layers(task)
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
            used = {name: mask.made for name, mask in masks.items() if mask.made and mask.made[0].shape[1]}
            flat = [mask for made in used.values() for mask in made]
            gradients = iter(torch.autograd.grad(loss, flat, allow_unused=True)) if flat else iter(())
            for name, made in used.items():
                for _ in made:
                    gradient = next(gradients)
                    if gradient is not None:
                        sums[name] += gradient.detach().abs().sum((0, 2, 3)).cpu().double()
            num_rows += max((len(made[0]) for made in used.values()), default=0)
    finally:
        task.train(was_training)
    if not num_rows:
        raise UserError("there is no example to tell the importance of heads by; give at least one batch")
    return {head: float(value) / num_rows for layer in layers for head, value in zip(layer.heads, sums[layer.name].tolist(), strict=True)}


def normalised(importance: Mapping[str, float]) -> dict[str, float]:
    """Each divided by the length of its layer's vector of importances, as Molchanov et al. (2017) and Michel et al. have it: gradients are
    of another size in every layer."""
    lengths: dict[str, float] = {}
    for name, value in importance.items():
        layer = name.rpartition(".")[0]
        lengths[layer] = lengths.get(layer, 0.0) + value**2
    return {name: value / (lengths[name.rpartition(".")[0]] ** 0.5 or 1.0) for name, value in importance.items()}


def leave_one_out(run: Any, quality: Callable[[], float]) -> dict[str, float]:
    """By head, how much is lost of a quality (higher is better) without it: the quality of the whole minus that of the rest."""
    whole = quality()
    found = {}
    for layer in attending_layers(run):
        for name in layer.heads:
            with heads_off(run, [name]):
                found[name] = whole - quality()
    return found


def ranked(importance: Mapping[str, float]) -> list[str]:
    """Heads from the least important; those of equal importance in the order they stand in."""
    return sorted(importance, key=lambda name: importance[name])


class Point(NamedTuple):
    """What was measured with so many heads kept."""

    kept: int
    total: int
    measures: dict[str, float]

    @property
    def share(self) -> float:
        return self.kept / self.total


def quality_curve(run: Any, order: Sequence[str], kept: Iterable[int], measure: Callable[[], dict[str, float]]) -> list[Point]:
    """The measures with the heads at the beginning of `order` switched off, so that each number of heads in `kept` is left."""
    found = []
    for count in sorted(set(kept), reverse=True):
        with ExitStack() as stack:
            if count < len(order):
                stack.enter_context(heads_off(run, order[: len(order) - count]))
            found.append(Point(count, len(order), measure()))
    return found


def curve_view(points: Sequence[Point], measure: str, importance: Mapping[str, float], about: str = "", label: str = "") -> View:
    """Quality against heads kept; `label` is the measure with its unit."""
    line = Series(measure, [100 * point.share for point in points], [point.measures[measure] for point in points])
    parts: list[Part] = [Lines([line], "heads kept (%)", label or measure, f"{measure} against heads kept")]
    facts = {"points": [{"kept": point.kept, "total": point.total, **point.measures} for point in points], "importance": dict(importance)}
    return View("Quality against heads kept", parts, about, facts)
