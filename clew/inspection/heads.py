"""A context in which some of a run's attention heads say nothing. Heads are called as in `clew.layers.heads`: `2.5`, `cross.2.5`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from clew.inspection.recording import intervene, plain_module
from clew.layers.heads import CROSS, DECODER, OWN, AttendingLayer, grouped
from clew.layers.heads import attending_layers as layers_of

__all__ = ["CROSS", "DECODER", "OWN", "AttendingLayer", "attending_layers", "head_names", "heads_off", "why_headless"]


def attending_layers(run: Any) -> list[AttendingLayer]:
    """Every layer of a run, a task or a body that attends, from the lowest, with the names of its heads and the path of their weights."""
    return layers_of(plain_module(run))


def head_names(run: Any) -> list[str]:
    return [name for layer in attending_layers(run) for name in layer.heads]


def why_headless(model: Any, name: str = "the model") -> str | None:
    """A sentence where a model has no attention of ours, whose heads can be switched off, else None: what `fits` of an instrument says."""
    return None if head_names(model) else f"{name} has no attention, and so no heads"


@contextmanager
def heads_off(run: Any, names: Iterable[str]) -> Iterator[None]:
    """Within this context the heads of these names contribute nothing: each of their weights is 0, and so is what they hand on.

    with heads_off(run, ["2.5", "cross.1.1"]):
        run.score("to be or not to be")
    """
    off = grouped(plain_module(run), names)
    with intervene(run, {layer.weights: silencing(heads) for layer, heads in off if heads}):
        yield


def silencing(heads: list[int]) -> Callable[[Tensor], Tensor]:
    def silence(weights: Tensor) -> Tensor:
        """Weights (batch, heads, query, key)."""
        keep = torch.ones(weights.shape[1], dtype=torch.bool, device=weights.device)
        keep[heads] = False
        return torch.where(keep[:, None, None], weights, weights.new_zeros(()))

    return silence
