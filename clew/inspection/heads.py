"""Switching off attention heads of a run. Heads are named as in `clew.layers.attending.heads`: `2.5`, `cross.2.5`."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from clew.inspection.recording import intervene, plain_module
from clew.layers.attending.heads import CROSS, DECODER, OWN, AttendingLayer, grouped
from clew.layers.attending.heads import attending_layers as layers_of

__all__ = ["CROSS", "DECODER", "OWN", "AttendingLayer", "head_names", "heads_off", "layers_with_heads", "why_headless"]


def layers_with_heads(run: Any) -> list[AttendingLayer]:
    """Return every attention layer of a run, task or body, the lowest first, with the names of its heads and the path
    of their weights."""
    return layers_of(plain_module(run))


def head_names(run: Any) -> list[str]:
    return [name for layer in layers_with_heads(run) for name in layer.heads]


def why_headless(model: Any, name: str = "the model") -> str | None:
    """Return why a model has no heads to switch off, or None if it has some; for `fits` of an instrument."""
    return None if head_names(model) else f"{name} has no attention, and so no heads"


@contextmanager
def heads_off(run: Any, names: Iterable[str]) -> Iterator[None]:
    """Switch off heads in this context: their weights are 0, and so is their output.

        with heads_off(run, ["2.5", "cross.1.1"]):
            run.score("to be or not to be")

    A name is `LAYER.HEAD`, counted from 1, with `cross.` before it where the head looks at a memory.
    """
    off = grouped(plain_module(run), names)
    with intervene(run, {layer.weights: silencing(heads) for layer, heads in off if heads}):
        yield


def silencing(heads: list[int]) -> Callable[[Tensor], Tensor]:
    def silence(weights: Tensor) -> Tensor:
        """Set weights (batch, heads, query, key) of the heads to 0."""
        keep = torch.ones(weights.shape[1], dtype=torch.bool, device=weights.device)
        keep[heads] = False
        return torch.where(keep[:, None, None], weights, weights.new_zeros(()))

    return silence
